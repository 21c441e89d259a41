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

HAS_NUMBA = importlib.util.find_spec("numba") is not None


def takes(current: Tensor, threshold: float | Tensor, bias: Tensor | None) -> bool:
    """Whether the kernels take these: float32 on the CPU, with one fixed threshold, outside torch.compile."""
    return (
        HAS_NUMBA
        and current.device.type == "cpu"
        and current.dtype == torch.float32
        and current.dim() >= 3
        and 1 <= current.shape[0] <= MAX_STEPS
        and current.numel() > 0
        and not isinstance(threshold, Tensor)
        and (bias is None or (bias.shape == current.shape[2:3] and bias.dtype == torch.float32))
        and not torch.compiler.is_compiling()
    )


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

    Args:
        pool: average the spikes over windows of this side; then the current is `[T, B, C, H, W]`.
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

        frames = frames.contiguous()
        *lead, width = frames.shape[1:]
        small = [*lead[:-1], lead[-1] // pool, width // pool] if pool > 1 else [*lead, width]
        spikes = frames.new_empty(steps, *small)
        times = torch.empty(frames.shape[1:], dtype=torch.uint8)
        rows, columns = _bias_parts(frames, bias)
        bad = neuron_numba.forward(
            _rows(frames),
            rows,
            columns,
            threshold,
            leak,
            force_last,
            _rows(spikes),
            _rows(times[None])[0],
            width,
            pool,
        )
        if bad:
            raise FirstspikeError(NOT_FINITE)
        ctx.save_for_backward(frames, bias, times)
        ctx.settings = threshold, leak, force_last, surrogate, pool
        return spikes

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        from firstspike.kernels import neuron_numba

        frames, bias, times = ctx.saved_tensors
        threshold, leak, force_last, surrogate, pool = ctx.settings
        out = torch.empty_like(frames)
        rows, columns = _bias_parts(frames, bias)
        row_sums = torch.empty(_rows(frames).shape[1])
        neuron_numba.backward(
            _rows(grad.contiguous()),
            _rows(frames),
            _rows(times[None])[0],
            rows,
            columns,
            threshold,
            leak,
            force_last,
            neuron_numba.SURROGATES[surrogate.kind],
            surrogate.alpha,
            _rows(out),
            row_sums.numpy(),
            frames.shape[-1],
            pool,
        )
        grad_bias = None
        if bias is not None and ctx.needs_input_grad[1]:
            spatial = frames.dim() > 3
            grad_bias = row_sums.view(-1, len(bias)).sum(0) if spatial else out.sum((0, 1))
        return out, grad_bias, None, None, None, None, None, None


def _rows(frames: Tensor) -> Any:
    """A contiguous `[T, B, C, ...]` as a numpy array `[T, R, L]`: see `neuron_numba`."""
    start = 2 if frames.dim() > 3 else 1
    rows = frames.detach().flatten(start + 1) if frames.dim() > 3 else frames.detach()
    return rows.reshape(frames.shape[0], -1, rows.shape[-1]).numpy()


def _bias_parts(frames: Tensor, bias: Tensor | None) -> tuple[Any, Any]:
    """The bias by rows and by columns, one of them zero."""
    length = frames[0, 0, 0].numel() if frames.dim() > 3 else frames.shape[2]
    rows, columns = torch.zeros(1), torch.zeros(length)
    if bias is not None and frames.dim() > 3:
        rows = bias.detach().contiguous()
    elif bias is not None:
        columns = bias.detach().contiguous()
    return rows.numpy(), columns.numpy()
