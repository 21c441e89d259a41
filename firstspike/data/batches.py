"""Batches for training and evaluation, made on the device that trains.

Everything random is a pure function of (seed, epoch, position in the epoch). So one process and several see
the same samples with the same augmentations, and an epoch resumed at batch k continues with batch k.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from firstspike.data.apply import apply
from firstspike.data.augment import Augment, Column, draw_order, draw_rows
from firstspike.data.dataset import Dataset
from firstspike.errors import FirstspikeError


class Batch(NamedTuple):
    """One step's samples.

    `images` is `[B, C, H, W]` in [0, 1], or event counts `[T, B, C, H, W]`. The target is `labels` with
    weight `share` and `other_labels` with weight `1 - share` (all `[B]`); where nothing is mixed both labels
    agree and share is 1.
    """

    images: Tensor
    labels: Tensor
    other_labels: Tensor
    share: Tensor


class Batches:
    """A data set cut into batches of `batch_size` samples over all `world` processes; this one yields its
    share.

    `drop_last` leaves out an incomplete last batch; by default it follows `shuffle` (training drops,
    evaluation keeps). One epoch at a time: starting the next one redraws the order that the running one
    reads.
    """

    def __init__(
        self,
        dataset: Dataset,
        batch_size: int,
        *,
        seed: int,
        augment: Augment = Augment(),  # noqa: B008 (frozen)
        shuffle: bool = True,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        rank: int = 0,
        world: int = 1,
        drop_last: bool | None = None,
    ) -> None:
        if batch_size < 1 or batch_size % world:
            raise FirstspikeError(
                f"the batch size is {batch_size} for {world} processes; "
                f"expected a positive multiple of {world}."
            )
        if seed < 0:
            raise FirstspikeError(f"the seed is {seed}; expected 0 or more.")
        augment.check(dataset.name, dataset.is_events)
        self.dataset, self.batch_size, self.seed, self.augment, self.shuffle = (
            dataset,
            batch_size,
            seed,
            augment,
            shuffle,
        )
        self.device, self.dtype, self.rank, self.world = torch.device(device), dtype, rank, world
        self.drop_last = shuffle if drop_last is None else drop_last
        if self.drop_last and len(dataset) < batch_size:
            raise FirstspikeError(
                f"{dataset.name} ({dataset.split}) has {len(dataset)} samples, fewer than one batch of "
                f"{batch_size}; make the batch smaller."
            )
        self._images = dataset.images.to(self.device)
        self._labels = dataset.labels.to(self.device)
        # The buffers keep their addresses: a captured CUDA graph goes on reading them from epoch to epoch.
        self._order = torch.arange(len(dataset), device=self.device)
        self._rows = torch.zeros(len(dataset), len(Column), device=self.device)

    def __len__(self) -> int:
        """Steps an epoch."""
        whole, rest = divmod(len(self.dataset), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)

    def prepare(self, epoch: int) -> None:
        """Draw the epoch's order and random numbers into the buffers that `make` reads."""
        if self.shuffle:
            self._order.copy_(draw_order(len(self.dataset), self.seed, epoch))
        if self.augment.any:
            self._rows.copy_(draw_rows(self.augment, len(self.dataset), self.seed, epoch))

    def positions(self, step: int) -> Tensor:
        """This process's positions `[B]` (int64) in the epoch, for one step."""
        first = step * self.batch_size
        size = min(self.batch_size, len(self.dataset) - first)
        begin, end = (size * part // self.world for part in (self.rank, self.rank + 1))
        return torch.arange(first + begin, first + end, device=self.device)

    def make(self, positions: Tensor) -> Batch:
        """The batch at `positions`: fixed shapes and no wait for the host, so a CUDA graph can hold it.

        A graph copies `positions(step)` into a buffer of its own before each replay, and calls `prepare` for
        each epoch.
        """
        index = self._order[positions]
        labels = self._labels[index]
        images = self._augmented(self._images[index], positions)
        return Batch(self._arranged(images), labels, labels, torch.ones_like(labels, dtype=torch.float32))

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        """The batches of epoch `number`, from batch `start` on."""
        self.prepare(number)
        for step in range(start, len(self)):
            yield self.make(self.positions(step))

    def _augmented(self, raw: Tensor, positions: Tensor) -> Tensor:
        """`[B, K, H, W]` float32: the time steps of events lie beside their polarities, so that they move
        together."""
        if self.dataset.is_events:
            raw = raw.flatten(1, 2)
        return apply(raw, self._rows[positions], self.augment, self.dataset.is_events)

    def _arranged(self, images: Tensor) -> Tensor:
        """In the shape and type that the network takes: event frames become time-major."""
        images = images.to(self.dtype)
        if self.dataset.is_events:
            return images.view(len(images), -1, *self.dataset.input_shape).transpose(0, 1).contiguous()
        return images
