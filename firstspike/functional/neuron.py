"""The at-most-one-spike (AMOS) neuron.

For a current X, membrane H, threshold V, mask F and spike S, at each time step t:

    H[t] = H[t-1] + X[t]                       IF
    H[t] = H[t-1] + (X[t] - H[t-1]) / tau      LIF
    S[t] = (1 - F[t-1]) * step(H[t] - V)       step(0) = 1
    F[t] = F[t-1] + S[t]                       H[-1] = F[-1] = 0, no reset

so S[t] = 1 at the first crossing of the threshold and nowhere else.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from firstspike.errors import FirstspikeError
from firstspike.functional.surrogate import ATAN, Surrogate


def amos(
    current: Tensor,
    threshold: float | Tensor = 1.0,
    force_last: bool = False,
    tau: float | None = None,
    surrogate: Surrogate = ATAN,
    bias: Tensor | None = None,
) -> Tensor:
    """Spikes of AMOS neurons driven by `current`.

    Args:
        current: `[T, B, ...]`, floating point. The membrane is accumulated in float32 or wider.
        threshold: V, a number or a tensor that broadcasts against `current`.
        force_last: make neurons that have not fired do so at step T-1 (the paper's training rule).
        tau: None for IF, the time constant (>= 1) for LIF.
        surrogate: what stands in for the derivative of the step function.
        bias: `[C]`, added to the current of channel C (axis 2) at every step.

    Returns:
        Spikes `[T, B, ...]`, 0 or 1, in the dtype of `current`. Differentiable in `current`, `threshold`
        and `bias`, through the mask: see `first_crossing`.
    """
    membrane = charge(current, tau, bias)
    return first_crossing(membrane - threshold, force_last, surrogate).to(current.dtype)


def charge(current: Tensor, tau: float | None = None, bias: Tensor | None = None) -> Tensor:
    """Membrane potential H `[T, B, ...]` of neurons that never reset, in float32 or wider."""
    check_current(current)
    check_tau(tau)
    shift = 0.0 if bias is None else per_channel(bias, current.dim() - 1)
    accumulator = torch.promote_types(current.dtype, torch.float32)
    membrane = torch.zeros((), dtype=accumulator, device=current.device)
    history = []
    for frame in current.to(accumulator):
        membrane = integrate(membrane, frame + shift, tau)
        history.append(membrane)
    check_finite(membrane)  # NaN and infinity survive addition, so the last step tells of all steps
    return torch.stack(history)


def integrate(membrane: Tensor, current: Tensor, tau: float | None) -> Tensor:
    """One charging step, f(H[t-1], X[t]): IF without `tau`, LIF with it."""
    return membrane + current if tau is None else membrane + (current - membrane) / tau


def first_crossing(overdrive: Tensor, force_last: bool = False, surrogate: Surrogate = ATAN) -> Tensor:
    """1 at the first step with `overdrive` = H - V >= 0, else 0; `[T, B, ...]` in, the same out.

    Backward is the closed form of differentiating S and F through the mask. With g = dL/dS, t1 the spike
    time and t2 the next step at or above the threshold (T-1 if there is none and the last spike is forced),

        dL/d step[k] = g[k] - g[t1]     k < t1    what if it had fired at k instead
                       g[t1] - g[t2]    k = t1    what if it had not fired yet
                       0                k > t1, and at k = T-1 when forced

    where g[t] = 0 for a spike that never comes. The surrogate's derivative at H[k] - V multiplies it.
    """
    return _FirstCrossing.apply(overdrive, force_last, surrogate)  # type: ignore[no-any-return,no-untyped-call]


class _FirstCrossing(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, overdrive: Tensor, force_last: bool, surrogate: Surrogate) -> Tensor:
        above = overdrive >= 0
        if force_last:
            above[-1] = True
        spikes = _first_true(above)
        ctx.save_for_backward(overdrive, spikes)
        ctx.force_last, ctx.surrogate = force_last, surrogate
        return spikes.to(overdrive.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        overdrive, spikes = ctx.saved_tensors
        unfired = spikes.cumsum(0) == 0
        above = overdrive >= 0
        if ctx.force_last:
            above[-1] = True
        next_crossing = _first_true(above & ~unfired & ~spikes)
        grad_first = torch.where(spikes, grad, 0).sum(0)
        grad_next = torch.where(next_crossing, grad, 0).sum(0)
        grad_step = torch.where(unfired, grad - grad_first, 0)
        grad_step = torch.where(spikes, grad_first - grad_next, grad_step)
        if ctx.force_last:
            grad_step[-1] = 0
        return grad_step * ctx.surrogate.derivative(overdrive), None, None


def _first_true(flags: Tensor) -> Tensor:
    """Keep only the first true along axis 0."""
    return flags & (flags.cumsum(0) == 1)


class NeuronState(NamedTuple):
    """What a neuron remembers between steps."""

    membrane: Tensor
    """H[t-1], `[B, ...]`."""
    fired: Tensor
    """F[t-1] as booleans, `[B, ...]`."""

    def keep(self, samples: Tensor) -> "NeuronState":
        """The state of some samples of the batch only (indices, or a boolean mask)."""
        return NeuronState(self.membrane[samples], self.fired[samples])


def amos_step(
    current: Tensor,
    state: NeuronState | None,
    threshold: float | Tensor = 1.0,
    tau: float | None = None,
    bias: Tensor | None = None,
) -> tuple[Tensor, NeuronState]:
    """One time step of `amos`: current `[B, ...]` in, spikes `[B, ...]` and the next state out.

    A `state` of None is the state before the first step.
    """
    check_tau(tau)
    shift = 0.0 if bias is None else per_channel(bias, current.dim())
    drive = current.to(torch.promote_types(current.dtype, torch.float32)) + shift
    if state is None:
        state = NeuronState(torch.zeros_like(drive), torch.zeros_like(drive, dtype=torch.bool))
    membrane = integrate(state.membrane, drive, tau)
    check_finite(membrane)
    spikes = (membrane - threshold >= 0) & ~state.fired
    return spikes.to(current.dtype), NeuronState(membrane, state.fired | spikes)


def per_channel(values: Tensor, rank: int) -> Tensor:
    """Shape `[..., C]` so that C meets axis 1 of a frame `[B, C, ...]` that has `rank` axes."""
    return values.reshape(*values.shape[:-1], 1, values.shape[-1], *[1] * (rank - 2))


def check_current(current: Tensor) -> None:
    """Refuse what cannot be a current `[T, B, ...]`."""
    if current.dim() < 2:
        raise FirstspikeError(
            f"A current has shape [T, B, ...], but this one has shape {list(current.shape)}: "
            "put the time steps on the first axis and the batch on the second."
        )
    if current.shape[0] < 1:
        raise FirstspikeError(f"A current needs at least one step, but its shape is {list(current.shape)}.")
    if not current.is_floating_point():
        raise FirstspikeError(f"A current is floating point, not {current.dtype}: convert it with .float().")


NOT_FINITE = (
    "The current has NaN or infinite values: check the input for NaN, and the weights for divergence "
    "(a lower learning rate, gradient clipping)."
)


def check_finite(membrane: Tensor) -> None:
    """Refuse a membrane that a current with NaN or infinity has charged.

    On CUDA the look would stall the device at every layer; training watches the loss there instead.
    """
    watched = membrane.device.type == "cpu" and not torch.compiler.is_compiling()
    if watched and not bool(torch.isfinite(membrane).all()):
        raise FirstspikeError(NOT_FINITE)


def check_tau(tau: float | None) -> None:
    """Refuse a time constant with which the membrane would overshoot or never move."""
    if tau is not None and not tau >= 1:
        raise FirstspikeError(f"tau must be at least 1 for a LIF neuron (None for IF), not {tau}.")
