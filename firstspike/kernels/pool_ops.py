"""Average pooling alone as a torch operator, with shape functions and a gradient."""

from typing import Any

import torch
from torch import Tensor

from firstspike.kernels.device import on_device_of, triton_kernels
from firstspike.kernels.layout import empty, is_channels_last
from firstspike.kernels.windows import ELEMENTS, empty_pooled, has_rest, windows


@torch.library.custom_op("firstspike::avg_pool", mutates_args=())
def avg_pool(frames: Tensor, size: int, contiguous: bool) -> Tensor:
    """`[T, B, C, H, W]` to `[T, B, C, H/n, W/n]`: laid out as the frames are, or contiguous if asked to be."""
    pooled = empty_pooled(frames, frames.shape[0], size, contiguous)
    if pooled.numel():
        whole, small = frames.flatten(0, 1), pooled.flatten(0, 1)
        arguments, tiles, kept_tiles = windows(small, whole, ELEMENTS)
        with on_device_of(frames):
            triton_kernels("pool_triton").forward[(tiles * kept_tiles,)](
                frames=whole, pooled=small, **arguments, N=size
            )
    return pooled


@avg_pool.register_fake
def _(frames: Tensor, size: int, contiguous: bool) -> Tensor:
    return empty_pooled(frames, frames.shape[0], size, contiguous)


@torch.library.custom_op("firstspike::avg_pool_backward", mutates_args=())
def avg_pool_backward(grad: Tensor, shape: list[int], size: int, channels_last: bool) -> Tensor:
    """The gradient of frames of this shape and layout."""
    grad_frames = empty(shape, grad.dtype, grad.device, channels_last)
    if has_rest(shape, size):
        grad_frames.zero_()
    if grad.numel():
        whole, small = grad_frames.flatten(0, 1), grad.flatten(0, 1)
        arguments, tiles, kept_tiles = windows(small, whole, ELEMENTS)
        with on_device_of(grad):
            triton_kernels("pool_triton").backward[(tiles * kept_tiles,)](
                grad=small, grad_frames=whole, **arguments, N=size
            )
    return grad_frames


@avg_pool_backward.register_fake
def _(grad: Tensor, shape: list[int], size: int, channels_last: bool) -> Tensor:
    return empty(shape, grad.dtype, grad.device, channels_last)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    frames, ctx.size, _ = inputs
    ctx.shape, ctx.channels_last = list(frames.shape), is_channels_last(frames)


def _differentiate(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    backward = torch.ops.firstspike.avg_pool_backward
    return backward(grad, ctx.shape, ctx.size, ctx.channels_last), None, None


avg_pool.register_autograd(_differentiate, setup_context=_save)
