"""Some steps of AMOS in Triton, from all the currents that the neurons have had so far.

A neuron's membrane, and whether it has fired, follow from its currents. These are 2 bytes a step in bfloat16,
where a membrane is 4 bytes to read and 4 to write; so early steps, at which most samples answer, are cheapest
when nothing but currents is kept. Each comes from a convolution of its own, hence a pointer for each of them.
Samples that have left the batch since are stepped over: older frames are read at the `rows` of those who stay.

Exactness: as in `neuron_triton`.
"""

# Triton's dialect of Python: arguments have no types that mypy knows, and a tuple grows by addition only.
# mypy: ignore-errors
# ruff: noqa: RUF005

import triton
import triton.language as tl

from firstspike.kernels.neuron_triton import integrate, level_at, per_channel
from firstspike.kernels.pool_triton import offsets
from firstspike.kernels.pooled_triton import dense_offsets, firing_code
from firstspike.kernels.tile_triton import own_tile, plane_offsets


@triton.jit
def shifts_of(rows, sample, known, sample_stride, axis: tl.constexpr, OLD: tl.constexpr):
    """How much further each of the OLD first frames has a tile's samples, int64, to be added to its offsets."""
    shifts = ()
    for t in tl.static_range(OLD):
        row = tl.load(rows[t] + sample, mask=known, other=0)
        shifts = shifts + (tl.expand_dims((row - sample) * sample_stride, axis),)
    return shifts


@triton.jit
def load_frames(frames, shifts, at, inside, T: tl.constexpr, OLD: tl.constexpr, CONSTANT: tl.constexpr):
    """The T values of each neuron of a tile, all loads issued at once; one stands for all when CONSTANT."""
    values = ()
    for t in tl.static_range(T):
        if CONSTANT and t > 0:
            values = values + (values[0],)
        elif t < OLD:
            values = values + (tl.load(frames[t] + (at + shifts[t]), mask=inside, other=0),)
        else:
            values = values + (tl.load(frames[t] + at, mask=inside, other=0),)
    return values


@triton.jit
def add_counts(counts, found, sample, known, axis: tl.constexpr, ALONE: tl.constexpr):
    """Add a tile's spikes to the counts of its samples, which are told along the axis that is not `axis`.

    ALONE: all are one sample's, and one addition does for the tile; additions to one address wait for each other.
    """
    found = tl.sum(found.to(tl.int32), axis=axis)
    if ALONE:
        tl.atomic_add(counts + tl.min(sample, axis=0), tl.sum(found, axis=0), sem="relaxed")
    else:
        tl.atomic_add(counts + sample, found, mask=known, sem="relaxed")


