"""Crop, flip, shift, scale and rotate: all of them say where each pixel of the result comes from."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from firstspike.data.augment import Augment, Column


def pick_integer(uniform: Tensor, count: Tensor | int) -> Tensor:
    """Numbers in [0, 1) to integers 0 to count - 1, evenly."""
    # A float32 close to 1 times `count` may round up to `count` itself.
    return (uniform * count).floor().clamp(max=count - 1)


def sources(rows: Tensor, augment: Augment, height: int, width: int) -> tuple[Tensor, Tensor]:
    """Where each output row `[B, H]` and column `[B, W]` (int64) is taken from; outside the image means black."""
    ys = torch.arange(height, device=rows.device).expand(len(rows), -1)
    xs = torch.arange(width, device=rows.device).expand(len(rows), -1)
    if augment.scale:
        # From 1 - scale to 1 / (1 - scale), as likely to shrink as to grow.
        factor = (1 - augment.scale) ** (2 * rows[:, Column.SCALE, None] - 1)
        ys, xs = _zoomed(ys, factor, height), _zoomed(xs, factor, width)
    for reach, column_y, column_x in (
        (augment.crop, Column.CROP_Y, Column.CROP_X),
        (augment.shift, Column.SHIFT_Y, Column.SHIFT_X),
    ):
        if reach:
            ys = ys + _offset(rows[:, column_y], reach)
            xs = xs + _offset(rows[:, column_x], reach)
    if augment.flip:
        xs = torch.where(flipped(rows)[:, None], width - 1 - xs, xs)
    return ys, xs


def flipped(rows: Tensor) -> Tensor:
    """Which samples `[B]` a flip mirrors."""
    return rows[:, Column.FLIP] < 0.5


def move(raw: Tensor, ys: Tensor, xs: Tensor) -> Tensor:
    """Take each pixel of `raw` `[B, K, H, W]` from its source row `[B, H]` and column `[B, W]`."""
    height, width = raw.shape[2:]
    inside = ((ys >= 0) & (ys < height))[:, :, None] & ((xs >= 0) & (xs < width))[:, None, :]
    index = ys.clamp(0, height - 1)[:, :, None] * width + xs.clamp(0, width - 1)[:, None, :]
    moved = raw.flatten(2).gather(2, index.flatten(1)[:, None].expand(-1, raw.shape[1], -1))
    return moved.view_as(raw) * inside[:, None]


def turn(images: Tensor, rows: Tensor, degrees: float, is_events: bool) -> Tensor:
    """Rotate each of `[B, K, H, W]` (float) by up to `degrees` about its centre; what comes from outside is black.

    Pixels are blended from their neighbours; event counts are moved whole.
    """
    angle = ((2 * rows[:, Column.ROTATE] - 1) * math.radians(degrees))[:, None, None]
    y, x = from_centre(images)
    source_x, source_y = angle.cos() * x + angle.sin() * y, angle.cos() * y - angle.sin() * x
    return resample(images, source_x, source_y, "nearest" if is_events else "bilinear")


def from_centre(images: Tensor) -> tuple[Tensor, Tensor]:
    """Where rows `[1, H, 1]` and columns `[1, 1, W]` lie, in pixels from the centre."""
    height, width = images.shape[2:]
    y = (torch.arange(height, device=images.device) + 0.5 - height / 2)[None, :, None]
    x = (torch.arange(width, device=images.device) + 0.5 - width / 2)[None, None, :]
    return y, x


def resample(images: Tensor, source_x: Tensor, source_y: Tensor, mode: str = "bilinear") -> Tensor:
    """Take each pixel of `[B, K, H, W]` from a place `[B, H, W]`, in pixels from the centre; outside is black."""
    height, width = images.shape[2:]
    grid = torch.stack((source_x * (2 / width), source_y * (2 / height)), -1)
    return F.grid_sample(images, grid, mode=mode, align_corners=False)


def _offset(uniform: Tensor, reach: int) -> Tensor:
    """Whole pixels from -reach to reach, `[B, 1]`."""
    return (pick_integer(uniform, 2 * reach + 1).long() - reach)[:, None]


def _zoomed(position: Tensor, factor: Tensor, size: int) -> Tensor:
    """The nearest source of each position when the sample grows by `1 / factor` about its centre."""
    centre = (size - 1) / 2
    return ((position - centre) * factor + centre + 0.5).floor().long()
