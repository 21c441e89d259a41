"""The windows of a pool: where pooled and whole frames lie, and how a kernel walks over them."""

from typing import Any

import torch
from torch import Tensor

from firstspike.kernels.layout import Tile, empty, is_channels_last, power_of_two

ELEMENTS = 512
"""Windows of a program (128 threads): 4 a thread."""


def windows(pooled: Tensor, frames: Tensor, elements: int) -> tuple[dict[str, Any], int, int]:
    """The arguments that say where pooled `[B, C, H/n, W/n]` and whole frames lie, and the number of tiles."""
    batch, channels, height, width = pooled.shape
    places = batch * height * width
    if frames.stride(1) != 1:
        kept = max(1, min(power_of_two(channels), elements // power_of_two(places)))
    else:
        # Two layouts at once: as many channels as leave 16 places, a sector of memory (32 bytes), for the other
        kept = min(power_of_two(channels), 256 if pooled.stride(1) == 1 else max(1, elements // 16))
    kept = min(kept, elements)
    blocks = Tile(min(power_of_two(places), elements // kept), kept)
    tiles, kept_tiles = blocks.counts(places, channels)
    arguments = {
        **strides("frames", frames),
        **strides("pooled", pooled),
        "R": places,
        "K": channels,
        "height": height,
        "width": width,
        "kept_tiles": kept_tiles,
        **blocks._asdict(),
    }
    return arguments, tiles, kept_tiles


def dense_windows(pooled: Tensor, frames: Tensor, elements: int) -> tuple[dict[str, Any], int, int]:
    """`windows` for the AMOS kernels, which take pooled frames with dense rows as places side by side."""
    arguments, tiles, kept_tiles = windows(pooled, frames, elements)
    del arguments["pooled_y"]
    return arguments | {"area": pooled.shape[2] * pooled.shape[3]}, tiles, kept_tiles


def has_dense_rows(pooled: Tensor) -> bool:
    """Whether the rows of each frame follow each other without a gap, so that places have one stride."""
    return pooled.stride(-2) == pooled.shape[-1] * pooled.stride(-1)


def has_one_layout(pooled: Tensor, frames: Tensor) -> bool:
    """Whether pooled and whole frames are both channels-last, or neither."""
    return (pooled.stride(1) == 1) == (frames.stride(1) == 1)


def strides(name: str, frames: Tensor) -> dict[str, int]:
    """The strides of `[B, C, H, W]` as a kernel takes them."""
    return {f"{name}_{axis}": stride for axis, stride in zip("bcyx", frames.stride(), strict=True)}


def empty_pooled(frames: Tensor, steps: int, size: int, contiguous: bool) -> Tensor:
    """Uninitialised pooled frames `[steps, B, C, H/n, W/n]`, laid out as the frames are, or contiguous."""
    batch, channels, height, width = frames.shape[1:]
    shape = [steps, batch, channels, height // size, width // size]
    return empty(shape, frames.dtype, frames.device, is_channels_last(frames) and not contiguous)


def has_rest(shape: torch.Size | list[int], size: int) -> bool:
    """Whether rows or columns are left over that no window covers."""
    return shape[-2] % size > 0 or shape[-1] % size > 0
