"""AdamW for a normalised weight, from the gradient of what it is normalised to, in one pass over memory."""

import math

import torch
from torch import Tensor

from firstspike.functional.normalisation import EPSILON, fan_in
from firstspike.kernels.device import on_device_of, triton_kernels
from firstspike.kernels.layout import power_of_two
from firstspike.kernels.weight import ROW, fuses

CHUNK = 2048
"""Weights of a row that are updated at a time: 4 a thread, so that 16- and 32-bit values lie alike."""

AHEAD = 3
"""Chunks whose moments are on their way while the sums of the row are made."""


def takes(weight: Tensor, gain: Tensor | None) -> bool:
    """Whether the kernel takes this weight: one that `normalise_weight` fuses, in rows that fit registers."""
    return fuses(weight, gain, weight.dtype) and fan_in(weight) <= ROW


@torch.library.custom_op(
    "firstspike::adam_normalised", mutates_args=("weight", "exp_avg", "exp_avg_sq", "grad_gain", "squares")
)
def adam_normalised(
    grad: Tensor,
    weight: Tensor,
    exp_avg: Tensor,
    exp_avg_sq: Tensor,
    gain: Tensor | None,
    means: Tensor,
    scales: Tensor,
    grad_gain: Tensor | None,
    squares: Tensor,
    step: Tensor,
    lr: Tensor,
    std: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    weight_decay: float,
) -> None:
    """`weight.normalise_backward` and then a step of `torch.optim.AdamW`; dL/dW is never stored.

    Args:
        grad: the gradient of the normalised weight, laid out as the weight is.
        grad_gain: where the gain's gradient goes, `[out]` float32.
        squares: where |dL/dW|^2 of each row goes, `[out]` float32.
        step: the number of this step, from 1, on the device.
        lr: the learning rate, on the device.
    """
    inputs = fan_in(weight)
    block = min(power_of_two(inputs), CHUNK)
    chunks = -(-inputs // block)
    with on_device_of(weight):
        triton_kernels("adam_triton").update[(len(weight),)](
            grad,
            weight,
            exp_avg,
            exp_avg_sq,
            gain,
            means,
            scales,
            grad_gain,
            squares,
            step,
            lr,
            std,
            EPSILON,
            1 - beta1,
            1 - beta2,
            math.log(beta1) if beta1 else -math.inf,
            math.log(beta2) if beta2 else -math.inf,
            epsilon,
            weight_decay,
            inputs,
            CHUNKS=chunks,
            AHEAD=min(AHEAD, chunks),
            BLOCK=block,
            num_warps=max(1, block // 128),
        )


@adam_normalised.register_fake
def _(*_: object) -> None:
    return None
