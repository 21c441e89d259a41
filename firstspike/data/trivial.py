"""One random change of colour or geometry for each image, of random strength, in the manner of TrivialAugment.

The operations and their widest strengths are those of the "wide" space of Müller and Hutter (2021). All
images of a batch go through the same few kernels; those that drew another operation keep what they had.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from firstspike.data.augment import Column
from firstspike.data.move import from_centre, pick_integer, resample

_GEOMETRY = ("shear_x", "shear_y", "translate_x", "translate_y", "rotate")
_BLENDS = ("brightness", "contrast", "colour", "sharpness")
_TONES = ("posterize", "solarize", "autocontrast", "equalize")
OPERATIONS = ("identity", *_GEOMETRY, *_BLENDS, *_TONES)


def trivial(images: Tensor, rows: Tensor) -> Tensor:
    """Change each of `images` (float in [0, 1], `[B, C, H, W]`) by the operation that its row draws."""
    drawn = pick_integer(rows[:, Column.TRIVIAL], len(OPERATIONS))
    strength = rows[:, Column.TRIVIAL_STRENGTH]
    signed = torch.where(rows[:, Column.TRIVIAL_SIGN] < 0.5, -strength, strength)
    chosen = {name: drawn == number for number, name in enumerate(OPERATIONS)}
    images = _warp(images, chosen, signed)
    images = _blend(images, chosen, signed)
    return _tone(images, chosen, strength)


def _warp(images: Tensor, chosen: dict[str, Tensor], signed: Tensor) -> Tensor:
    """Shear, translate or rotate about the centre; what comes from outside is black."""
    height, width = images.shape[2:]
    amount = {name: torch.where(chosen[name], signed, 0.0)[:, None, None] for name in _GEOMETRY}
    angle = amount["rotate"] * math.radians(135)
    y, x = from_centre(images)
    source_x = angle.cos() * x + (angle.sin() + 0.99 * amount["shear_x"]) * y
    source_y = angle.cos() * y + (0.99 * amount["shear_y"] - angle.sin()) * x
    source_x = source_x + amount["translate_x"] * min(32, width)
    source_y = source_y + amount["translate_y"] * min(32, height)
    return torch.where(_any(chosen, _GEOMETRY), resample(images, source_x, source_y), images)


def _blend(images: Tensor, chosen: dict[str, Tensor], signed: Tensor) -> Tensor:
    """Move away from, or towards, a base: black, the mean grey, the image's own grey, or its blurred self."""
    grey = _grey(images)
    # A 3 x 3 blur whose centre weighs 5 of 13, as Pillow's.
    blurred = (F.avg_pool2d(images, 3, 1, 1, count_include_pad=False) * 9 + images * 4) / 13
    base = torch.where(_any(chosen, ("contrast",)), grey.mean((2, 3), keepdim=True), 0.0)
    base = torch.where(_any(chosen, ("colour",)), grey, base)
    base = torch.where(_any(chosen, ("sharpness",)), blurred, base)
    factor = 1 + 0.99 * signed[:, None, None, None]
    return torch.where(_any(chosen, _BLENDS), base + factor * (images - base), images).clamp(0, 1)


def _tone(images: Tensor, chosen: dict[str, Tensor], strength: Tensor) -> Tensor:
    """Change the values alone: fewer of them, inverted above a threshold, stretched, or spread evenly."""
    strength = strength[:, None, None, None]
    step = (strength * 6).round().exp2() / 255
    images = torch.where(_any(chosen, ("posterize",)), (images / step + 1e-4).floor() * step, images)
    solarized = torch.where(images >= 1 - strength, 1 - images, images)
    images = torch.where(_any(chosen, ("solarize",)), solarized, images)
    low, high = images.amin((2, 3), keepdim=True), images.amax((2, 3), keepdim=True)
    stretched = (images - low) / torch.where(high > low, high - low, 1.0)
    images = torch.where(_any(chosen, ("autocontrast",)), stretched, images)
    return torch.where(_any(chosen, ("equalize",)), _equalized(images), images)


def _equalized(images: Tensor) -> Tensor:
    """Each channel's values mapped so that their histogram is as even as it can be."""
    value = (images * 255).round().long().flatten(2)
    histogram = images.new_zeros(*value.shape[:2], 256).scatter_add_(
        2, value, torch.ones_like(value, dtype=images.dtype)
    )
    below = histogram.cumsum(2) - histogram
    # Pixels above the smallest value: 0 for a flat channel, which then keeps its value.
    span = value.shape[2] - histogram.gather(2, value.amin(2, keepdim=True))
    even = below.gather(2, value) / span.clamp(min=1)
    return torch.where(span > 0, even, images.flatten(2)).clamp(0, 1).view_as(images)


def _grey(images: Tensor) -> Tensor:
    if images.shape[1] != 3:
        return images.mean(1, keepdim=True)
    red, green, blue = images.split_with_sizes([1, 1, 1], 1)
    return 0.299 * red + 0.587 * green + 0.114 * blue


def _any(chosen: dict[str, Tensor], names: tuple[str, ...]) -> Tensor:
    """`[B, 1, 1, 1]`: whether a sample drew one of `names`."""
    mask = chosen[names[0]]
    for name in names[1:]:
        mask = mask | chosen[name]
    return mask[:, None, None, None]
