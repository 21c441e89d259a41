"""Average pooling as torch operators, with shape functions and gradients: alone, and fused with AMOS."""

from typing import Any

import torch
from torch import Tensor

from firstspike.kernels.device import on_device_of, triton_kernels
from firstspike.kernels.layout import Tile, empty, empty_frames, is_channels_last, power_of_two
from firstspike.kernels.neuron_ops import UNROLLED_STEPS, Sums, no_sums, programs_for, threshold_slots

POOLS = (2, 3)
"""Windows whose neurons are unrolled inside the AMOS kernels."""

ELEMENTS = 512
"""Windows of a program (128 threads): 4 a thread."""

BACKWARD_ELEMENTS = 256
"""Windows of a program of the AMOS backward, which holds more of each in registers."""

PROGRAMS = 4096
"""As `neuron_ops.PROGRAMS`, for the AMOS backward with pooling."""

EAGER_LOADS = 32
"""Loads of a window, N * N * T, up to which the AMOS backward issues all of them before it computes."""


@torch.library.custom_op("firstspike::avg_pool", mutates_args=())
def avg_pool(frames: Tensor, size: int, contiguous: bool) -> Tensor:
    """`[T, B, C, H, W]` to `[T, B, C, H/n, W/n]`: laid out as the frames are, or contiguous if asked to be."""
    pooled = empty_pooled(frames, frames.shape[0], size, contiguous)
    if pooled.numel():
        whole, small = frames.flatten(0, 1), pooled.flatten(0, 1)
        arguments, tiles, kept_tiles = _windows(small, whole)
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
        arguments, tiles, kept_tiles = _windows(small, whole)
        with on_device_of(grad):
            triton_kernels("pool_triton").backward[(tiles * kept_tiles,)](
                grad=small, grad_frames=whole, **arguments, N=size
            )
    return grad_frames


@avg_pool_backward.register_fake
def _(grad: Tensor, shape: list[int], size: int, channels_last: bool) -> Tensor:
    return empty(shape, grad.dtype, grad.device, channels_last)


