"""Initialisation and weight normalisation: keeping the current's variance where neurons can fire."""

import math
from typing import Literal

import torch
from torch import Tensor

from firstspike.errors import FirstspikeError

NormalisationScope = Literal["channel", "layer"]

EPSILON = 1e-8


def fan_in(weight: Tensor) -> int:
    """N: the inputs of one output unit, from a weight `[out, in, ...]` (conv: C_in * kernel elements)."""
    return math.prod(weight.shape[1:])


def ettfs_std(inputs: int, T: int, variance: float = 1.0) -> float:
    """sigma = sqrt(v * T / N): the weight deviation at which the current's mean variance per step is v.

    It holds for inputs that each sum to 1 over the T steps (the one-spike property).
    """
    return math.sqrt(variance * T / inputs)


def ettfs_init_(weight: Tensor, T: int, variance: float = 1.0) -> Tensor:
    """ETTFS-init, in place: W ~ U(-a, a), a = sqrt(3 v T / N)."""
    bound = math.sqrt(3) * ettfs_std(fan_in(weight), T, variance)
    with torch.no_grad():
        return weight.uniform_(-bound, bound)


def kaiming_init_(weight: Tensor) -> Tensor:
    """PyTorch's default, the paper's baseline, in place: W ~ U(-1/sqrt(N), 1/sqrt(N))."""
    bound = 1 / math.sqrt(fan_in(weight))
    with torch.no_grad():
        return weight.uniform_(-bound, bound)


def normalise_weight(
    weight: Tensor,
    std: float,
    per: NormalisationScope = "channel",
    gain: Tensor | None = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """W <- gain * (W - mean) / sqrt(var + eps) * std, for a weight `[out, in, ...]`.

    Args:
        std: the deviation wanted, `ettfs_std(...)`.
        per: take mean and variance over each output channel, or over the whole layer as the paper writes it.
        gain: `[out]`, the affine's scale, folded in here because it commutes with the synapse.
        dtype: of the result (default: the weight's); the arithmetic is in the weight's own.
    """
    match per:
        case "channel":
            axes = tuple(range(1, weight.dim()))
        case "layer":
            axes = tuple(range(weight.dim()))
        case _:
            raise FirstspikeError(f"Unknown normalisation scope {per!r}: choose channel or layer.")
    variance, mean = torch.var_mean(weight, axes, correction=0, keepdim=True)
    normalised = (weight - mean) * (std * torch.rsqrt(variance + EPSILON))
    if gain is not None:
        normalised = scale_channels(normalised, gain)
    return normalised if dtype is None else normalised.to(dtype)


def scale_channels(weight: Tensor, gain: Tensor) -> Tensor:
    """Multiply each output channel of a weight `[out, in, ...]` by its gain `[out]`."""
    return weight * gain.view(-1, *[1] * (weight.dim() - 1))
