"""What a data set is to the rest of the house: a tensor of images or event frames, labels, and an honest name."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from firstspike.data.steps import to_steps
from firstspike.errors import FirstspikeError


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Images or event frames with their labels, in memory or memory-mapped, as the publisher's integers.

    `images` is uint8 `[N, C, H, W]`, or event counts (uint8 or int16) `[N, T * parts, C, H, W]`. `labels` is
    int64 `[N]`. `split` is written for people and names the split, because two splits of one set share a name:
    it stands beside every result, for example "test of the 1077/264 split, 64x64".
    """

    name: str
    split: str
    images: Tensor
    labels: Tensor
    classes: tuple[str, ...]
    parts: int = 1
    """Stored frames that one time step sums up: with several, a recording can begin between two steps."""
    fade: float = 0.0
    """In event frames: each channel once more, in which an event counts 1/e after this share of a step; 0: none."""
    mirrored: tuple[int, ...] = ()
    """What each class is in a mirror; empty where none changes."""

    def __post_init__(self) -> None:
        where = f"{self.name} ({self.split})"
        if self.images.ndim not in (4, 5):
            raise FirstspikeError(
                f"{where}: images have the shape {tuple(self.images.shape)}; expected [N, C, H, W], or [N, T, C, H, "
                "W] for event frames."
            )
        if self.images.dtype not in (torch.uint8, torch.int16):
            raise FirstspikeError(
                f"{where}: images are {self.images.dtype}; expected uint8 (event counts may be int16)."
            )
        if self.labels.dtype != torch.int64 or self.labels.shape != self.images.shape[:1]:
            raise FirstspikeError(
                f"{where}: {len(self.images)} images but labels of {self.labels.dtype} {tuple(self.labels.shape)}; "
                "expected one int64 label for each image."
            )
        if self.parts < 1 or (self.is_events and self.images.shape[1] % self.parts):
            raise FirstspikeError(
                f"{where}: {self.images.shape[1]} frames cannot be summed {self.parts} at a time; expected a divisor."
            )
        if not 0 <= self.fade < math.inf or (self.fade and not self.is_events):
            raise FirstspikeError(
                f"{where}: fade is {self.fade}; expected a share of a step, or 0 for images."
            )
        if len(self.images) == 0:
            raise FirstspikeError(f"{where}: there is no image in it; expected at least one.")
        low, high = int(self.labels.min()), int(self.labels.max())
        if low < 0 or high >= len(self.classes):
            wrong = low if low < 0 else high
            raise FirstspikeError(
                f"{where}: there is a label {wrong}; expected 0 to {len(self.classes) - 1} for {len(self.classes)} "
                "classes."
            )

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:
        values = f"{str(self.images.dtype).removeprefix('torch.')} {list(self.images.shape)}"
        return f"Dataset({self.name!r}, {self.split!r}, {values}, {len(self.classes)} classes)"

    @property
    def is_events(self) -> bool:
        """Whether a sample is a sequence of event frames `[T, C, H, W]` rather than one image."""
        return self.images.ndim == 5

    @property
    def steps(self) -> int:
        """T of event frames; 1 for images."""
        return self.images.shape[1] // self.parts if self.is_events else 1

    @property
    def input_shape(self) -> tuple[int, int, int]:
        """`(C, H, W)` of one image or of one event frame, as a network takes it."""
        channels, height, width = self.images.shape[-3:]
        return channels * (2 if self.fade else 1), height, width

    @property
    def nbytes(self) -> int:
        """Bytes that the images take as they are stored."""
        return self.images.numel() * self.images.element_size()

    def sample(self, number: int) -> Tensor:
        """One sample as a network takes it, a batch of one: `[1, C, H, W]` in [0, 1], or `[T, 1, C, H, W]`."""
        raw = self.images[number : number + 1]
        if self.is_events:
            return to_steps(raw, self.parts, self.fade).transpose(0, 1).float()
        return raw.float() / 255

    def subset(self, indices: Tensor, split: str | None = None) -> Dataset:
        """The samples at `indices` `[M]`, in that order, as a copy; `split` describes them when given."""
        return replace(
            self,
            images=self.images[indices],
            labels=self.labels[indices],
            split=self.split if split is None else split,
        )
