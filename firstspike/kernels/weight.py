"""Weight normalisation on the GPU: `functional.normalise_weight` as one kernel forward and one backward."""

from typing import Any

import torch
from torch import Tensor

from firstspike import functional
from firstspike.functional.normalisation import EPSILON, NormalisationScope, fan_in
from firstspike.kernels.device import on_device_of, runs_triton, triton_kernels
from firstspike.kernels.layout import power_of_two

ROW = 16384
"""The longest row that stays in a program's registers (SCNN6's widest fan-in)."""

DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def normalise_weight(
    weight: Tensor,
    std: float,
    per: NormalisationScope = "channel",
    gain: Tensor | None = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """`functional.normalise_weight`, fused where the device allows it.

    The kernel takes a float32 weight whose channels are dense in memory (contiguous or channels-last; the
    result has the same layout), normalised per channel. All else is left to `functional`.
    """
    dtype = dtype or weight.dtype
    if per != "channel" or not fuses(weight, gain, dtype):
        return functional.normalise_weight(weight, std, per, gain, dtype)
    normalised: Tensor = normalise(weight, gain, std, dtype)[0]
    return normalised


def fuses(weight: Tensor, gain: Tensor | None, dtype: torch.dtype) -> bool:
    """Whether the kernels take this weight and gain, normalised per channel into `dtype`."""
    return (
        runs_triton(weight)
        and weight.dtype == torch.float32
        and weight.dim() >= 2
        and weight.numel() > 0
        and _is_dense(weight)
        and dtype in DTYPES
        and (gain is None or (gain.shape == weight.shape[:1] and gain.dtype in DTYPES))
        and (gain is None or gain.device == weight.device)
    )


@torch.library.custom_op("firstspike::normalise_weight", mutates_args=())
def normalise(
    weight: Tensor, gain: Tensor | None, std: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    """The normalised weight, and the rows' means and 1 / sqrt(var + eps) for backward."""
    normalised, means, scales = _empty(weight, gain, std, dtype)
    with on_device_of(weight):
        triton_kernels("weight_triton").forward[(len(weight),)](
            weight, gain, normalised, means, scales, std, EPSILON, fan_in(weight), **_launch(weight)
        )
    return normalised, means, scales


@normalise.register_fake
def _empty(
    weight: Tensor, gain: Tensor | None, std: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    rows = weight.shape[0]
    return torch.empty_like(weight, dtype=dtype), weight.new_empty(rows), weight.new_empty(rows)


@torch.library.custom_op("firstspike::normalise_weight_backward", mutates_args=())
def normalise_backward(
    grad: Tensor,
    weight: Tensor,
    gain: Tensor | None,
    means: Tensor,
    scales: Tensor,
    std: float,
    wants_gain: bool,
) -> tuple[Tensor, Tensor]:
    """Gradients of the weight and of the gain, in float32; the latter is empty if it is not wanted."""
    if grad.stride() != weight.stride():
        grad = torch.empty_like(weight, dtype=grad.dtype).copy_(grad)
    grad_weight, grad_gain = _empty_grads(grad, weight, gain, means, scales, std, wants_gain)
    with on_device_of(weight):
        triton_kernels("weight_triton").backward[(len(weight),)](
            grad,
            weight,
            gain,
            means,
            scales,
            grad_weight,
            grad_gain if wants_gain else None,
            std,
            fan_in(weight),
            **_launch(weight),
        )
    return grad_weight, grad_gain


@normalise_backward.register_fake
def _empty_grads(
    grad: Tensor,
    weight: Tensor,
    gain: Tensor | None,
    means: Tensor,
    scales: Tensor,
    std: float,
    wants_gain: bool,
) -> tuple[Tensor, Tensor]:
    return torch.empty_like(weight), weight.new_empty(weight.shape[0] if wants_gain else 0)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    weight, gain, ctx.std, _ = inputs
    ctx.save_for_backward(weight, gain, *output[1:])
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)


def _differentiate(ctx: Any, grad: Tensor | None, *_: Tensor | None) -> tuple[Tensor | None, ...]:
    if grad is None:
        return (None,) * 4
    weight, gain, means, scales = ctx.saved_tensors
    wants_gain = ctx.needs_input_grad[1]
    grad_weight, grad_gain = torch.ops.firstspike.normalise_weight_backward(
        grad, weight, gain, means, scales, ctx.std, wants_gain
    )
    return grad_weight, grad_gain.to(gain.dtype) if wants_gain else None, None, None


normalise.register_autograd(_differentiate, setup_context=_save)


def _launch(weight: Tensor) -> dict[str, Any]:
    """Block and warps for rows of this length: at most 32 weights a thread."""
    inputs = fan_in(weight)
    block = min(power_of_two(inputs), ROW)
    return {"ONE_BLOCK": inputs <= ROW, "BLOCK": block, "num_warps": max(1, min(16, block // 512))}


def _is_dense(weight: Tensor) -> bool:
    """Whether each output channel is one unbroken row of memory, whatever the order within it."""
    return weight.is_contiguous() or weight.movedim(1, -1).is_contiguous()