@triton.jit(do_not_specialize=["counts_step"])  # a batch size: compiled once for all
def forward(
    frames,  # T of [plane], or one if CONSTANT
    rows,  # OLD of [samples] int64, or None: which of a frame's samples these are; later frames have these alone
    spikes,  # [T - FIRST, plane]
    membranes,  # the same in float32, or None
    counts,  # [T - FIRST, samples] int32, added to, or None
    bias,  # [C] or None
    thresholds,  # [1 or T, C] or None, when `level` holds
    level,
    tau,
    spikes_step,
    counts_step,
    threshold_step,
    R,
    K,
    r_stride,
    k_stride,
    C,
    positions,
    sample_stride,
    kept_tiles,
    T: tl.constexpr,
    FIRST: tl.constexpr,
    OLD: tl.constexpr,
    CONSTANT: tl.constexpr,
    LEAKY: tl.constexpr,
    BY_ROW: tl.constexpr,
    ALONE: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Spike frames FIRST to T - 1 of one tile of neurons, and how many fire in each sample."""
    reduced, kept, inside = own_tile(kept_tiles, R, K, BLOCK_R, BLOCK_K)
    at = plane_offsets(reduced, kept, r_stride, k_stride)
    channel = kept % C
    shift = per_channel(bias, channel, kept, K)

    if BY_ROW:
        shifts = shifts_of(rows, reduced // positions, reduced < R, sample_stride, 1, OLD)
    else:
        shifts = shifts_of(rows, kept // C, kept < K, sample_stride, 0, OLD)
    values = load_frames(frames, shifts, at, inside, T, OLD, CONSTANT)
    membrane = tl.zeros([BLOCK_R, BLOCK_K], tl.float32)
    fired = membrane > 0
    target = spikes + at
    for t in tl.static_range(T):
        membrane = integrate(membrane, values[t].to(tl.float32) + shift, tau, LEAKY)
        above = membrane >= level_at(t, thresholds, level, threshold_step, channel, kept, K)
        if t >= FIRST:
            fires = above & ~fired & inside
            tl.store(target, fires.to(tl.float32).to(spikes.dtype.element_ty), mask=inside)
            target += spikes_step
            if membranes is not None:
                tl.store(membranes + (t - FIRST) * spikes_step + at, membrane, mask=inside)
            if counts is not None:
                here = counts + (t - FIRST) * counts_step
                if BY_ROW:
                    add_counts(here, fires, reduced // positions, reduced < R, 1, ALONE)
                else:
                    add_counts(here, fires, kept // C, kept < K, 0, ALONE)
        fired = fired | above


@triton.jit(do_not_specialize=["counts_step"])  # a batch size: compiled once for all
def pooled_forward(
    frames,  # T of [samples, C, H, W], any strides, or one if CONSTANT
    rows,  # as in `forward`
    pooled,  # [T - FIRST, samples, C, H/N, W/N], dense rows
    counts,  # [T - FIRST, samples] int32, added to, or None
    bias,  # [C] or None
    thresholds,  # [1 or T, C] or None, when `level` holds
    level,
    tau,
    pooled_step,
    counts_step,
    threshold_step,
    frames_b,
    frames_c,
    frames_y,
    frames_x,
    pooled_b,
    pooled_c,
    pooled_x,
    R,
    K,
    area,
    height,
    width,
    kept_tiles,
    N: tl.constexpr,
    T: tl.constexpr,
    FIRST: tl.constexpr,
    OLD: tl.constexpr,
    CONSTANT: tl.constexpr,
    LEAKY: tl.constexpr,
    ALONE: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """The share of each window's neurons that fire at step FIRST to T - 1, and how many do in each sample."""
    place, kept, inside = own_tile(kept_tiles, R, K, BLOCK_R, BLOCK_K)
    shift = per_channel(bias, kept, kept, K)
    corner = offsets(place, height, width, frames_b, N * frames_y, N * frames_x)
    corner += kept[None, :].to(tl.int64) * frames_c
    shifts = shifts_of(rows, place // area, place < R, frames_b, 1, OLD)

    BITS: tl.constexpr = 3 if N == 2 else 4  # room for N * N
    codes = tl.zeros([BLOCK_R, BLOCK_K], tl.int32 if BITS * T <= 32 else tl.int64)
    for neuron in tl.static_range(N * N):
        at = corner + neuron // N * frames_y + neuron % N * frames_x
        values = load_frames(frames, shifts, at, inside, T, OLD, CONSTANT)
        levels = thresholds, level, threshold_step, kept, K
        codes += firing_code(values, shift, *levels, tau, T, False, LEAKY, BITS)

    at = dense_offsets(place, area, pooled_b, pooled_x)
    target = pooled + at + kept[None, :].to(tl.int64) * pooled_c
    for t in tl.static_range(FIRST, T):
        count = (codes >> (BITS * t)) & ((1 << BITS) - 1)
        if counts is not None:
            here = counts + (t - FIRST) * counts_step
            add_counts(here, tl.where(inside, count, 0), place // area, place < R, 1, ALONE)
        share = count.to(tl.float32)
        mean = tl.div_rn(share, tl.zeros_like(share) + N * N) if N == 3 else share * (1 / (N * N))
        tl.store(target, mean.to(pooled.dtype.element_ty), mask=inside)
        target += pooled_step
