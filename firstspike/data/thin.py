"""Dropping events from frames of event counts."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from firstspike.data.augment import Column

_WORD = 0xFFFFFFFF


def thin(counts: Tensor, rows: Tensor, most: float, whole: bool = True) -> Tensor:
    """Drop a share of the events of each sample, drawn from 0 to `most`; `counts` is float `[B, K, H, W]`.

    A count c becomes floor(c * kept + u), u uniform: a single event is kept with the probability `kept`, and
    several lose their share on average. Where counts are not `whole`, several lose exactly their share.
    """
    kept = (1 - most * rows[:, Column.DROP])[:, None, None, None]
    seed = (rows[:, Column.DROP_SEED] * 2**24).long()
    noise = hashed_uniform(seed, math.prod(counts.shape[1:])).view_as(counts)
    if not whole:
        return counts * torch.where(counts > 1, kept, (noise < kept).float())
    return torch.where(counts > 0, (counts * kept + noise).floor(), 0.0)


def hashed_uniform(seed: Tensor, count: int) -> Tensor:
    """`[B, count]` numbers in [0, 1) that are a function of `seed` `[B]` (int64) alone, on every device.

    A generator would give each device its own numbers; mixing the bits of (seed, place) does not.
    """
    place = torch.arange(count, device=seed.device)
    word = (place[None, :] * 0x9E3779B1 + seed[:, None] * 0x85EBCA77 + 0x165667B1) & _WORD
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        word = ((word ^ (word >> shift)) * factor) & _WORD
    # 24 bits, because a float32 holds no more without rounding up to 1.
    return ((word ^ (word >> 16)) >> 8).float() * 2.0**-24
