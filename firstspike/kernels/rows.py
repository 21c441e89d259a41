"""How the CPU's neuron walks over the frames of a `[T, B, C, ...]` tensor."""

import math
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from firstspike.kernels.layout import is_channels_last

PIECE = 1024
"""Neurons that are worked on at a time, more or less: what belongs to them stays in the nearest cache."""


class Rows(NamedTuple):
    """Frames `[T, B, C, ...]` as rows `[T, number, lines * span]` of neurons that are neighbours in memory.

    |               | number       | lines | span  | beside | unit     | made        |
    |---------------|--------------|-------|-------|--------|----------|-------------|
    | contiguous    | B * C        | 1     | H * W | 1      | size * W | W // size   |
    | channels-last | B * H / size | size  | W * C | C      | size * C | C           |
    | not spatial   | B            | 1     | C     | C      | C        | C           |

    Pooled over windows of side `size` (1: not at all), each `unit` of a line becomes `made` means.
    """

    number: int
    lines: int
    span: int
    width: int
    """Neurons of a line of the picture, where they are beside each other."""
    beside: int
    """How far apart two neurons are that lie beside each other."""
    size: int
    unit: int
    made: int
    piece: int
    """Neurons of each line that are worked on at a time: some whole units."""
    channels_last: bool

    @classmethod
    def of(cls, frames: Tensor, size: int) -> Self:
        """The rows of frames that are to be pooled over windows of this side."""
        batch, channels, *positions = frames.shape[1:]
        if not positions:
            return cls(batch, 1, channels, channels, channels, 1, channels, channels, channels, False)
        width, all_positions = positions[-1], math.prod(positions)
        if lie_channels_last(frames):
            number, span, unit = batch * all_positions // (size * width), width * channels, size * channels
            piece = unit * max(1, PIECE // (size * unit))
            return cls(number, size, span, span, channels, size, unit, channels, piece, True)
        unit, made = (size * width, width // size) if size > 1 else (1, 1)
        piece = unit * max(1, PIECE // unit)
        return cls(batch * channels, 1, all_positions, width, 1, size, unit, made, piece, False)

    def view(self, frames: Tensor) -> Any:
        """Frames (pooled ones, too) as a numpy array `[T, number, ...]`, bfloat16 as uint16.

        Those that are dense share its memory.
        """
        dense = frames.detach().movedim(2, -1) if self.channels_last else frames.detach()
        if dense.dtype == torch.bfloat16:
            dense = dense.view(torch.uint16)
        return dense.reshape(len(dense), self.number, -1).numpy()

    def biases(self, bias: Tensor | None) -> tuple[Any, Any]:
        """The bias by rows and by neurons of a line, one of them zero."""
        shifts, columns = torch.zeros(1), torch.zeros(self.span)
        if bias is not None and self.beside == 1:
            shifts = bias.detach().contiguous()
        elif bias is not None:
            columns = bias.detach().repeat(self.span // len(bias))
        return shifts.numpy(), columns.numpy()


def lie_channels_last(frames: Tensor) -> bool:
    """Whether neighbours in memory are channels; a single channel is a plane either way."""
    return frames.shape[2] > 1 and is_channels_last(frames)
