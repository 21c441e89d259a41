"""The AMOS kernels as torch operators, with shape functions and a gradient.

`firstspike::amos` and its backward are opaque to torch.compile and torch.export, which need only the
shapes. Triton is imported when the first of them runs.
"""

from typing import Any

import torch
from torch import Tensor

from firstspike.kernels.device import on_device_of, triton_kernels
from firstspike.kernels.layout import Plane, as_laid_out, empty_frames, is_channels_last, plane, tile
from firstspike.kernels.sums import Sums, no_sums, programs_for, threshold_slots

UNROLLED_STEPS = 16
"""Up to this T a neuron's steps are held in registers."""

BACKWARD_ELEMENTS = 512
"""Neurons of a backward program: 4 a thread, so that T = 8 leaves room for 24 warps a multiprocessor."""

PROGRAMS = 8192
"""Programs of a backward launch that leaves partial sums: enough to fill a GPU, few enough to add up."""


@torch.library.custom_op("firstspike::amos", mutates_args=())
def amos(
    current: Tensor,
    steps: int,
    threshold: Tensor | None,
    level: float,
    force_last: bool,
    tau: float | None,
    surrogate: str,
    alpha: float,
    bias: Tensor | None,
) -> Tensor:
    """Spikes `[T, B, C, ...]` for dense frames of current.

    The current is `[T, B, C, ...]`, or `[1, B, C, ...]` when it is the same at all T = `steps`. The
    threshold is the number `level`, or the tensor `[1 or T, C]` where one is given.
    """
    channels_last = is_channels_last(current)
    spikes = empty_frames(current, steps, current.dtype, channels_last)
    if current.numel():
        walk = plane(current, channels_last)
        blocks = tile(walk, _forward_elements(current, steps))
        reduced_tiles, kept_tiles = blocks.counts(walk.reduced, walk.kept)
        with on_device_of(current):
            _kernels(steps).forward[(reduced_tiles * kept_tiles,)](
                current=current,
                spikes=spikes,
                spikes_step=spikes.stride(0),
                kept_tiles=kept_tiles,
                **neuron_arguments(current, steps, threshold, level, tau, bias),
                **_plane(walk),
                FORCE_LAST=force_last,
                **blocks._asdict(),
            )
    return spikes


@amos.register_fake
def _(current: Tensor, steps: int, *_: object) -> Tensor:
    return empty_frames(current, steps, current.dtype, is_channels_last(current))


@torch.library.custom_op("firstspike::amos_backward", mutates_args=())
def amos_backward(
    grad: Tensor,
    current: Tensor,
    threshold: Tensor | None,
    level: float,
    force_last: bool,
    tau: float | None,
    surrogate: str,
    alpha: float,
    bias: Tensor | None,
    wants_threshold: bool,
    wants_bias: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of the current, of the threshold `[1 or T, C]` and of the bias `[C]`.

    The last two are float32, and empty where they are not wanted.
    """
    channels_last = is_channels_last(current)
    grad = as_laid_out(grad, channels_last)
    steps, channels = grad.shape[0], current.shape[2]
    grad_current = empty_frames(current, current.shape[0], current.dtype, channels_last)
    if not current.numel():
        return grad_current, *no_sums(current, threshold, wants_threshold, wants_bias)

    walk = plane(current, channels_last)
    slots = threshold_slots(threshold, wants_threshold)
    blocks = tile(walk, BACKWARD_ELEMENTS, most_kept=256 if slots <= UNROLLED_STEPS else 32)
    tiles, kept_tiles = blocks.counts(walk.reduced, walk.kept)
    programs = programs_for(tiles, kept_tiles, PROGRAMS if wants_bias or wants_threshold else None)
    sums = Sums(current, programs, slots, walk.kept, wants_threshold, wants_bias)
    scratch: dict[str, Any] = {}
    if steps > UNROLLED_STEPS:
        slopes = empty_frames(current, steps, torch.float32, channels_last)
        scratch = {"scratch": slopes, "scratch_step": slopes.stride(0)}
    with on_device_of(current):
        _kernels(steps).backward[(programs * kept_tiles,)](
            grad=grad,
            current=current,
            grad_current=grad_current,
            grad_bias=sums.bias,
            grad_threshold=sums.threshold,
            alpha=alpha,
            grad_step=grad.stride(0),
            grad_current_step=grad_current.stride(0),
            programs=programs,
            kept_tiles=kept_tiles,
            **scratch,
            **neuron_arguments(current, steps, threshold, level, tau, bias),
            **_plane(walk),
            FORCE_LAST=force_last,
            KIND=surrogate,
            BLOCK_S=slots,
            **blocks._asdict(),
        )
    return grad_current, *sums.read(threshold, channels)


@amos_backward.register_fake
def _(grad: Tensor, current: Tensor, threshold: Tensor | None, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    grad_current = empty_frames(current, current.shape[0], current.dtype, is_channels_last(current))
    return grad_current, *no_sums(current, threshold, *rest[-2:])


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    current, _, threshold, *ctx.options, bias = inputs
    ctx.save_for_backward(current, threshold, bias)


def _differentiate(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    current, threshold, bias = ctx.saved_tensors
    wants_threshold, wants_bias = ctx.needs_input_grad[2], ctx.needs_input_grad[8]
    grad_current, grad_threshold, grad_bias = torch.ops.firstspike.amos_backward(
        grad, current, threshold, *ctx.options, bias, wants_threshold, wants_bias
    )
    grad_threshold = grad_threshold.to(threshold.dtype) if wants_threshold else None
    grad_bias = grad_bias.to(bias.dtype) if wants_bias else None
    return grad_current, None, grad_threshold, None, None, None, None, None, grad_bias


amos.register_autograd(_differentiate, setup_context=_save)


def _kernels(steps: int) -> Any:
    """The module whose kernels suit this T."""
    return triton_kernels("neuron_triton" if steps <= UNROLLED_STEPS else "neuron_triton_long")


def _forward_elements(current: Tensor, steps: int) -> int:
    """Neurons of a forward program (128 threads): 16 bytes a thread and load, while T leaves registers."""
    return 1024 if steps <= 8 and current.element_size() == 2 else 512


def neuron_arguments(
    current: Tensor,
    steps: int,
    threshold: Tensor | None,
    level: float,
    tau: float | None,
    bias: Tensor | None,
) -> dict[str, Any]:
    """The arguments that all AMOS kernels share, forward and backward."""
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


def _plane(walk: Plane) -> dict[str, int]:
    """The arguments that say how to walk over a frame."""
    return {
        "R": walk.reduced,
        "K": walk.kept,
        "r_stride": walk.reduced_stride,
        "k_stride": walk.kept_stride,
        "C": walk.channels,
    }
