"""The mean and the spread of the training images, for a recipe to record and a model to keep."""

from __future__ import annotations

import torch

from firstspike.data.dataset import Dataset

_CHUNK = 4096


def standardisation(dataset: Dataset) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Per-channel `(mean, std)` of `images / 255` over all pixels; for event frames `(0, ...), (1, ...)`, as
    they go in raw.

    Exact: pixels are counted by value, so neither the order nor the machine can change a digit.
    """
    channels = dataset.input_shape[0]
    if dataset.is_events:
        return (0.0,) * channels, (1.0,) * channels
    counts = torch.zeros(channels, 256, dtype=torch.float64)
    for first in range(0, len(dataset), _CHUNK):
        chunk = dataset.images[first : first + _CHUNK]
        for channel in range(channels):
            counts[channel] += torch.bincount(chunk[:, channel].flatten(), minlength=256)
    share = counts / counts.sum(1, keepdim=True)
    value = torch.arange(256, dtype=torch.float64) / 255
    mean = (share * value).sum(1)
    std = (share * (value - mean[:, None]) ** 2).sum(1).sqrt()
    # A channel of one single value has no spread to divide by.
    return tuple(mean.tolist()), tuple(torch.where(std > 0, std, 1.0).tolist())
