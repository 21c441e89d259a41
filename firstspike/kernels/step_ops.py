"""Some steps of AMOS as a torch operator with a shape function. It is for inference and has no gradient."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from firstspike.kernels.device import on_device_of, triton_kernels
from firstspike.kernels.layout import empty_frames, is_channels_last, plane, tile
from firstspike.kernels.windows import ELEMENTS, dense_windows, empty_pooled


@torch.library.custom_op("firstspike::amos_step", mutates_args=("counts",))
def amos_step(
    currents: Sequence[Tensor],
    rows: Sequence[Tensor],
    past: int,
    steps: int,
    threshold: Tensor | None,
    level: float,
    tau: float | None,
    bias: Tensor | None,
    size: int,
    contiguous: bool,
    wants_membrane: bool,
    counts: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Spikes `[steps, B, C, ...]` at the `steps` that follow the `past` ones, and the membranes there.

    Args:
        currents: of all these steps, in blocks `[n, B, C, ...]` of dense frames, each laid out as the first.
            A single frame may stand for all of them.
        rows: which of a block's samples these are, int64 `[B]`, for the first of the blocks; the others, and
            the last in any case, have no other samples.
        threshold: `[1 or past + steps, C]`; None where the number `level` is meant.
        size, contiguous: average the spikes over windows of this side: see `pooled_ops.amos_pooled`.
        wants_membrane: whether membranes are wanted (empty if not); not with pooling.
        counts: int32 `[steps, B]`, to which the spikes of each sample are added. With pooling, windows must
            cover all neurons.
    """
    spikes, membrane = _results(currents[-1], steps, size, contiguous, wants_membrane)
    if spikes.numel():
        kernels = triton_kernels("step_triton")
        arguments = _neuron(currents, rows, past + steps, threshold, level, tau, bias)
        counted = {"counts": counts, "counts_step": 0 if counts is None else counts.stride(0)}
        with on_device_of(spikes):
            if size == 1:
                walk, tiles = _walk(currents[-1], past + steps)
                membranes = membrane if wants_membrane else None
                kernels.forward[(tiles,)](
                    spikes=spikes,
                    membranes=membranes,
                    spikes_step=spikes.stride(0),
                    FIRST=past,
                    **walk,
                    **counted,
                    **arguments,
                )
            else:
                windows, tiles, kept_tiles = dense_windows(spikes[0], currents[-1][0], ELEMENTS)
                kernels.pooled_forward[(tiles * kept_tiles,)](
                    pooled=spikes,
                    pooled_step=spikes.stride(0),
                    N=size,
                    FIRST=past,
                    ALONE=windows["area"] % windows["BLOCK_R"] == 0,
                    **windows,
                    **counted,
                    **arguments,
                )
    return spikes, membrane


@amos_step.register_fake
def _(
    currents: Sequence[Tensor],
    rows: Sequence[Tensor],
    past: int,
    steps: int,
    threshold: Tensor | None,
    level: float,
    tau: float | None,
    bias: Tensor | None,
    size: int,
    contiguous: bool,
    wants_membrane: bool,
    counts: Tensor | None,
) -> tuple[Tensor, Tensor]:
    return _results(currents[-1], steps, size, contiguous, wants_membrane)


def _results(
    current: Tensor, steps: int, size: int, contiguous: bool, wants_membrane: bool
) -> tuple[Tensor, Tensor]:
    """Uninitialised spikes, and membranes in the same layout (none of them where they are not wanted)."""
    channels_last = is_channels_last(current)
    membrane = empty_frames(current, steps if wants_membrane else 0, torch.float32, channels_last)
    if size > 1:
        return empty_pooled(current, steps, size, contiguous), membrane
    return empty_frames(current, steps, current.dtype, channels_last), membrane


def _walk(current: Tensor, steps: int) -> tuple[dict[str, Any], int]:
    """The arguments that say how a program finds its neurons, and the number of programs."""
    channels_last = is_channels_last(current)
    walk = plane(current, channels_last)
    elements = 1024 if steps <= 8 and current.element_size() == 2 else 512
    blocks = tile(walk, elements)
    reduced_tiles, kept_tiles = blocks.counts(walk.reduced, walk.kept)
    positions = current[0, 0, 0].numel()
    arguments = {
        "R": walk.reduced,
        "K": walk.kept,
        "r_stride": walk.reduced_stride,
        "k_stride": walk.kept_stride,
        "C": walk.channels,
        "positions": positions,
        "sample_stride": positions * walk.channels,
        "kept_tiles": kept_tiles,
        "BY_ROW": channels_last,
        "ALONE": (positions % blocks.BLOCK_R if channels_last else walk.channels % blocks.BLOCK_K) == 0,
        **blocks._asdict(),
    }
    return arguments, reduced_tiles * kept_tiles


def _neuron(
    currents: Sequence[Tensor],
    rows: Sequence[Tensor],
    steps: int,
    threshold: Tensor | None,
    level: float,
    tau: float | None,
    bias: Tensor | None,
) -> dict[str, Any]:
    """The arguments that both kernels share."""
    frames = tuple(frame for block in currents for frame in block.unbind(0))
    old = tuple(row for row, block in zip(rows, currents, strict=False) for _ in range(len(block)))
    return {
        "frames": frames,
        "rows": old or None,
        "OLD": len(old),
        "bias": bias,
        "thresholds": threshold,
        "level": level,
        "tau": 1.0 if tau is None else tau,
        "threshold_step": threshold.stride(0) if threshold is not None and len(threshold) > 1 else 0,
        "T": steps,
        "CONSTANT": len(frames) < steps,
        "LEAKY": tau is not None,
    }
