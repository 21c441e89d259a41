"""Mixup and cutmix: one sample out of two of the same global batch."""

from __future__ import annotations

import torch
from torch import Tensor

from firstspike.data.augment import Augment, Column
from firstspike.data.blank import rectangle
from firstspike.data.move import pick_integer


def partners(positions: Tensor, rows: Tensor, batch_size: int, count: int) -> Tensor:
    """The position `[B]` that each sample is mixed with: another one of its global batch.

    Every process can work it out for its own share of the batch, without asking the others. `count` is the
    number of samples in the epoch, whose last batch may be smaller.
    """
    first = positions // batch_size * batch_size
    size = (count - first).clamp(max=batch_size)
    ahead = 1 + pick_integer(rows[:, Column.PARTNER], (size - 1).clamp(min=1)).long()
    return first + (positions - first + ahead) % size


def mix(images: Tensor, other: Tensor, rows: Tensor, augment: Augment) -> tuple[Tensor, Tensor]:
    """Mix `images` with `other` (both `[B, K, H, W]`); also the share `[B]` that the first keeps in the target.

    With both kinds on, each sample draws one of them.
    """
    cuts = rows[:, Column.MIX_KIND] < (0.5 if augment.mixup and augment.cutmix else float(augment.cutmix > 0))
    blend_share = rows[:, Column.MIXUP_SHARE]
    share = blend_share[:, None, None, None]
    blended = share * images + (1 - share) * other
    box, cut_share = _pasted(rows, *images.shape[2:])
    pasted = torch.where(box, other, images)
    mixed = torch.where(cuts[:, None, None, None], pasted, blended)
    return mixed, torch.where(cuts, cut_share, blend_share)


def _pasted(rows: Tensor, height: int, width: int) -> tuple[Tensor, Tensor]:
    """The rectangle of cutmix `[B, 1, H, W]`, and the share of the area `[B]` that it leaves."""
    side = (1 - rows[:, Column.CUTMIX_SHARE]).sqrt()
    tall, wide = (side * height).round(), (side * width).round()
    # The centre may lie anywhere, so the border cuts some rectangles; the share counts what is covered.
    top = pick_integer(rows[:, Column.CUTMIX_Y], height) - (tall / 2).floor()
    left = pick_integer(rows[:, Column.CUTMIX_X], width) - (wide / 2).floor()
    box = rectangle(top, left, tall, wide, height, width)
    return box, 1 - box.float().mean((1, 2, 3))
