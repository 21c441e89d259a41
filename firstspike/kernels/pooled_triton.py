"""AMOS with average pooling in Triton.

A program owns a tile of pooled places (sample, row and column of the pooled frame) by channels, and walks
over the N x N neurons of each window. Frames are addressed by their four strides, so that no layout is
copied into another one: channels-last current in, contiguous pooled spikes out, if that is what comes next.

Inside the neuron, frames of single neurons are never written: forward reads the current and writes pooled
frames, backward reads the current and the gradient of pooled frames.
"""

# Triton's dialect of Python: arguments have no types that mypy knows, and a tuple grows by addition only.
# mypy: ignore-errors
# ruff: noqa: RUF005

import triton
import triton.language as tl

from firstspike.kernels.neuron_triton import (
    first_crossing,
    integrate,
    leave_partial_sums,
    level_at,
    load_steps,
    overdrives_of,
    peak,
    per_channel,
    step_grads,
    times_factor,
)
from firstspike.kernels.pool_triton import offsets
from firstspike.kernels.tile_triton import own_channels, own_tile, rows_of


@triton.jit
def dense_offsets(place, area, sample_stride, place_stride):
    """`offsets` in frames of `area` places whose rows follow each other without a gap.

    Written without rows and columns, because the compiler then sees which places are neighbours.
    """
    sample, rest = place // area, place % area
    return (sample.to(tl.int64) * sample_stride + rest.to(tl.int64) * place_stride)[:, None]


@triton.jit
def load_window(
    source, y, x, step, inside, N: tl.constexpr, T: tl.constexpr, CONSTANT: tl.constexpr, EAGER: tl.constexpr
):
    """The steps of each of a window's neurons, row by row; nothing yet unless EAGER."""
    window = ()
    if EAGER:
        for place in tl.static_range(N * N):
            at = source + place // N * y + place % N * x
            window = window + (load_steps(at, step, inside, T, CONSTANT),)
    return window


@triton.jit
def firing_code(
    frames,
    shift,
    thresholds,
    level,
    threshold_step,
    kept,
    K,
    tau,
    T: tl.constexpr,
    FORCE_LAST: tl.constexpr,
    LEAKY: tl.constexpr,
    BITS: tl.constexpr,
):
    """1 << BITS * (spike time) of each neuron of a tile, 0 for silence: the codes of a window add up to counts.

    Of several crossings the first is seen last, and holds.
    """
    membrane = tl.zeros_like(frames[0]).to(tl.float32)
    membranes = ()
    for t in tl.static_range(T):
        membrane = integrate(membrane, frames[t].to(tl.float32) + shift, tau, LEAKY)
        membranes = membranes + (membrane,)
    code = tl.zeros_like(membrane).to(tl.int32 if BITS * T <= 32 else tl.int64)
    for t in tl.static_range(T - 1, -1, -1):
        if FORCE_LAST and t == T - 1:
            code += 1 << (BITS * t)
        else:
            above = membranes[t] >= level_at(t, thresholds, level, threshold_step, kept, kept, K)
            code = tl.where(above, 1 << (BITS * t), code)
    return code


