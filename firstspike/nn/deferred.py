"""Gradients of normalised weights that wait for the optimiser before they are carried on to the weights."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from firstspike.errors import FirstspikeError
from firstspike.kernels import adam, weight


class Deferred:
    """The gradient of a weight as it is normalised, from the optimiser's `zero_grad` to its step.

    It is half as large as the weight's own (in bfloat16), and lies where the normalised weight lay. The weight's
    own is never made: `adam` updates the weight from here, and `settle` makes it after all, for those who need it.
    """

    def __init__(self, weight: Tensor, gain: Tensor | None, std: float) -> None:
        self.weight, self.gain, self.std = weight, gain, std
        self.is_open = True
        """Whether gradients are still deferred: until the optimiser's step."""
        self.grad: Tensor | None = None
        """dL/d normalised weight, in its dtype, summed over the passes so far."""
        self.squares: Tensor | None = None
        """|dL/dW|^2 of each row, once the weight is updated."""
        self.means: Tensor
        self.scales: Tensor

    def linear(self, spikes: Tensor) -> Tensor:
        """`F.linear` of spikes `[N, in]` and the normalised weight, whose gradient comes here."""
        current: Tensor = _Linear.apply(spikes, self.weight, self)  # type: ignore[no-untyped-call]
        return current

    def normalise(self, dtype: torch.dtype) -> Tensor:
        """`kernels.normalise_weight` per channel, without a gradient."""
        normalised, self.means, self.scales = weight.normalise(self.weight, self.gain, self.std, dtype)
        return normalised  # type: ignore[no-any-return]

    def add(self, grad: Tensor) -> None:
        """Take a gradient of the normalised weight; several are added up in float32."""
        self.grad = grad if self.grad is None else self.grad.float() + grad

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


class _Linear(torch.autograd.Function):
    """Spikes times the normalised weight; in backward, the gradient of that weight takes its place in memory."""

    @staticmethod
    def forward(ctx: Any, spikes: Tensor, _: Tensor, deferred: Deferred) -> Tensor:
        ctx.deferred, ctx.normalised = deferred, deferred.normalise(spikes.dtype)
        ctx.save_for_backward(spikes)
        return F.linear(spikes, ctx.normalised)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, None, None]:
        (spikes,) = ctx.saved_tensors
        normalised, ctx.normalised = ctx.normalised, None
        if normalised is None:
            raise FirstspikeError("A training step has one backward pass: run the network again for another.")
        grad_spikes = grad @ normalised if ctx.needs_input_grad[0] else None
        ctx.deferred.add(torch.mm(grad.T, spikes, out=normalised))
        return grad_spikes, None, None