def _save_pool(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    frames, ctx.size, _ = inputs
    ctx.shape, ctx.channels_last = list(frames.shape), is_channels_last(frames)


def _differentiate_pool(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    backward = torch.ops.firstspike.avg_pool_backward
    return backward(grad, ctx.shape, ctx.size, ctx.channels_last), None, None


avg_pool.register_autograd(_differentiate_pool, setup_context=_save_pool)


@torch.library.custom_op("firstspike::amos_pooled", mutates_args=())
def amos_pooled(
    current: Tensor,
    steps: int,
    threshold: Tensor | None,
    level: float,
    force_last: bool,
    tau: float | None,
    surrogate: str,
    alpha: float,
    bias: Tensor | None,
    size: int,
    contiguous: bool,
) -> Tensor:
    """`avg_pool` of the spikes of `neuron_ops.amos`, which are never written."""
    pooled = empty_pooled(current, steps, size, contiguous)
    if pooled.numel():
        arguments, tiles, kept_tiles = dense_windows(pooled[0], current[0], ELEMENTS)
        with on_device_of(current):
            triton_kernels("pooled_triton").amos_forward[(tiles * kept_tiles,)](
                current=current,
                pooled=pooled,
                pooled_step=pooled.stride(0),
                **arguments,
                **_neuron(current, steps, threshold, level, tau, bias),
                N=size,
                FORCE_LAST=force_last,
            )
    return pooled


@amos_pooled.register_fake
def _(current: Tensor, steps: int, *rest: Any) -> Tensor:
    return empty_pooled(current, steps, *rest[-2:])


@torch.library.custom_op("firstspike::amos_pooled_backward", mutates_args=())
def amos_pooled_backward(
    grad: Tensor,
    current: Tensor,
    threshold: Tensor | None,
    level: float,
    force_last: bool,
    tau: float | None,
    surrogate: str,
    alpha: float,
    bias: Tensor | None,
    size: int,
    wants_threshold: bool,
    wants_bias: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of the current, of the threshold and of the bias: see `neuron_ops.amos_backward`."""
    grad_current = empty_frames(current, current.shape[0], current.dtype, is_channels_last(current))
    if has_rest(current.shape, size):
        grad_current.zero_()
    if not grad.numel():
        return grad_current, *no_sums(current, threshold, wants_threshold, wants_bias)
    slots = threshold_slots(threshold, wants_threshold)
    grad = grad if _has_dense_rows(grad) else grad.contiguous()
    arguments, tiles, kept_tiles = dense_windows(grad[0], current[0], BACKWARD_ELEMENTS)
    programs = programs_for(tiles, kept_tiles, PROGRAMS if wants_bias or wants_threshold else None)
    channels = current.shape[2]
    sums = Sums(current, programs, slots, channels, wants_threshold, wants_bias)
    with on_device_of(current):
        triton_kernels("pooled_triton").amos_backward[(programs * kept_tiles,)](
            grad=grad,
            current=current,
            grad_current=grad_current,
            grad_bias=sums.bias,
            grad_threshold=sums.threshold,
            alpha=alpha,
            pooled_step=grad.stride(0),
            grad_step=grad_current.stride(0),
            programs=programs,
            **arguments,
            **_strides("grad", grad_current[0]),
            **_neuron(current, grad.shape[0], threshold, level, tau, bias),
            N=size,
            FORCE_LAST=force_last,
            KIND=surrogate,
            EAGER=size * size * grad.shape[0] <= EAGER_LOADS and _has_one_layout(grad[0], current[0]),
            BLOCK_S=slots,
        )
    return grad_current, *sums.read(threshold, channels)


@amos_pooled_backward.register_fake
def _(grad: Tensor, current: Tensor, threshold: Tensor | None, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    grad_current = empty_frames(current, current.shape[0], current.dtype, is_channels_last(current))
    return grad_current, *no_sums(current, threshold, *rest[-2:])


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    current, _, threshold, *ctx.options, bias, ctx.size, _ = inputs
    ctx.save_for_backward(current, threshold, bias)


def _differentiate(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    current, threshold, bias = ctx.saved_tensors
    wants_threshold, wants_bias = ctx.needs_input_grad[2], ctx.needs_input_grad[8]
    grad_current, grad_threshold, grad_bias = torch.ops.firstspike.amos_pooled_backward(
        grad, current, threshold, *ctx.options, bias, ctx.size, wants_threshold, wants_bias
    )
    grad_threshold = grad_threshold.to(threshold.dtype) if wants_threshold else None
    grad_bias = grad_bias.to(bias.dtype) if wants_bias else None
    return grad_current, None, grad_threshold, *[None] * 5, grad_bias, None, None


amos_pooled.register_autograd(_differentiate, setup_context=_save)


def fuses(current: Tensor, steps: int, size: int) -> bool:
    """Whether the AMOS kernels pool windows of this size for so many steps."""
    return current.dim() == 5 and steps <= UNROLLED_STEPS and size in POOLS


def _windows(pooled: Tensor, frames: Tensor, elements: int = ELEMENTS) -> tuple[dict[str, Any], int, int]:
    """The arguments that say where pooled `[B, C, H/n, W/n]` and whole frames lie, and the number of tiles."""
    batch, channels, height, width = pooled.shape
    places = batch * height * width
    if frames.stride(1) != 1:
        kept = max(1, min(power_of_two(channels), elements // power_of_two(places)))
    else:
        # Two layouts at once: as many channels as leave 16 places, a sector of memory (32 bytes), for the other
        kept = min(power_of_two(channels), 256 if pooled.stride(1) == 1 else max(1, elements // 16))
    kept = min(kept, elements)
    blocks = Tile(min(power_of_two(places), elements // kept), kept)
    tiles, kept_tiles = blocks.counts(places, channels)
    arguments = {
        **_strides("frames", frames),
        **_strides("pooled", pooled),
        "R": places,
        "K": channels,
        "height": height,
        "width": width,
        "kept_tiles": kept_tiles,
        **blocks._asdict(),
    }
    return arguments, tiles, kept_tiles


def dense_windows(pooled: Tensor, frames: Tensor, elements: int) -> tuple[dict[str, Any], int, int]:
    """`_windows` for the AMOS kernels, which take pooled frames with dense rows as places side by side."""
    arguments, tiles, kept_tiles = _windows(pooled, frames, elements)
    del arguments["pooled_y"]
    return arguments | {"area": pooled.shape[2] * pooled.shape[3]}, tiles, kept_tiles


def _has_dense_rows(pooled: Tensor) -> bool:
    """Whether the rows of each frame follow each other without a gap, so that places have one stride."""
    return pooled.stride(-2) == pooled.shape[-1] * pooled.stride(-1)


def _has_one_layout(pooled: Tensor, frames: Tensor) -> bool:
    """Whether pooled and whole frames are both channels-last, or neither."""
    return (pooled.stride(1) == 1) == (frames.stride(1) == 1)


def _strides(name: str, frames: Tensor) -> dict[str, int]:
    """The strides of `[B, C, H, W]` as a kernel takes them."""
    return {f"{name}_{axis}": stride for axis, stride in zip("bcyx", frames.stride(), strict=True)}


def _neuron(
    current: Tensor,
    steps: int,
    threshold: Tensor | None,
    level: float,
    tau: float | None,
    bias: Tensor | None,
) -> dict[str, Any]:
    """The arguments that forward and backward share."""
    constant = current.shape[0] < steps
    return {
        "bias": bias,
        "thresholds": threshold,
        "level": level,
        "tau": 1.0 if tau is None else tau,
        "current_step": 0 if constant else current.stride(0),
        "threshold_step": threshold.stride(0) if threshold is not None and len(threshold) > 1 else 0,
        "T": steps,
        "CONSTANT": constant,
        "LEAKY": tau is not None,
    }


def empty_pooled(frames: Tensor, steps: int, size: int, contiguous: bool) -> Tensor:
    """Uninitialised pooled frames `[steps, B, C, H/n, W/n]`, laid out as the frames are, or contiguous."""
    batch, channels, height, width = frames.shape[1:]
    shape = [steps, batch, channels, height // size, width // size]
    return empty(shape, frames.dtype, frames.device, is_channels_last(frames) and not contiguous)


def has_rest(shape: torch.Size | list[int], size: int) -> bool:
    """Whether rows or columns are left over that no window covers."""
    return shape[-2] % size > 0 or shape[-1] % size > 0
