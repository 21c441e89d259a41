"""Augment one batch: every sample is a pure function of its pixels and its row of random numbers."""

from __future__ import annotations

from torch import Tensor

from firstspike.data.augment import Augment
from firstspike.data.blank import blank, blanked
from firstspike.data.move import move, sources, turn
from firstspike.data.thin import thin
from firstspike.data.trivial import trivial


def apply(raw: Tensor, rows: Tensor, augment: Augment, is_events: bool) -> Tensor:
    """Raw values `[B, K, H, W]` and rows `[B, len(Column)]` to float32 `[B, K, H, W]`.

    Images come out in [0, 1], event counts as they are. K is the colour channels, or steps times channels,
    so that all frames of a sample are moved alike. Mixing comes after this, as it needs two samples.
    """
    height, width = raw.shape[2:]
    if augment.crop or augment.flip or augment.shift or augment.scale:
        raw = move(raw, *sources(rows, augment, height, width))
    images = raw.float() if is_events else raw.float() / 255
    if augment.rotate:
        images = turn(images, rows, augment.rotate, is_events)
    if augment.trivial:
        images = trivial(images, rows)
    if augment.drop:
        images = thin(images, rows, augment.drop, whole=not raw.is_floating_point())
    if augment.cutout or augment.erase:
        images = blank(images, blanked(rows, augment, height, width), is_events)
    return images
