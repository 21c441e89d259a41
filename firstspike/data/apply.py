"""Augment one batch: every sample is a pure function of its pixels and its row of random numbers."""

from __future__ import annotations

from torch import Tensor

from firstspike.data.augment import Augment


def apply(raw: Tensor, rows: Tensor, augment: Augment, is_events: bool) -> Tensor:
    """Raw integers `[B, K, H, W]` and rows `[B, len(Column)]` to float32 `[B, K, H, W]`.

    Images come out in [0, 1], event counts as they are. K is the colour channels, or steps times polarities,
    so that all frames of a sample are moved alike.
    """
    return raw.float() if is_events else raw.float() / 255
