"""Batches for training and evaluation, made on the device that trains.

Everything random is a pure function of (seed, epoch, position in the epoch). So one process and several see
the same samples with the same augmentations, and an epoch resumed at batch k continues with batch k.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from firstspike.data.apply import apply
from firstspike.data.augment import Augment, Column, draw_order, draw_rows
from firstspike.data.capture import Captured
from firstspike.data.dataset import Dataset
from firstspike.data.mix import mix, partners
from firstspike.data.move import flipped
from firstspike.data.steps import rolled, to_steps
from firstspike.data.stream import prefetched
from firstspike.errors import FirstspikeError

_GIB = 2**30


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
    """A data set cut into batches of `batch_size` samples over all `world` processes; this one yields its share.

    `drop_last` leaves out an incomplete last batch; by default it follows `shuffle` (training drops,
    evaluation keeps). Images of at most `resident_limit` bytes live on `device`; larger ones stay where they
    are and are fetched `prefetch` batches ahead by `workers` threads: the samples and augmentations are the
    same. On a CUDA device `epoch` replays augmented batches as a graph, unless `capture` is off.
    One epoch at a time: starting the next one redraws the order that the running one reads.
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
        resident_limit: int = 8 * _GIB,
        workers: int = 4,
        prefetch: int = 4,
        capture: bool = True,
    ) -> None:
        if batch_size < 1 or batch_size % world:
            raise FirstspikeError(
                f"the batch size is {batch_size} for {world} processes; expected a positive multiple of {world}."
            )
        if not 0 <= rank < world:
            raise FirstspikeError(f"the rank is {rank} of {world} processes; expected 0 to {world - 1}.")
        if seed < 0:
            raise FirstspikeError(f"the seed is {seed}; expected 0 or more.")
        augment.check(dataset.name, dataset.is_events)
        self.dataset, self.batch_size, self.seed = dataset, batch_size, seed
        self.augment, self.shuffle = augment, shuffle
        self.device, self.dtype, self.rank, self.world = torch.device(device), dtype, rank, world
        self.drop_last = shuffle if drop_last is None else drop_last
        if self.drop_last and len(dataset) < batch_size:
            raise FirstspikeError(
                f"{dataset.name} ({dataset.split}) has {len(dataset)} samples, fewer than one batch of {batch_size}; "
                "make the batch smaller."
            )
        self.resident = dataset.nbytes <= resident_limit
        self.workers, self.prefetch = workers, prefetch
        # Capturing takes a moment, which a handful of kernels without augmentation would never earn back.
        self.capture = capture and augment.any and self.resident and self.device.type == "cuda"
        self._captured: Captured | None = None
        self._images = dataset.images.to(self.device) if self.resident else dataset.images
        self._labels = dataset.labels.to(self.device)
        self._mirrored: Tensor | None = None
        if augment.flip and dataset.mirrored:
            self._mirrored = torch.tensor(dataset.mirrored, device=self.device)
        # The buffers keep their addresses: a captured CUDA graph goes on reading them from epoch to epoch.
        with torch.inference_mode(False):  # or who evaluates first could never write to them again
            self._order = torch.arange(len(dataset), device=self.device)
            self._rows = torch.zeros(len(dataset), len(Column), device=self.device)

    def __len__(self) -> int:
        """Steps an epoch."""
        whole, rest = divmod(len(self.dataset), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        """The batches of epoch `number` (from 0), from batch `start` on."""
        if number < 0 or not 0 <= start <= len(self):
            raise FirstspikeError(
                f"epoch {number} was asked for from batch {start}; expected epochs from 0 and batches 0 to "
                f"{len(self)}."
            )
        self.prepare(number)
        steps = range(start, len(self))
        if self.resident:
            for step in steps:
                yield self._replayed(self.positions(step))
            return
        order, rows = self._order.cpu(), self._rows.cpu()
        jobs = (partial(self._fetch, torch.arange(*self._span(step)), order, rows) for step in steps)
        for step, (raw, other) in zip(steps, prefetched(jobs, self.workers, self.prefetch), strict=True):
            yield self._finish(self.positions(step), raw, other)

    def prepare(self, epoch: int) -> None:
        """Draw the epoch's order and random numbers into the buffers that `make` reads."""
        if self.shuffle:
            self._order.copy_(draw_order(len(self.dataset), self.seed, epoch))
        if self.augment.any:
            self._rows.copy_(draw_rows(self.augment, len(self.dataset), self.seed, epoch))

    def positions(self, step: int) -> Tensor:
        """This process's positions `[B]` (int64) in the epoch, for one step."""
        return torch.arange(*self._span(step), device=self.device)

    def make(self, positions: Tensor) -> Batch:
        """The batch at `positions(step)`: where the set is resident, with fixed shapes and no wait for the host.

        So a CUDA graph can hold it: copy `positions(step)` into the captured tensor before each replay, and
        call `prepare` before each epoch.
        """
        if self.resident:
            raw, other = self._fetch(positions, self._order, self._rows)
        else:
            raw, other = self._fetch(positions.cpu(), self._order.cpu(), self._rows.cpu())
        return self._finish(positions, raw, other)

    def _span(self, step: int) -> tuple[int, int]:
        """First position and the one after the last, of this process in one step."""
        first = step * self.batch_size
        size = min(self.batch_size, len(self.dataset) - first)
        return first + size * self.rank // self.world, first + size * (self.rank + 1) // self.world

    def _replayed(self, positions: Tensor) -> Batch:
        """`make`, from a captured graph where there is one for this number of samples."""
        if not self.capture or len(positions) != self.batch_size // self.world:
            return self.make(positions)
        if self._captured is None:
            self._captured = Captured(self.make, positions)
        return Batch(*self._captured(positions))

    def _fetch(self, positions: Tensor, order: Tensor, rows: Tensor) -> tuple[Tensor, Tensor | None]:
        """The raw samples at `positions`, and those they are mixed with where these may lie with another process."""
        raw = self._gather(order[positions])
        if self.world == 1 or not self.augment.mixes:
            return raw, None
        return raw, self._gather(order[self._partners(positions, rows[positions])])

    def _gather(self, index: Tensor) -> Tensor:
        raw = self._images[index]
        # From pinned memory the copy to the device runs beside the training step.
        return raw if self.resident or self.device.type != "cuda" else raw.pin_memory()

    def _partners(self, positions: Tensor, rows: Tensor) -> Tensor:
        return partners(positions, rows, self.batch_size, len(self.dataset))

    def _finish(self, positions: Tensor, raw: Tensor, other_raw: Tensor | None) -> Batch:
        """Augment, mix and arrange what was fetched."""
        rows = self._rows[positions]
        labels = self._labelled(positions, rows)
        images = self._augmented(raw, rows)
        if not self.augment.mixes:
            share = torch.ones_like(labels, dtype=torch.float32)
            return Batch(self._arranged(images), labels, labels, share)
        partner = self._partners(positions, rows)
        if other_raw is None:
            # One process has the whole batch, hence its partners, augmented already.
            other = images[partner - positions[:1]]
        else:
            other = self._augmented(other_raw, self._rows[partner])
        mixed, share = mix(images, other, rows, self.augment)
        return Batch(self._arranged(mixed), labels, self._labelled(partner, self._rows[partner]), share)

    def _labelled(self, positions: Tensor, rows: Tensor) -> Tensor:
        """The labels `[B]` at `positions`, as the mirror leaves them."""
        labels = self._labels[self._order[positions]]
        if self._mirrored is None:
            return labels
        return torch.where(flipped(rows), self._mirrored[labels], labels)

    def _augmented(self, raw: Tensor, rows: Tensor) -> Tensor:
        """`[B, K, H, W]` float32: the steps of events lie beside their polarities, so that they move together."""
        raw = raw.to(self.device, non_blocking=True)
        if self.dataset.is_events:
            begun = rolled(raw, rows, self.augment.roll) if self.augment.roll else raw
            raw = to_steps(begun, self.dataset.parts, self.dataset.fade).flatten(1, 2)
        return apply(raw, rows, self.augment, self.dataset.is_events)

    def _arranged(self, images: Tensor) -> Tensor:
        """In the shape and type that the network takes: event frames become time-major."""
        images = images.to(self.dtype)
        if self.dataset.is_events:
            frames = images.view(len(images), self.dataset.steps, *self.dataset.input_shape)
            return frames.transpose(0, 1).contiguous()
        return images
