"""Partial sums over the programs of a backward launch, for the gradients of bias and threshold."""

import torch
from torch import Tensor

from firstspike.kernels.device import on_device_of, triton_kernels
from firstspike.kernels.layout import power_of_two

SUMMED_ROWS, SUMMED_CHANNELS = 1024, 8
"""Partial sums that a program adds up at a time: 32 bytes a row, so that 256 channels keep 32 programs busy."""


class Sums:
    """Where the programs of a launch leave theirs."""

    def __init__(
        self, current: Tensor, programs: int, slots: int, kept: int, wants_threshold: bool, wants_bias: bool
    ) -> None:
        shape = (programs, slots, kept)
        self.nothing = current.new_empty(0, dtype=torch.float32)
        self.threshold = current.new_empty(shape, dtype=torch.float32) if wants_threshold else None
        self.bias = current.new_empty((programs, kept), dtype=torch.float32) if wants_bias else None

    def read(self, threshold: Tensor | None, channels: int) -> tuple[Tensor, Tensor]:
        """The gradients of the threshold `[1 or T, C]` and the bias `[C]`, float32; empty where not wanted."""
        grad_threshold = grad_bias = self.nothing
        if self.bias is not None:
            grad_bias = _by_channel(self.bias[:, None], channels)[0]
        if self.threshold is not None and threshold is not None:
            grad_threshold = _by_channel(self.threshold, channels)[: len(threshold)]
        return grad_threshold, grad_bias if grad_bias is not grad_threshold else self.nothing.clone()


def _by_channel(partial: Tensor, channels: int) -> Tensor:
    """`[programs, slots, samples * C]` to `[slots, C]`, in one launch and in an order that does not change."""
    programs, slots, kept = partial.shape
    sums = partial.new_empty(slots, channels)
    rows = programs * kept // channels
    block = min(power_of_two(rows), SUMMED_ROWS)
    tiles = -(-channels // SUMMED_CHANNELS)
    with on_device_of(partial):
        triton_kernels("sum_triton").add_up[(slots * tiles,)](
            partial,
            sums,
            rows,
            kept // channels,
            slots,
            channels,
            BLOCK_R=block,
            BLOCK_C=SUMMED_CHANNELS,
            num_warps=max(1, block // 64),
        )
    return sums


def no_sums(
    current: Tensor, threshold: Tensor | None, wants_threshold: bool, wants_bias: bool
) -> tuple[Tensor, Tensor]:
    """What `Sums.read` gives for no neurons at all."""
    shape = tuple(threshold.shape) if threshold is not None and wants_threshold else (0,)
    device = current.device
    return torch.zeros(shape, device=device), torch.zeros(current.shape[2] * wants_bias, device=device)


def threshold_slots(threshold: Tensor | None, wanted: bool) -> int:
    """Steps that the threshold's gradient is kept apart for, as a power of two."""
    return power_of_two(len(threshold)) if threshold is not None and wanted else 1


def programs_for(tiles: int, kept_tiles: int, most: int | None) -> int:
    """Programs for each tile of channels: one a tile, or `most` for all channels where each leaves a sum."""
    return tiles if most is None else min(tiles, -(-most // kept_tiles))
