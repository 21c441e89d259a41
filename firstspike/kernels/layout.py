"""How the frames of a `[T, B, C, ...]` tensor lie in memory, and how a kernel walks over one of them."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Plane(NamedTuple):
    """A frame `[B, C, ...]` as a matrix `[reduced, kept]`: per-channel sums run over `reduced`.

    The element (r, k) lies at r * reduced_stride + k * kept_stride and belongs to channel k % channels.

    |               | reduced      | kept  | strides |
    |---------------|--------------|-------|---------|
    | channels-last | B * H * W    | C     | C, 1    |
    | contiguous    | H * W        | B * C | 1, H * W|
    """

    reduced: int
    kept: int
    reduced_stride: int
    kept_stride: int
    channels: int


def is_channels_last(frames: Tensor) -> bool:
    """Whether each frame of `[T, B, C, ...]` is dense with its channels side by side."""
    return frames[0].movedim(1, -1).is_contiguous()


def dense_frames(frames: Tensor) -> Tensor:
    """The tensor itself if each frame is contiguous or channels-last, else a contiguous copy.

    The stride between frames may be anything: kernels take it as an argument.
    """
    return frames if is_channels_last(frames) or frames[0].is_contiguous() else frames.contiguous()


def as_laid_out(frames: Tensor, channels_last: bool) -> Tensor:
    """The same values with dense frames in the wanted order, copied only if they are not so already."""
    if channels_last:
        return frames if is_channels_last(frames) else frames.movedim(2, -1).contiguous().movedim(-1, 2)
    return frames if frames[0].is_contiguous() else frames.contiguous()


def empty_frames(frames: Tensor, steps: int, dtype: torch.dtype, channels_last: bool) -> Tensor:
    """Uninitialised `[steps, B, C, ...]` for the frames' shape and device, dense in the wanted order."""
    return empty([steps, *frames.shape[1:]], dtype, frames.device, channels_last)


def empty(shape: Sequence[int], dtype: torch.dtype, device: torch.device, channels_last: bool) -> Tensor:
    """Uninitialised frames `[T, B, C, ...]`, dense in the wanted order."""
    if channels_last:
        first, (channels, *positions) = shape[:2], shape[2:]
        return torch.empty([*first, *positions, channels], dtype=dtype, device=device).movedim(-1, 2)
    return torch.empty(list(shape), dtype=dtype, device=device)


def plane(frames: Tensor, channels_last: bool) -> Plane:
    """The matrix that a kernel walks over, for dense frames."""
    batch, channels = frames.shape[1:3]
    positions = frames[0, 0, 0].numel() if batch and channels else 0
    if channels_last:
        return Plane(batch * positions, channels, channels, 1, channels)
    return Plane(positions, batch * channels, 1, positions, channels)


class Tile(NamedTuple):
    """The part of a plane that one program holds in registers."""

    BLOCK_R: int
    BLOCK_K: int

    def counts(self, reduced: int, kept: int) -> tuple[int, int]:
        """How many tiles cover a plane, along either axis.

        A launch flattens them to one axis, the kept ones fastest: a grid's first axis takes 2^31 - 1
        programs, the others only 65,535.
        """
        return -(-reduced // self.BLOCK_R), -(-kept // self.BLOCK_K)


def tile(plane: Plane, elements: int, most_kept: int = 256) -> Tile:
    """A tile of at most `elements`, long along the axis whose neighbours are neighbours in memory."""
    if plane.kept_stride == 1:
        kept = min(power_of_two(plane.kept), most_kept)
        return Tile(min(elements // kept, power_of_two(plane.reduced)), kept)
    reduced = min(power_of_two(plane.reduced), elements)
    return Tile(reduced, min(elements // reduced, power_of_two(plane.kept), most_kept))


def power_of_two(size: int) -> int:
    """The smallest power of two that is at least `size`."""
    return 1 << max(0, size - 1).bit_length()
