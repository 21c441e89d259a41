"""Spike times: one byte says all that an at-most-one-spike neuron did."""

import torch
from torch import Tensor

from firstspike.errors import FirstspikeError

MAX_STEPS = 255
"""The largest T whose spike times (0 to T-1, and T for silence) fit in a byte."""


def spike_times(spikes: Tensor) -> Tensor:
    """The step of each neuron's first spike: `[T, B, ...]` in, uint8 `[B, ...]` out, T = silent."""
    T = check_steps(spikes.shape[0] if spikes.dim() else 0)
    steps = torch.arange(T, dtype=torch.uint8, device=spikes.device).view(T, *[1] * (spikes.dim() - 1))
    return torch.where(spikes != 0, steps, T).amin(0)


def spikes_at(times: Tensor, T: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """The inverse of `spike_times`: uint8 times `[B, ...]` in, binary frames `[T, B, ...]` out."""
    check_steps(T)
    if times.numel() and int(times.max()) > T:
        raise FirstspikeError(
            f"A spike time of {int(times.max())} lies beyond T = {T} (silence is T itself)."
        )
    steps = torch.arange(T, device=times.device).view(T, *[1] * times.dim())
    return (times == steps).to(dtype)


def check_steps(T: int) -> int:
    """Refuse a number of steps that is not between 1 and 255."""
    if not 1 <= T <= MAX_STEPS:
        raise FirstspikeError(f"T must be between 1 and {MAX_STEPS} (a spike time is one byte), not {T}.")
    return T