@triton.jit
def amos_forward(
    current,  # [T or 1, samples, C, H, W], any strides
    pooled,  # [T, samples, C, H/N, W/N], dense rows
    bias,  # [C] or None
    thresholds,  # [1 or T, C] or None, when `level` holds
    level,
    tau,
    current_step,
    pooled_step,
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
    CONSTANT: tl.constexpr,
    FORCE_LAST: tl.constexpr,
    LEAKY: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Pooled spike frames: the share of each window's neurons that fire at step 0, 1, ..."""
    place, kept, inside = own_tile(kept_tiles, R, K, BLOCK_R, BLOCK_K)
    shift = per_channel(bias, kept, kept, K)
    at = offsets(place, height, width, frames_b, N * frames_y, N * frames_x)
    source = current + at + kept[None, :].to(tl.int64) * frames_c

    BITS: tl.constexpr = 3 if N == 2 else 4  # room for N * N
    counts = tl.zeros([BLOCK_R, BLOCK_K], tl.int32 if BITS * T <= 32 else tl.int64)
    for neuron in tl.static_range(N * N):
        here = source + neuron // N * frames_y + neuron % N * frames_x
        frames = load_steps(here, current_step, inside, T, CONSTANT)
        levels = thresholds, level, threshold_step, kept, K
        counts += firing_code(frames, shift, *levels, tau, T, FORCE_LAST, LEAKY, BITS)

    at = dense_offsets(place, area, pooled_b, pooled_x)
    target = pooled + at + kept[None, :].to(tl.int64) * pooled_c
    for t in tl.static_range(T):
        count = ((counts >> (BITS * t)) & ((1 << BITS) - 1)).to(tl.float32)
        mean = tl.div_rn(count, tl.zeros_like(count) + N * N) if N == 3 else count * (1 / (N * N))
        tl.store(target, mean.to(pooled.dtype.element_ty), mask=inside)
        target += pooled_step


@triton.jit
def amos_backward(
    grad,  # [T, samples, C, H/N, W/N], dense rows
    current,  # [T or 1, samples, C, H, W], any strides
    grad_current,  # [T or 1, samples, C, H, W]; what no window covers is left as it is
    grad_bias,  # [programs, K] float32 or None
    grad_threshold,  # [programs, BLOCK_S, K] float32 or None
    bias,
    thresholds,
    level,
    tau,
    alpha,
    current_step,
    pooled_step,
    grad_step,
    threshold_step,
    frames_b,
    frames_c,
    frames_y,
    frames_x,
    grad_b,
    grad_c,
    grad_y,
    grad_x,
    pooled_b,
    pooled_c,
    pooled_x,
    R,
    K,
    area,
    height,
    width,
    programs,
    kept_tiles,
    N: tl.constexpr,
    T: tl.constexpr,
    CONSTANT: tl.constexpr,
    FORCE_LAST: tl.constexpr,
    LEAKY: tl.constexpr,
    KIND: tl.constexpr,
    EAGER: tl.constexpr,
    BLOCK_S: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """`neuron_triton.backward` for each neuron of a window, from the window's one gradient a step.

    The strides `pooled_*` are those of `grad`, and `grad_*` those of `grad_current`. Spike times are worked
    out anew from the current, which is read anyway.
    """
    program, kept = own_channels(kept_tiles, BLOCK_K)
    shift = per_channel(bias, kept, kept, K)
    sum_bias = tl.zeros([BLOCK_R, BLOCK_K], tl.float32)
    sum_threshold = tl.zeros([BLOCK_S, BLOCK_K], tl.float32)

    for block in range(program, tl.cdiv(R, BLOCK_R), programs):
        place, inside = rows_of(block, kept, R, K, BLOCK_R)
        at = offsets(place, height, width, frames_b, N * frames_y, N * frames_x)
        source = current + at + kept[None, :].to(tl.int64) * frames_c
        window = load_window(source, frames_y, frames_x, current_step, inside, N, T, CONSTANT, EAGER)
        at = dense_offsets(place, area, pooled_b, pooled_x)
        grads = load_steps(grad + at + kept[None, :].to(tl.int64) * pooled_c, pooled_step, inside, T, False)
        shares = times_factor(grads, peak(alpha, KIND) / (N * N), T)
        at = offsets(place, height, width, grad_b, N * grad_y, N * grad_x)
        target = grad_current + at + kept[None, :].to(tl.int64) * grad_c

        for neuron in tl.static_range(N * N):
            if EAGER:
                frames = window[neuron]
            else:
                here = source + neuron // N * frames_y + neuron % N * frames_x
                frames = load_steps(here, current_step, inside, T, CONSTANT)
            levels = thresholds, level, threshold_step, kept, kept, K
            overdrives = overdrives_of(frames, shift, *levels, tau, T, LEAKY)
            first = first_crossing(overdrives, T, FORCE_LAST)
            steps = step_grads(shares, overdrives, first, alpha, T, FORCE_LAST, KIND)
            here = target + neuron // N * grad_y + neuron % N * grad_x
            grad_membrane = tl.zeros([BLOCK_R, BLOCK_K], tl.float32)
            total = tl.zeros([BLOCK_R, BLOCK_K], tl.float32)
            for t in tl.static_range(T - 1, -1, -1):
                # Beyond the tile the gradient is 0, and so are these sums
                grad_membrane += steps[T - 1 - t]
                if grad_threshold is not None:
                    slot = (tl.arange(0, BLOCK_S) == (t if BLOCK_S > 1 else 0))[:, None]
                    sum_threshold -= tl.where(slot, tl.sum(steps[T - 1 - t], axis=0)[None, :], 0.0)
                grad_drive = grad_membrane
                if LEAKY:
                    grad_drive = grad_membrane / tau
                    grad_membrane -= grad_drive
                total += grad_drive
                if not CONSTANT:
                    value = grad_drive.to(grad_current.dtype.element_ty)
                    tl.store(here + tl.full([], t, tl.int64) * grad_step, value, mask=inside)
            if CONSTANT:
                tl.store(here, total.to(grad_current.dtype.element_ty), mask=inside)
            sum_bias += total

    leave_partial_sums(grad_bias, grad_threshold, sum_bias, sum_threshold, program, kept, K, BLOCK_S)
