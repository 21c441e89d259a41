"""Gradients of normalised weights that wait for the optimiser before they are carried on to the weights."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from firstspike.kernels import adam, weight


class Deferred:
    """The gradient of a weight as it is normalised, from one `zero_grad` to the next.

    It is half as large as the weight's own, which is never made: `adam` updates the weight from here, and
    `settle` makes it after all, for those who need it.
    """

    def __init__(self, weight: Tensor, gain: Tensor | None, std: float) -> None:
        self.weight, self.gain, self.std = weight, gain, std
        self.grad: Tensor | None = None
        """dL/d normalised weight, in its dtype, summed over the passes so far."""
        self.squares: Tensor | None = None
        """|dL/dW|^2 of each row, once the weight is updated."""
        self.means: Tensor
        self.scales: Tensor

    def normalise(self, dtype: torch.dtype) -> Tensor:
        """`kernels.normalise_weight` per channel, whose backward ends here."""
        normalised: Tensor = _Normalise.apply(self.weight, dtype, self)  # type: ignore[no-untyped-call]
        return normalised

    def adam(
        self,
        moments: tuple[Tensor, Tensor],
        step: Tensor,
        lr: Tensor,
        betas: tuple[float, float],
        epsilon: float,
        weight_decay: float,
    ) -> None:
        """Update the weight and its `moments` by AdamW, and give the gain its gradient; then forget the gradient."""
        assert self.grad is not None
        self.squares = torch.empty_like(self.means)
        grad_gain = torch.empty_like(self.means) if self._wants_gain else None
        adam.adam_normalised(
            self.grad,
            self.weight.detach(),
            *moments,
            self.gain,
            self.means,
            self.scales,
            grad_gain,
            self.squares,
            step,
            lr,
            self.std,
            *betas,
            epsilon,
            weight_decay,
        )
        self._add_to_gain(grad_gain)
        self.grad = None

    def settle(self) -> None:
        """Carry the gradient on to the weight and the gain, as if it had never been deferred."""
        if self.grad is None:
            return
        options = (self.gain, self.means, self.scales, self.std, self._wants_gain)
        grad_weight, grad_gain = weight.normalise_backward(self.grad, self.weight, *options)
        self.weight.grad = grad_weight if self.weight.grad is None else self.weight.grad + grad_weight
        self._add_to_gain(grad_gain if self._wants_gain else None)
        self.grad = None

    @property
    def _wants_gain(self) -> bool:
        return self.gain is not None and self.gain.requires_grad

    def _add_to_gain(self, grad: Tensor | None) -> None:
        if grad is not None and self.gain is not None:
            grad = grad.to(self.gain.dtype)
            self.gain.grad = grad if self.gain.grad is None else self.gain.grad + grad


class _Normalise(torch.autograd.Function):
    """A normalised weight whose gradient goes to a `Deferred`, and no further."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, dtype: torch.dtype, deferred: Deferred) -> Tensor:
        ctx.deferred, gain, std = deferred, deferred.gain, deferred.std
        normalised, deferred.means, deferred.scales = weight.normalise(values, gain, std, dtype)
        return normalised  # type: ignore[no-any-return]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, None, None]:
        deferred = ctx.deferred
        if grad.stride() != deferred.weight.stride():
            grad = torch.empty_like(deferred.weight, dtype=grad.dtype).copy_(grad)
        deferred.grad = grad if deferred.grad is None else deferred.grad.float() + grad
        return None, None, None
