"""AMOS in Triton for many steps: loops over time, where `neuron_triton` unrolls them.

The arithmetic and its order are those of `neuron_triton`. Backward cannot hold T membranes in registers,
so it leaves them in float32 scratch memory between its two passes.
"""

# Triton's dialect of Python: arguments have no types that mypy knows.
# mypy: ignore-errors

import triton
import triton.language as tl

from firstspike.kernels.neuron_triton import (
    integrate,
    leave_partial_sums,
    level_at,
    peak,
    per_channel,
    surrogate,
)
from firstspike.kernels.tile_triton import own_channels, own_tile, plane_offsets, rows_of


@triton.jit
def forward(
    current,
    spikes,
    bias,
    thresholds,
    level,
    tau,
    current_step,  # 0 when the current is constant in time
    spikes_step,
    threshold_step,
    R,
    K,
    r_stride,
    k_stride,
    C,
    kept_tiles,
    T,
    CONSTANT: tl.constexpr,
    FORCE_LAST: tl.constexpr,
    LEAKY: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Spike frames of one tile of neurons: see `neuron_triton.forward`."""
    reduced, kept, inside = own_tile(kept_tiles, R, K, BLOCK_R, BLOCK_K)
    at = plane_offsets(reduced, kept, r_stride, k_stride)
    channel = kept % C
    shift = per_channel(bias, channel, kept, K)

    source, target = current + at, spikes + at
    membrane = tl.zeros([BLOCK_R, BLOCK_K], tl.float32)
    fired_at = tl.zeros([BLOCK_R, BLOCK_K], tl.int32) + T
    for t in range(T):
        frame = tl.load(source, mask=inside, other=0).to(tl.float32)
        membrane = integrate(membrane, frame + shift, tau, LEAKY)
        v = level_at(t, thresholds, level, threshold_step, channel, kept, K)
        above = membrane - v >= 0
        if FORCE_LAST:
            above = above | (t == T - 1)
        fires = above & (fired_at == T)
        fired_at = tl.where(fires, t, fired_at)
        tl.store(target, fires.to(tl.float32).to(spikes.dtype.element_ty), mask=inside)
        source += current_step
        target += spikes_step


@triton.jit
def backward(
    grad,
    current,
    grad_current,  # [T or 1, plane]
    scratch,  # [T, plane] float32
    grad_bias,  # [programs, K] float32 or None
    grad_threshold,  # [programs, BLOCK_S, K] float32 or None
    bias,
    thresholds,
    level,
    tau,
    alpha,
    grad_step,
    current_step,
    grad_current_step,
    scratch_step,
    threshold_step,
    R,
    K,
    r_stride,
    k_stride,
    C,
    programs,
    kept_tiles,
    T,
    CONSTANT: tl.constexpr,
    FORCE_LAST: tl.constexpr,
    LEAKY: tl.constexpr,
    KIND: tl.constexpr,
    BLOCK_S: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """The closed form and the reverse scan: see `neuron_triton.backward`."""
    program, kept = own_channels(kept_tiles, BLOCK_K)
    channel = kept % C
    shift = per_channel(bias, channel, kept, K)
    sum_bias = tl.zeros([BLOCK_R, BLOCK_K], tl.float32)
    sum_threshold = tl.zeros([BLOCK_S, BLOCK_K], tl.float32)

    for block in range(program, tl.cdiv(R, BLOCK_R), programs):
        reduced, inside = rows_of(block, kept, R, K, BLOCK_R)
        at = plane_offsets(reduced, kept, r_stride, k_stride)

        source, overdrive = current + at, scratch + at
        membrane = tl.zeros([BLOCK_R, BLOCK_K], tl.float32)
        first = tl.zeros([BLOCK_R, BLOCK_K], tl.int32) + T
        for t in range(T):
            frame = tl.load(source, mask=inside, other=0).to(tl.float32)
            membrane = integrate(membrane, frame + shift, tau, LEAKY)
            v = level_at(t, thresholds, level, threshold_step, channel, kept, K)
            tl.store(overdrive, membrane - v, mask=inside)
            first = tl.where((membrane - v >= 0) & (first == T), t, first)
            source += current_step
            overdrive += scratch_step

        tl.debug_barrier()
        grad_later = tl.zeros([BLOCK_R, BLOCK_K], tl.float32)
        grad_membrane = tl.zeros([BLOCK_R, BLOCK_K], tl.float32)
        total = tl.zeros([BLOCK_R, BLOCK_K], tl.float32)
        last = (T - 1).to(tl.int64)
        grad_source, target = grad + at + last * grad_step, grad_current + at
        if not CONSTANT:
            target += last * grad_current_step
        for back in range(T):
            t = T - 1 - back
            overdrive -= scratch_step
            g = tl.load(grad_source, mask=inside, other=0).to(tl.float32) * peak(alpha, KIND)
            u = tl.load(overdrive, mask=inside, other=0)
            step = tl.where(first >= t, g - grad_later, 0.0) * surrogate(u, alpha, KIND)
            above = u >= 0
            if FORCE_LAST:
                step = tl.where(back == 0, 0.0, step)
                above = above | (back == 0)
            grad_later = tl.where(above, g, grad_later)
            grad_membrane += step
            if grad_threshold is not None:
                here = (tl.arange(0, BLOCK_S) == (t if BLOCK_S > 1 else 0))[:, None]
                sum_threshold -= tl.where(here, tl.sum(step, axis=0)[None, :], 0.0)
            grad_source -= grad_step
            grad_drive = grad_membrane
            if LEAKY:
                grad_drive = grad_membrane / tau
                grad_membrane -= grad_drive
            total += grad_drive
            if not CONSTANT:
                tl.store(target, grad_drive.to(grad_current.dtype.element_ty), mask=inside)
                target -= grad_current_step
        if CONSTANT:
            tl.store(target, total.to(grad_current.dtype.element_ty), mask=inside)
        sum_bias += total

    leave_partial_sums(grad_bias, grad_threshold, sum_bias, sum_threshold, program, kept, K, BLOCK_S)
