"""The paper's recursion, word for word, for autograd: the reference that `amos` is tested against.

Nothing here is shared with the package: the step function gets its derivative from a smooth primitive that
autograd differentiates, and the gradient flows through the mask because nothing is detached.
"""

import math

import torch
from torch import Tensor


def smooth_step(kind: str, alpha: float, u: Tensor) -> Tensor:
    """The function from 0 to 1 whose derivative is the surrogate of that kind."""
    if kind == "atan":
        return torch.atan(math.pi / 2 * alpha * u) / math.pi + 0.5
    if kind == "sigmoid":
        return torch.sigmoid(alpha * u)
    ends = (u > 0).to(u)
    if kind == "triangle":
        return torch.where(u.abs() < 1 / alpha, 0.5 + alpha * u - (alpha * u) * (alpha * u).abs() / 2, ends)
    if kind == "rectangular":
        return torch.where(u.abs() < 1 / (2 * alpha), 0.5 + alpha * u, ends)
    raise ValueError(kind)


def step(kind: str, alpha: float, u: Tensor) -> Tensor:
    """Exactly 0 or 1, with 1 at u = 0, and the derivative of `smooth_step`."""
    smooth = smooth_step(kind, alpha, u)
    return (u >= 0).to(u) + (smooth - smooth.detach())


def recursion(
    current: Tensor,
    threshold: float | Tensor = 1.0,
    force_last: bool = False,
    tau: float | None = None,
    kind: str = "atan",
    alpha: float = 2.0,
    bias: Tensor | None = None,
) -> Tensor:
    """Spikes `[T, B, C, ...]` of current `[T, B, C, ...]`; `threshold` broadcasts against the current."""
    T = len(current)
    threshold = torch.as_tensor(threshold, dtype=current.dtype).expand_as(current)
    membrane = torch.zeros_like(current[0])
    mask = torch.zeros_like(current[0])
    spikes = []
    for t in range(T):
        given = current[t]
        if bias is not None:
            given = (given.movedim(1, -1) + bias).movedim(-1, 1)
        membrane = membrane + given if tau is None else membrane + (given - membrane) / tau
        spike = (1 - mask) * step(kind, alpha, membrane - threshold[t])
        mask = mask + spike
        if force_last and t == T - 1:
            spike = spike + 1 - mask
        spikes.append(spike)
    return torch.stack(spikes)
