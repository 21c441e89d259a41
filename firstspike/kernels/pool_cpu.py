"""Average pooling on the CPU, as sums of strided views: several times as fast as `F.avg_pool2d` there."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def takes(frames: Tensor) -> bool:
    """Whether `avg_pool` takes these frames: on the CPU, outside torch.compile."""
    return frames.device.type == "cpu" and frames.is_floating_point() and not torch.compiler.is_compiling()


def avg_pool(frames: Tensor, size: int) -> Tensor:
    """`[..., H, W]` in, `[..., H/n, W/n]` out; rows and columns that fill no window are left out."""
    return _AvgPool.apply(frames, size)  # type: ignore[no-any-return, no-untyped-call]


class _AvgPool(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, frames: Tensor, size: int) -> Tensor:
        ctx.shape, ctx.size = frames.shape, size
        return _sum_windows(_sum_windows(frames, size, -2), size, -1).div_(size * size)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        *lead, height, width = ctx.shape
        size = ctx.size
        share = grad / (size * size)
        rows, columns = grad.shape[-2] * size, grad.shape[-1] * size
        whole = rows == height and columns == width
        grad_frames = (grad.new_empty if whole else grad.new_zeros)(*lead, height, width)
        windows = grad_frames[..., :rows, :columns]
        for row in range(size):
            for column in range(size):
                windows[..., row::size, column::size] = share
        return grad_frames, None


def _sum_windows(frames: Tensor, size: int, axis: int) -> Tensor:
    """The sums of each `size` neighbours along an axis."""
    length = frames.shape[axis] // size * size
    whole = frames.narrow(axis, 0, length)
    index: list[Any] = [..., slice(None), slice(None)]
    index[axis] = slice(0, None, size)
    total = whole[tuple(index)].clone()
    for offset in range(1, size):
        index[axis] = slice(offset, None, size)
        total += whole[tuple(index)]
    return total
