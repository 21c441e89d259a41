"""Muon: momentum whose update is made orthogonal, for weight matrices and convolutions."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

# Coefficients of the quintic iteration that drives all singular values towards 1 (Keller Jordan's Muon).
_QUINTIC = (3.4445, -4.7750, 2.0315)


class Muon(Optimizer):
    """Nesterov momentum, orthogonalised by Newton-Schulz steps; each update has a root mean square near 1.

    A weight `[out, in, ...]` is taken as an `out x fan-in` matrix, which `torch.optim.Muon` does not do for
    convolutions. Weights of one shape are orthogonalised together in batched products, because for small
    layers the launches cost more than the arithmetic.
    """

    def __init__(
        self, params: Iterable[Any], lr: float = 0.02, momentum: float = 0.95, weight_decay: float = 0.0
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            by_shape: dict[tuple[int, ...], list[Tensor]] = defaultdict(list)
            for weight in group["params"]:
                if weight.grad is not None:
                    by_shape[tuple(weight.shape)].append(weight)
            for weights in by_shape.values():
                self._step_together(weights, group["lr"], group["momentum"], group["weight_decay"])

    def _step_together(
        self, weights: list[Tensor], lr: float | Tensor, momentum: float, decay: float
    ) -> None:
        grads = [weight.grad for weight in weights if weight.grad is not None]
        for weight in weights:
            if "momentum" not in self.state[weight]:
                self.state[weight]["momentum"] = torch.zeros_like(weight)
        buffers = [self.state[weight]["momentum"] for weight in weights]
        torch._foreach_lerp_(buffers, grads, 1 - momentum)
        nesterov = torch._foreach_lerp(grads, buffers, momentum)
        update = orthogonalise(torch.stack([matrix.flatten(1) for matrix in nesterov]))
        scale = max(update.shape[1:]) ** 0.5
        if decay:
            torch._foreach_mul_(weights, 1 - lr * decay)
        updates = [matrix.view_as(weight) for matrix, weight in zip(update, weights, strict=True)]
        if isinstance(lr, Tensor):  # on the device, not to be waited for
            torch._foreach_mul_(updates, -lr * scale)
            torch._foreach_add_(weights, updates)
        else:
            torch._foreach_add_(weights, updates, alpha=-lr * scale)


def orthogonalise(matrices: Tensor, steps: int = 5) -> Tensor:
    """Roughly the nearest (semi-)orthogonal matrices to `[N, r, c]`, in bfloat16 on CUDA.

    Five steps bring singular values to between about 0.7 and 1.2, which serves as well as 1.
    """
    a, b, c = _QUINTIC
    tall = matrices.shape[1] > matrices.shape[2]
    dtype = torch.bfloat16 if matrices.device.type == "cuda" else matrices.dtype
    x = (matrices.mT if tall else matrices).to(dtype)
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(steps):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return (x.mT if tall else x).to(matrices.dtype)
