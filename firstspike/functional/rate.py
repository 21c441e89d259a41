"""Rate coding, the baseline: neurons that fire as often as their current makes them, and are reset.

For a current X, membrane H before and V after the reset, threshold v and spike S, at each time step t:

    H[t] = V[t-1] + X[t]                       IF       (LIF: V + (X - V) / tau)
    S[t] = step(H[t] - v)                      step(0) = 1
    V[t] = H[t] * (1 - S[t])                   hard reset
    V[t] = H[t] - v * S[t]                     soft reset
"""

from typing import Any, Literal, get_args

import torch
from torch import Tensor

from firstspike.errors import FirstspikeError
from firstspike.functional.neuron import check_current, check_finite, check_tau, integrate
from firstspike.functional.surrogate import ATAN, Surrogate

Reset = Literal["hard", "soft"]


def integrate_and_fire(
    current: Tensor,
    threshold: float | Tensor = 1.0,
    reset: Reset = "hard",
    tau: float | None = None,
    surrogate: Surrogate = ATAN,
) -> Tensor:
    """Spikes `[T, B, ...]` of neurons that are reset when they fire; differentiable, through the reset too."""
    check_current(current)
    check_tau(tau)
    if reset not in get_args(Reset):
        raise FirstspikeError(f"Unknown reset {reset!r}: choose hard or soft.")
    membrane = torch.zeros((), dtype=torch.promote_types(current.dtype, torch.float32), device=current.device)
    history = []
    for frame in current.to(membrane.dtype):
        charged = integrate(membrane, frame, tau)
        spikes: Tensor = _Step.apply(charged - threshold, surrogate)  # type: ignore[no-untyped-call]
        membrane = charged * (1 - spikes) if reset == "hard" else charged - threshold * spikes
        history.append(spikes)
    check_finite(charged)
    return torch.stack(history).to(current.dtype)


def mean_rate(spikes: Tensor) -> Tensor:
    """The mean firing rate decoder: `[T, B, C]` in, `[B, C]` in [0, 1] out."""
    return spikes.float().mean(0)


class _Step(torch.autograd.Function):
    """step(u) forward, the surrogate's derivative backward."""

    @staticmethod
    def forward(ctx: Any, overdrive: Tensor, surrogate: Surrogate) -> Tensor:
        ctx.save_for_backward(overdrive)
        ctx.surrogate = surrogate
        return (overdrive >= 0).to(overdrive.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (overdrive,) = ctx.saved_tensors
        return grad * ctx.surrogate.derivative(overdrive), None
