"""AMOS made fast: `functional.amos` as one kernel forward and one backward, for the device at hand."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from firstspike import functional
from firstspike.functional.neuron import check_tau
from firstspike.functional.surrogate import ATAN, Surrogate
from firstspike.functional.times import MAX_STEPS
from firstspike.kernels import neuron_cpu, neuron_ops
from firstspike.kernels.device import runs_triton
from firstspike.kernels.layout import dense_frames

DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def amos(
    current: Tensor,
    threshold: float | Tensor = 1.0,
    force_last: bool = False,
    tau: float | None = None,
    surrogate: Surrogate = ATAN,
    bias: Tensor | None = None,
) -> Tensor:
    """`functional.amos`, fused where the device allows it: same arguments, same spikes, same gradients.

    The kernel reads the current once and keeps, for backward, the current and one byte a neuron. It takes
    `[T, B, C, ...]` in float32, bfloat16 or float16, contiguous or channels-last (the spikes come in the
    same layout), and a threshold that varies over steps and channels at most. All else is left to
    `functional.amos`.

    A current with stride 0 in time (the direct-coded first layer) is read as the one frame it is. Backward
    then computes the sum over time, which is all that the frame receives, and shares it out evenly among the
    steps; only a current that is itself a leaf gets the gradient of each step.
    """
    if neuron_cpu.takes(current, threshold, bias):
        return neuron_cpu.amos(current, float(threshold), force_last, tau, surrogate, bias)
    levels = _levels(threshold, current) if isinstance(threshold, Tensor) else None
    fused = takes(current, bias) and (levels is None) is not isinstance(threshold, Tensor)
    if not fused:
        return functional.amos(current, threshold, force_last, tau, surrogate, bias)
    check_tau(tau)
    steps = current.shape[0]
    if steps > 1 and current.stride(0) == 0 and not (current.is_leaf and current.requires_grad):
        # The compiler simplifies the plain view's gradient itself, and need not trace a Function
        current = current[:1] if torch.compiler.is_compiling() else one_frame(current)
    level = 0.0 if isinstance(threshold, Tensor) else float(threshold)
    spikes: Tensor
    spikes, _ = neuron_ops.amos(
        dense_frames(current), steps, levels, level, force_last, tau, surrogate.kind, surrogate.alpha, bias
    )
    return spikes


def takes(current: Tensor, bias: Tensor | None) -> bool:
    """Whether the kernels take this current and bias; what may be wrong with them, `functional` says."""
    return (
        runs_triton(current)
        and current.dtype in DTYPES
        and current.dim() >= 3
        and 1 <= current.shape[0] <= MAX_STEPS
        and (bias is None or (bias.shape == current.shape[2:3] and _is_beside(bias, current)))
    )


def _levels(threshold: Tensor, current: Tensor) -> Tensor | None:
    """A threshold that broadcasts against `[T, B, C, ...]` as `[1 or T, C]`; None if it varies elsewhere."""
    ones = [1] * (current.dim() - threshold.dim())
    if current.dim() < 3 or threshold.dim() > current.dim() or not _is_beside(threshold, current):
        return None
    steps, batch, channels, *positions = [*ones, *threshold.shape]
    fits = steps in (1, current.shape[0]) and channels in (1, current.shape[2])
    if not fits or any(size != 1 for size in (batch, *positions)):
        return None
    return threshold.reshape(steps, channels).expand(steps, current.shape[2]).contiguous()


def _is_beside(values: Tensor, current: Tensor) -> bool:
    """Whether a parameter is where the current is, and no wider than the kernel's float32."""
    return values.device == current.device and values.dtype in DTYPES


def one_frame(frames: Tensor) -> Tensor:
    """`[T, B, ...]` with stride 0 in time as `[1, B, ...]`, and the gradient back without T frames of it."""
    return _OneFrame.apply(frames)  # type: ignore[no-any-return, no-untyped-call]


class _OneFrame(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, frames: Tensor) -> Tensor:
        ctx.steps = frames.shape[0]
        return frames[:1]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        steps: int = ctx.steps
        return (grad / steps).expand(steps, *grad.shape[1:])
