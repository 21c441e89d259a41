"""From the spikes of the output layer to logits for training, and to an answer."""

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from firstspike.errors import FirstspikeError
from firstspike.functional.times import check_steps

Decay = Literal["exponential", "linear"]
TieRule = Literal["strict", "potential"]


def temporal_weights(T: int, decay: Decay = "linear", gamma: float = 1.0) -> Tensor:
    """The weights w[t] of the temporal weighting decoder, `[T]`.

    exponential: w[t] = gamma^-t; linear: w[t] = gamma * (T - t) / T.
    """
    steps = torch.arange(check_steps(T), dtype=torch.float32)
    match decay:
        case "exponential":
            return float(gamma) ** -steps
        case "linear":
            return gamma * (T - steps) / T
        case _:
            raise FirstspikeError(f"Unknown decay {decay!r}: choose exponential or linear.")


def temporal_weighting(spikes: Tensor, weights: Tensor) -> Tensor:
    """Y = sum_t w[t] O[t]: spikes `[T, B, C]` and weights `[T]` in, logits `[B, C]` out."""
    if weights.shape != spikes.shape[:1]:
        raise FirstspikeError(
            f"The decoder has {len(weights)} temporal weights, but the output has {spikes.shape[0]} steps."
        )
    return torch.einsum("t,tbc->bc", weights.to(spikes), spikes)


def first_spike(spikes: Tensor) -> Tensor:
    """Logits = -(first spike time), `[T, B, C]` in, `[B, C]` out; a silent neuron counts as T.

    This is the project's stand-in for the TQ-TTFS decoder, whose formula is not public to us.
    """
    T = spikes.shape[0]
    remaining = torch.arange(T, 0, -1, dtype=spikes.dtype, device=spikes.device)
    return torch.einsum("t,tbc->bc", remaining, spikes) - T


def mean_membrane(membrane: Tensor) -> Tensor:
    """Logits from the output membrane, averaged over the steps: `[T, B, C]` in, `[B, C]` out."""
    return membrane.mean(0)


class Prediction(NamedTuple):
    """The network's answer for each sample of a batch."""

    label: Tensor
    """int64 `[B]`."""
    steps: Tensor
    """Steps taken until the answer, counted from 1; T for a silent sample. int64 `[B]`."""
    tied: Tensor
    """Whether more than one class fired first. bool `[B]`."""
    silent: Tensor
    """Whether no class fired at all. bool `[B]`."""


def predict(times: Tensor, membrane: Tensor, ties: TieRule = "strict") -> Prediction:
    """The class that fires first.

    Args:
        times: spike times of the output layer, uint8 `[B, C]`.
        membrane: its membrane potential, `[T, B, C]`.
        ties: `strict` answers a tie with its lowest index, and a silent sample with class 0; `potential`
            with the highest membrane at the step of the tie, or at the last step.
    """
    if ties not in ("strict", "potential"):
        raise FirstspikeError(f"Unknown tie rule {ties!r}: choose strict or potential.")
    T = membrane.shape[0]
    first = times.amin(1).long()
    silent = first == T
    at_first = (times == first[:, None]) & ~silent[:, None]
    if ties == "strict":
        label = times.argmin(1)  # the lowest index among equals is what argmin returns
    else:
        decisive = membrane[first.clamp(max=T - 1), torch.arange(len(first), device=first.device)]
        label = decisive.masked_fill(~at_first & ~silent[:, None], -torch.inf).argmax(1)
    return Prediction(label, first.clamp(max=T - 1) + 1, at_first.sum(1) > 1, silent)
