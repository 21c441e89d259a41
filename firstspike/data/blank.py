"""Cutout and random erasing: a rectangle of each image blanked out."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from firstspike.data.augment import Augment, Column
from firstspike.data.move import pick_integer

_AREA = (0.02, 0.33)
_ASPECT = (0.3, 3.3)


def rectangle(
    top: Tensor, left: Tensor, high: Tensor | int, wide: Tensor | int, height: int, width: int
) -> Tensor:
    """The mask `[B, 1, H, W]` of one rectangle a sample, given by `[B]` numbers; what lies outside is cut off."""
    y = torch.arange(height, device=top.device) - top[:, None]
    x = torch.arange(width, device=top.device) - left[:, None]
    limit_y = high[:, None] if isinstance(high, Tensor) else high
    limit_x = wide[:, None] if isinstance(wide, Tensor) else wide
    rows, columns = (y >= 0) & (y < limit_y), (x >= 0) & (x < limit_x)
    return (rows[:, :, None] & columns[:, None, :])[:, None]


def blanked(rows: Tensor, augment: Augment, height: int, width: int) -> Tensor:
    """Which pixels cutout and erasing take out, as a mask `[B, 1, H, W]`."""
    masks = []
    if augment.cutout:
        side = augment.cutout
        top = pick_integer(rows[:, Column.CUTOUT_Y], height) - side // 2
        left = pick_integer(rows[:, Column.CUTOUT_X], width) - side // 2
        masks.append(rectangle(top, left, side, side, height, width))
    if augment.erase:
        masks.append(_erased(rows, augment.erase, height, width))
    return masks[0] if len(masks) == 1 else masks[0] | masks[1]


def blank(images: Tensor, mask: Tensor, is_events: bool) -> Tensor:
    """Blank `images` `[B, K, H, W]` where `mask` says so."""
    if is_events:
        return images.masked_fill(mask, 0.0)
    # The image's own mean colour is near zero once the input is standardised, and needs no set's statistics.
    return torch.where(mask, images.mean((2, 3), keepdim=True), images)


def _erased(rows: Tensor, probability: float, height: int, width: int) -> Tensor:
    area = (_AREA[0] + (_AREA[1] - _AREA[0]) * rows[:, Column.ERASE_AREA]) * height * width
    low, high = (math.log(side) for side in _ASPECT)
    aspect = (low + (high - low) * rows[:, Column.ERASE_ASPECT]).exp()
    tall = (area * aspect).sqrt().round().clamp(1, height)
    wide = (area / aspect).sqrt().round().clamp(1, width)
    top = pick_integer(rows[:, Column.ERASE_Y], height - tall + 1)
    left = pick_integer(rows[:, Column.ERASE_X], width - wide + 1)
    # No rectangle at all for the samples that are spared.
    tall = torch.where(rows[:, Column.ERASE] < probability, tall, 0.0)
    return rectangle(top, left, tall, wide, height, width)
