"""What may be done to a batch while training: the choices, and the random numbers that drive them."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from enum import IntEnum

import numpy as np
import torch
from torch import Tensor

from firstspike.errors import FirstspikeError


@dataclass(frozen=True)
class Augment:
    """Random changes to the training images. Everything is off by default."""

    crop: int = 0
    """Random crop: pad by this many black pixels on each side and cut the original size out anywhere."""
    flip: bool = False
    """Mirror half of the samples left to right. Labels follow where the set says how (DVS Gesture); mind that
    digits become none."""
    cutout: int = 0
    """Side of a square, in pixels, blanked out at a random place (it may reach over the border)."""
    erase: float = 0.0
    """Probability of blanking out a random rectangle of 2 % to 33 % of the image."""
    mixup: float = 0.0
    """Alpha of mixup: two images blended with a share drawn from Beta(alpha, alpha)."""
    cutmix: float = 0.0
    """Alpha of cutmix: a rectangle of another image pasted in, its area drawn from Beta(alpha, alpha)."""
    mix_epochs: int = 0
    """Mixup and cutmix in the first so many epochs only, so that the last see images as they are; 0: in all."""
    trivial: bool = False
    """One random change of colour or geometry, of random strength, for each image (in the manner of
    TrivialAugment)."""
    shift: int = 0
    """Largest shift, in pixels, of the whole sample in each direction (for event frames; the same for all steps)."""
    scale: float = 0.0
    """Largest relative change of size, as 0.2 for 0.8 to 1.25 times (for event frames; the same for all steps)."""
    rotate: float = 0.0
    """Largest rotation about the centre, in degrees, either way (of event frames the same for all steps)."""
    drop: float = 0.0
    """Largest share of the events dropped from a sample (event frames only)."""
    roll: float = 0.0
    """Largest share of a recording that goes from its beginning to its end, so that it begins elsewhere (event
    frames only)."""

    def __post_init__(self) -> None:
        for field in fields(self):
            if not 0 <= getattr(self, field.name) < math.inf:
                raise FirstspikeError(
                    f"augmentation {field.name} is {getattr(self, field.name)}; expected 0 (off) or more."
                )
        for name in ("erase", "scale", "drop", "roll"):
            if getattr(self, name) > 1 or (name == "scale" and self.scale == 1):
                raise FirstspikeError(
                    f"augmentation {name} is {getattr(self, name)}; expected a share from 0 to 1."
                )

    @property
    def mixes(self) -> bool:
        """Whether two images are combined into one."""
        return self.mixup > 0 or self.cutmix > 0

    @property
    def any(self) -> bool:
        """Whether anything is on."""
        return any(getattr(self, field.name) for field in fields(self) if field.name != "mix_epochs")

    def check(self, name: str, is_events: bool) -> None:
        """Refuse what has no meaning for the kind of data."""
        if is_events and self.trivial:
            raise FirstspikeError(
                f"{name} is made of events, which have no colour; use shift, scale and drop, not trivial."
            )
        if not is_events and self.drop:
            raise FirstspikeError(
                f"{name} is made of images, which have no events to drop; use cutout or erase, not drop."
            )
        if not is_events and self.roll:
            raise FirstspikeError(
                f"{name} is made of images, which have no beginning to move; leave roll out."
            )


# Which column of a sample's row of random numbers drives what. Every column is always drawn, so switching one
# augmentation on leaves what the others do as it was.
Column = IntEnum(
    "Column",
    "CROP_X CROP_Y FLIP CUTOUT_X CUTOUT_Y ERASE ERASE_AREA ERASE_ASPECT ERASE_X ERASE_Y "
    "TRIVIAL TRIVIAL_STRENGTH TRIVIAL_SIGN SHIFT_X SHIFT_Y SCALE DROP DROP_SEED "
    "PARTNER MIX_KIND CUTMIX_X CUTMIX_Y MIXUP_SHARE CUTMIX_SHARE ROTATE ROLL",
    start=0,
)


def draw_rows(augment: Augment, count: int, seed: int, epoch: int) -> Tensor:
    """One epoch's random numbers, float32 `[count, len(Column)]` on the CPU: a pure function of `(seed, epoch)`.

    Uniform in [0, 1), but for the two shares, which are Beta(alpha, alpha), or 1 once mixing is over. Drawn on
    the CPU whatever the training device is, so that a run on another device, or on several, sees the same
    augmentations.
    """
    rows = np.random.default_rng([seed, epoch, 1]).random((count, Column.ROTATE), np.float32)
    # Drawn apart, so that runs from before there were these can be repeated.
    later = [np.random.default_rng([seed, epoch, key]).random((count, 1), np.float32) for key in (3, 4)]
    rows = np.concatenate([rows, *later], 1)
    for column, alpha in ((Column.MIXUP_SHARE, augment.mixup), (Column.CUTMIX_SHARE, augment.cutmix)):
        if augment.mix_epochs and epoch >= augment.mix_epochs:
            rows[:, column] = 1  # the whole of the first image
        elif alpha > 0:
            rows[:, column] = np.random.default_rng([seed, epoch, 2, column]).beta(alpha, alpha, count)
    return torch.from_numpy(rows)


def draw_order(count: int, seed: int, epoch: int) -> Tensor:
    """One epoch's order of the samples, int64 `[count]` on the CPU: a pure function of `(seed, epoch)`."""
    return torch.from_numpy(np.random.default_rng([seed, epoch, 0]).permutation(count))
