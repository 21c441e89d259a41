"""AMOS with average pooling as torch operators, with shape functions and a gradient."""

from typing import Any

import torch
from torch import Tensor

from firstspike.kernels.device import on_device_of, triton_kernels
from firstspike.kernels.layout import empty_frames, is_channels_last
from firstspike.kernels.neuron_ops import UNROLLED_STEPS, neuron_arguments
from firstspike.kernels.sums import Sums, no_sums, programs_for, threshold_slots
from firstspike.kernels.windows import (
    ELEMENTS,
    dense_windows,
    empty_pooled,
    has_dense_rows,
    has_one_layout,
    has_rest,
    strides,
)

POOLS = (2, 3)
"""Windows whose neurons are unrolled inside the AMOS kernels."""

BACKWARD_ELEMENTS = 256
"""Windows of a program of the AMOS backward, which holds more of each in registers."""

PROGRAMS = 4096
"""As `neuron_ops.PROGRAMS`, for the AMOS backward with pooling."""

EAGER_LOADS = 32
"""Loads of a window, N * N * T, up to which the AMOS backward issues all of them before it computes."""


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
                **neuron_arguments(current, steps, threshold, level, tau, bias),
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
    grad = grad if has_dense_rows(grad) else grad.contiguous()
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
            **strides("grad", grad_current[0]),
            **neuron_arguments(current, grad.shape[0], threshold, level, tau, bias),
            N=size,
            FORCE_LAST=force_last,
            KIND=surrogate,
            EAGER=size * size * grad.shape[0] <= EAGER_LOADS and has_one_layout(grad[0], current[0]),
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
