"""`functional.amos` on the CPU, through numba's kernels where numba is installed."""

import importlib.util
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from firstspike.errors import FirstspikeError
from firstspike.functional.neuron import NOT_FINITE, check_tau
from firstspike.functional.surrogate import Surrogate
from firstspike.functional.times import MAX_STEPS
from firstspike.kernels.layout import as_laid_out, empty
from firstspike.kernels.rows import Rows, lie_channels_last

HAS_NUMBA = importlib.util.find_spec("numba") is not None


def takes(current: Tensor, threshold: float | Tensor, bias: Tensor | None) -> bool:
    """Whether the kernels take these: on the CPU, with one fixed threshold, outside torch.compile."""
    return (
        HAS_NUMBA
        and current.device.type == "cpu"
        and current.dtype in (torch.float32, torch.bfloat16)
        and current.dim() >= 3
        and 1 <= current.shape[0] <= MAX_STEPS
        and current.numel() > 0
        and not isinstance(threshold, Tensor)
        and (bias is None or (bias.shape == current.shape[2:3] and bias.dtype == torch.float32))
        and not torch.compiler.is_compiling()
    )


def pools(current: Tensor, size: int) -> bool:
    """Whether the kernels pool a current that they take: rows of channels-last frames are whole windows."""
    return size == 1 or current.shape[3] % size == 0 or not lie_channels_last(current)


def amos(
    current: Tensor,
    threshold: float,
    force_last: bool,
    tau: float | None,
    surrogate: Surrogate,
    bias: Tensor | None,
    steps: int | None = None,
    pool: int = 1,
) -> Tensor:
    """Spikes `[T, B, C, ...]` of a current that `takes` accepts; `[1, B, C, ...]` stands for all T = `steps`.

    They come in the layout of the current, contiguous or channels-last.

    Args:
        pool: average the spikes over windows of this side, where it `pools`; the current is `[T, B, C, H, W]`.
    """
    check_tau(tau)
    steps = steps or current.shape[0]
    constant = current.shape[0] > 1 and current.stride(0) == 0
    frames = current[:1] if constant else current
    return _Amos.apply(frames, bias, steps, threshold, force_last, tau or 0.0, surrogate, pool)  # type: ignore[no-any-return, no-untyped-call]


class _Amos(torch.autograd.Function):
    """Spikes of `frames` `[T or 1, B, C, ...]`, pooled; one frame stands for all steps."""

    @staticmethod
    def forward(
        ctx: Any,
        frames: Tensor,
        bias: Tensor | None,
        steps: int,
        threshold: float,
        force_last: bool,
        leak: float,
        surrogate: Surrogate,
        pool: int,
    ) -> Tensor:
        from firstspike.kernels import neuron_numba

        rows = Rows.of(frames, pool)
        frames = as_laid_out(frames, rows.channels_last)
        *lead, height, width = frames.shape[1:]
        positions = [height // pool, width // pool] if pool > 1 else [height, width]
        spikes = empty([steps, *lead, *positions], frames.dtype, frames.device, rows.channels_last)
        times = torch.empty(rows.number, rows.lines * rows.span, dtype=torch.uint8)
        shifts, columns = rows.biases(bias)
        bad = neuron_numba.forward(
            rows,
            rows.view(frames),
            shifts,
            columns,
            threshold,
            leak,
            force_last,
            rows.view(spikes),
            times.numpy(),
        )
        if bad:
            raise FirstspikeError(NOT_FINITE)
        ctx.save_for_backward(frames, bias, times)
        ctx.settings = rows, threshold, leak, force_last, surrogate
        return spikes

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        from firstspike.kernels import neuron_numba

        frames, bias, times = ctx.saved_tensors
        rows, threshold, leak, force_last, surrogate = ctx.settings
        out = empty(frames.shape, frames.dtype, frames.device, rows.channels_last)
        sums = torch.empty(rows.number, rows.beside)
        shifts, columns = rows.biases(bias)
        neuron_numba.backward(
            rows,
            rows.view(as_laid_out(grad, rows.channels_last)),
            rows.view(frames),
            times.numpy(),
            shifts,
            columns,
            threshold,
            leak,
            force_last,
            neuron_numba.SURROGATES[surrogate.kind],
            surrogate.alpha,
            rows.view(out),
            sums.numpy(),
        )
        wanted = bias is not None and ctx.needs_input_grad[1]
        grad_bias = sums.view(-1, frames.shape[2]).sum(0) if wanted else None
        return out, grad_bias, None, None, None, None, None, None
