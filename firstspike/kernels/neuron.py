"""AMOS made fast: `functional.amos` as one kernel forward and one backward, for the device at hand."""

import torch
import torch.nn.functional as F
from torch import Tensor

from firstspike import functional
from firstspike.functional.neuron import check_tau
from firstspike.functional.surrogate import ATAN, Surrogate
from firstspike.functional.times import MAX_STEPS
from firstspike.kernels import neuron_cpu, neuron_ops, pool_cpu, pool_ops, pooled_ops
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
    steps: int | None = None,
    pool: int = 1,
    contiguous: bool = False,
) -> Tensor:
    """`functional.amos`, fused where the device allows it: same spikes, same gradients.

    The kernel reads the current once and keeps, for backward, the current and nothing else. It takes
    `[T, B, C, ...]` in float32, bfloat16 or float16, contiguous or channels-last (the spikes come in the
    same layout), and a threshold that varies over steps and channels at most. All else is left to
    `functional.amos`.

    Args:
        steps: T, where a current `[1, B, C, ...]` stands for all of them (the direct-coded first layer).
        pool: average the spikes over windows of this side, in the same kernel: frames of single neurons are
            then never written.
        contiguous: whether pooled spikes come contiguous whatever the current's layout, for a fully connected
            layer to read.
    """
    steps = len(current) if steps is None or steps == 1 else steps
    if steps > 1 and len(current) > 1 and current.stride(0) == 0 and not current.requires_grad:
        current = current[:1]  # constant in time, but nobody said so
    if neuron_cpu.takes(current, threshold, bias) and not runs_triton(current):
        inside = pool if neuron_cpu.pools(current, pool) else 1
        spikes = neuron_cpu.amos(current, float(threshold), force_last, tau, surrogate, bias, steps, inside)
        return avg_pool(spikes, pool // inside, contiguous)
    levels = _levels(threshold, current, steps) if isinstance(threshold, Tensor) else None
    fused = takes(current, bias, steps) and (levels is None) is not isinstance(threshold, Tensor)
    if not fused:
        current = current.expand(steps, *current.shape[1:])
        spikes = functional.amos(current, threshold, force_last, tau, surrogate, bias)
        return avg_pool(spikes, pool, contiguous)
    check_tau(tau)
    level = 0.0 if isinstance(threshold, Tensor) else float(threshold)
    arguments = (steps, levels, level, force_last, tau, surrogate.kind, surrogate.alpha, bias)
    if pool > 1 and pooled_ops.fuses(current, steps, pool):
        pooled: Tensor = pooled_ops.amos_pooled(dense_frames(current), *arguments, pool, contiguous)
        return pooled
    spikes = neuron_ops.amos(dense_frames(current), *arguments)
    return avg_pool(spikes, pool, contiguous)


def avg_pool(spikes: Tensor, size: int, contiguous: bool = False) -> Tensor:
    """Average pooling of frames: `[T, B, C, H, W]` in, `[T, B, C, H/n, W/n]` out, in the layout of the frames.

    Args:
        contiguous: as in `amos`.
    """
    if size == 1:
        return spikes.contiguous() if contiguous else spikes
    if runs_triton(spikes) and spikes.dtype in DTYPES and spikes.dim() == 5:
        pooled: Tensor = pool_ops.avg_pool(dense_frames(spikes), size, contiguous)
        return pooled
    if pool_cpu.takes(spikes):
        pooled = pool_cpu.avg_pool(spikes, size)
    else:
        frames = F.avg_pool2d(spikes.flatten(0, 1), size)
        pooled = frames.view(*spikes.shape[:2], *frames.shape[1:])
    return pooled.contiguous() if contiguous else pooled


def takes(current: Tensor, bias: Tensor | None, steps: int) -> bool:
    """Whether the kernels take this current and bias; what may be wrong with them, `functional` says."""
    return (
        runs_triton(current)
        and current.dtype in DTYPES
        and current.dim() >= 3
        and 1 <= steps <= MAX_STEPS
        and current.shape[0] in (1, steps)
        and (bias is None or (bias.shape == current.shape[2:3] and _is_beside(bias, current)))
    )


def _levels(threshold: Tensor, current: Tensor, T: int) -> Tensor | None:
    """A threshold that broadcasts against `[T, B, C, ...]` as `[1 or T, C]`; None if it varies elsewhere."""
    ones = [1] * (current.dim() - threshold.dim())
    if current.dim() < 3 or threshold.dim() > current.dim() or not _is_beside(threshold, current):
        return None
    steps, batch, channels, *positions = [*ones, *threshold.shape]
    fits = steps in (1, T) and channels in (1, current.shape[2])
    if not fits or any(size != 1 for size in (batch, *positions)):
        return None
    return threshold.reshape(steps, channels).expand(steps, current.shape[2]).contiguous()


def _is_beside(values: Tensor, current: Tensor) -> bool:
    """Whether a parameter is where the current is, and no wider than the kernel's float32."""
    return values.device == current.device and values.dtype in DTYPES
