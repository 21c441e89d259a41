"""From the frames that are stored of a recording to its time steps, from its beginning or from elsewhere."""

from __future__ import annotations

import torch
from torch import Tensor

from firstspike.data.augment import Column
from firstspike.data.move import pick_integer


def steps(raw: Tensor, rows: Tensor, parts: int, roll: float) -> Tensor:
    """Counts `[B, T * parts, C, H, W]` summed to `[B, T, C, H, W]`, each sample begun up to `roll` of it later.

    What is passed over at the beginning follows at the end: gestures are repeated all through a recording.
    """
    if roll:
        frames = raw.shape[1]
        first = pick_integer(rows[:, Column.ROLL] * roll, frames).long()
        order = (torch.arange(frames, device=raw.device) + first[:, None]) % frames
        raw = raw[torch.arange(len(raw), device=raw.device)[:, None], order]
    if parts == 1:
        return raw
    return raw.view(len(raw), raw.shape[1] // parts, parts, *raw.shape[2:]).sum(2, dtype=torch.int16)
