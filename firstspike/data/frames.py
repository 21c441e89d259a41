"""Frames of event counts: from events or from finer frames, by equal durations or by equal numbers of events."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from firstspike.data.steps import FADED_PARTS, ROLLED_PARTS
from firstspike.errors import FirstspikeError

Integrate = Literal["duration", "count"]
Counts = np.ndarray[Any, Any]
_MOST = np.iinfo(np.int16).max


def frame_by_duration(offset: npt.NDArray[np.int64], span: int, steps: int) -> npt.NDArray[np.int64]:
    """The frame, 0 to `steps - 1`, of what happens at `offset` in a time of `span` (both in the same unit)."""
    return offset * steps // span


def frame_by_count(counts: npt.NDArray[np.int64], steps: int) -> npt.NDArray[np.int64]:
    """The frame of each of a sequence of bins with `counts` events, so that the frames hold about the same number.

    A bin goes where its middle event belongs: event i of n single ones in frame (i + 1/2) * steps // n.
    """
    twice_total = max(2 * int(counts.sum()), 1)
    middle = 2 * np.cumsum(counts) - counts
    frame: npt.NDArray[np.int64] = np.minimum(middle * steps // twice_total, steps - 1)
    return frame


def rebin(frames: Counts, steps: int, integrate: Integrate) -> Counts:
    """Sum fine frames `[N, bins, C, H, W]` to `[N, steps, C, H, W]`; uint8 where the counts allow it, else int16."""
    bins = frames.shape[1]
    if steps > bins:
        raise FirstspikeError(
            f"{steps} frames were asked for, but the events are stored in {bins}; expected at most {bins}: T of "
            f"them, or T times {ROLLED_PARTS} where recordings begin anywhere, or T times {FADED_PARTS} where they "
            "fade."
        )
    if steps == bins:
        return fitted(frames)
    summed = np.zeros((len(frames), steps, *frames.shape[2:]), np.int16)
    by_duration = frame_by_duration(np.arange(bins), bins, steps)
    for sample, result in zip(frames, summed, strict=True):
        place = by_duration
        if integrate == "count":
            place = frame_by_count(sample.sum((1, 2, 3), dtype=np.int64), steps)
        edges = np.searchsorted(place, np.arange(steps + 1))
        for step in range(steps):
            total = sample[edges[step] : edges[step + 1]].sum(0, dtype=np.int32)
            result[step] = _checked(total)
    return fitted(summed)


def downsample(frames: Counts, size: int | None) -> Counts:
    """Sum blocks of pixels of `[N, T, C, H, W]` so that frames are `size` x `size`; None leaves them."""
    height, width = frames.shape[-2:]
    if size is None or (height, width) == (size, size):
        return frames
    if size < 1 or height % size or width % size:
        raise FirstspikeError(
            f"the size is {size}, but the frames are {height} x {width}; expected a divisor of both, as pixels are "
            "summed."
        )
    blocks = frames.reshape(*frames.shape[:-2], size, height // size, size, width // size)
    return fitted(_checked(blocks.sum((-3, -1), dtype=np.int32)))


def fitted(counts: Counts) -> Counts:
    """The same counts as uint8 where none is over 255, else as int16."""
    if counts.dtype == np.uint8:
        return counts
    if counts.size and counts.min() < 0:
        raise FirstspikeError(f"there is an event count of {counts.min()}; expected 0 or more.")
    return _checked(counts).astype(np.uint8 if counts.max(initial=0) <= 255 else np.int16)


def _checked(counts: Counts) -> Counts:
    if counts.max(initial=0) > _MOST:
        raise FirstspikeError(
            f"a pixel counts {counts.max()} events in one frame; expected at most {_MOST}; raise T."
        )
    return counts
