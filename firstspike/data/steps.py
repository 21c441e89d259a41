"""From the frames that are stored of a recording to its time steps, begun where it begins or elsewhere."""

from __future__ import annotations

import torch
from torch import Tensor

from firstspike.data.augment import Column
from firstspike.data.move import pick_integer

FADED_PARTS, ROLLED_PARTS = 25, 4
"""How finely a step must be stored for its events to fade, and for a recording to begin between two steps."""


def rolled(raw: Tensor, rows: Tensor, most: float) -> Tensor:
    """Stored frames `[B, F, C, H, W]`, each sample begun up to `most` of it later.

    What is passed over at the beginning follows at the end: gestures are repeated all through a recording.
    """
    frames = raw.shape[1]
    first = pick_integer(rows[:, Column.ROLL] * most, frames).long()
    order = (torch.arange(frames, device=raw.device) + first[:, None]) % frames
    return raw[torch.arange(len(raw), device=raw.device)[:, None], order]


def to_steps(raw: Tensor, parts: int, fade: float = 0.0) -> Tensor:
    """Counts `[B, T * parts, C, H, W]` as `[B, T, C, H, W]`; with `fade`, as float32 `[B, T, 2 C, H, W]`.

    The second half of the channels then holds the counts again, those of the end of a step weighing most: by
    exp(-age / fade), age in steps, and 1 on average. Which way something moved is seen in the two together.
    """
    if parts == 1 and not fade:
        return raw
    fine = raw.view(len(raw), raw.shape[1] // parts, parts, *raw.shape[2:])
    counts = fine.sum(2, dtype=torch.int16)
    if not fade:
        return counts
    # Part by part: what is stored is bytes, and all of it as floats would be many times the result.
    late = torch.zeros(counts.shape, device=raw.device)
    for part, weight in enumerate(fading(parts, fade)):
        late.add_(fine[:, :, part], alpha=weight)
    return torch.cat((counts.float(), late), 2)


def fading(parts: int, fade: float) -> list[float]:
    """What an event in each part of a step weighs: 1 on average."""
    age = (parts - 0.5 - torch.arange(parts, dtype=torch.float64)) / parts
    weights = torch.exp(-age / fade)
    return (weights / weights.mean()).tolist()
