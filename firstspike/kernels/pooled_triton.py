"""Average pooling in Triton: alone, and inside the AMOS kernels.

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
    load_steps,
    overdrives_of,
    per_channel,
    step_grads,
)


@triton.jit
def offsets(place, height, width, sample_stride, row_stride, column_stride):
    """Where the places of a `height` x `width` frame lie, int64 `[BLOCK_R, 1]`, for the first channel."""
    sample, rest = place // (height * width), place % (height * width)
    row, column = rest // width, rest % width
    at = sample.to(tl.int64) * sample_stride + row.to(tl.int64) * row_stride
    return (at + column.to(tl.int64) * column_stride)[:, None]


@triton.jit
def forward(
    frames,  # [samples, C, H, W], any strides
    pooled,  # [samples, C, H/N, W/N]
    frames_b,
    frames_c,
    frames_y,
    frames_x,
    pooled_b,
    pooled_c,
    pooled_y,
    pooled_x,
    R,
    K,
    height,
    width,
    kept_tiles,
    N: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """The mean of each window, summed in float32."""
    place = tl.program_id(0) // kept_tiles * BLOCK_R + tl.arange(0, BLOCK_R)
    kept = tl.program_id(0) % kept_tiles * BLOCK_K + tl.arange(0, BLOCK_K)
    inside = (place < R)[:, None] & (kept < K)[None, :]
    at = offsets(place, height, width, frames_b, N * frames_y, N * frames_x)
    source = frames + at + kept[None, :].to(tl.int64) * frames_c
    total = tl.zeros([BLOCK_R, BLOCK_K], tl.float32)
    for dy in tl.static_range(N):
        for dx in tl.static_range(N):
            total += tl.load(source + dy * frames_y + dx * frames_x, mask=inside, other=0).to(tl.float32)
    at = offsets(place, height, width, pooled_b, pooled_y, pooled_x)
    target = pooled + at + kept[None, :].to(tl.int64) * pooled_c
    mean = tl.div_rn(total, tl.zeros_like(total) + N * N)
    tl.store(target, mean.to(pooled.dtype.element_ty), mask=inside)


@triton.jit
def backward(
    grad,  # [samples, C, H/N, W/N], any strides
    grad_frames,  # [samples, C, H, W]; what no window covers is left as it is
    frames_b,
    frames_c,
    frames_y,
    frames_x,
    pooled_b,
    pooled_c,
    pooled_y,
    pooled_x,
    R,
    K,
    height,
    width,
    kept_tiles,
    N: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Each window's gradient, shared out evenly."""
    place = tl.program_id(0) // kept_tiles * BLOCK_R + tl.arange(0, BLOCK_R)
    kept = tl.program_id(0) % kept_tiles * BLOCK_K + tl.arange(0, BLOCK_K)
    inside = (place < R)[:, None] & (kept < K)[None, :]
    at = offsets(place, height, width, pooled_b, pooled_y, pooled_x)
    g = tl.load(grad + at + kept[None, :].to(tl.int64) * pooled_c, mask=inside, other=0).to(tl.float32)
    share = tl.div_rn(g, tl.zeros_like(g) + N * N).to(grad_frames.dtype.element_ty)
    at = offsets(place, height, width, frames_b, N * frames_y, N * frames_x)
    target = grad_frames + at + kept[None, :].to(tl.int64) * frames_c
    for dy in tl.static_range(N):
        for dx in tl.static_range(N):
            tl.store(target + dy * frames_y + dx * frames_x, share, mask=inside)


@triton.jit
def amos_forward(
    current,  # [T or 1, samples, C, H, W], any strides
    pooled,  # [T, samples, C, H/N, W/N], any strides
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
    pooled_y,
    pooled_x,
    R,
    K,
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
    place = tl.program_id(0) // kept_tiles * BLOCK_R + tl.arange(0, BLOCK_R)
    kept = tl.program_id(0) % kept_tiles * BLOCK_K + tl.arange(0, BLOCK_K)
    inside = (place < R)[:, None] & (kept < K)[None, :]
    shift = per_channel(bias, kept, kept, K)
    at = offsets(place, height, width, frames_b, N * frames_y, N * frames_x)
    source = current + at + kept[None, :].to(tl.int64) * frames_c

    counts = ()
    for _ in tl.static_range(T):
        counts = counts + (tl.zeros([BLOCK_R, BLOCK_K], tl.float32),)
    for dy in tl.static_range(N):
        for dx in tl.static_range(N):
            frames = load_steps(source + dy * frames_y + dx * frames_x, current_step, inside, T, CONSTANT)
            levels = thresholds, level, threshold_step, kept, kept, K
            overdrives = overdrives_of(frames, shift, *levels, tau, T, LEAKY)
            first = first_crossing(overdrives, T, FORCE_LAST)
            more = ()
            for t in tl.static_range(T):
                more = more + (counts[t] + (first == t).to(tl.float32),)
            counts = more

    at = offsets(place, height, width, pooled_b, pooled_y, pooled_x)
    target = pooled + at + kept[None, :].to(tl.int64) * pooled_c
    for t in tl.static_range(T):
        mean = tl.div_rn(counts[t], tl.zeros_like(counts[t]) + N * N)
        tl.store(target, mean.to(pooled.dtype.element_ty), mask=inside)
        target += pooled_step


@triton.jit
def amos_backward(
    grad,  # [T, samples, C, H/N, W/N], any strides
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
    pooled_y,
    pooled_x,
    R,
    K,
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
    BLOCK_S: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """`neuron_triton.backward` for each neuron of a window, from the window's one gradient a step.

    The strides `pooled_*` are those of `grad`, and `grad_*` those of `grad_current`. Spike times are worked
    out anew from the current, which is read anyway.
    """
    program = tl.program_id(0) // kept_tiles
    kept = tl.program_id(0) % kept_tiles * BLOCK_K + tl.arange(0, BLOCK_K)
    shift = per_channel(bias, kept, kept, K)
    sum_bias = tl.zeros([BLOCK_R, BLOCK_K], tl.float32)
    sum_threshold = tl.zeros([BLOCK_S, BLOCK_K], tl.float32)

    for block in range(program, tl.cdiv(R, BLOCK_R), programs):
        place = block * BLOCK_R + tl.arange(0, BLOCK_R)
        inside = (place < R)[:, None] & (kept < K)[None, :]
        at = offsets(place, height, width, pooled_b, pooled_y, pooled_x)
        source = grad + at + kept[None, :].to(tl.int64) * pooled_c
        shares = ()
        for _ in tl.static_range(T):
            shares = shares + (tl.load(source, mask=inside, other=0).to(tl.float32) * (1 / (N * N)),)
            source += pooled_step
        at = offsets(place, height, width, frames_b, N * frames_y, N * frames_x)
        source = current + at + kept[None, :].to(tl.int64) * frames_c
        at = offsets(place, height, width, grad_b, N * grad_y, N * grad_x)
        target = grad_current + at + kept[None, :].to(tl.int64) * grad_c

        for dy in tl.static_range(N):
            for dx in tl.static_range(N):
                frames = load_steps(source + dy * frames_y + dx * frames_x, current_step, inside, T, CONSTANT)
                levels = thresholds, level, threshold_step, kept, kept, K
                overdrives = overdrives_of(frames, shift, *levels, tau, T, LEAKY)
                first = first_crossing(overdrives, T, FORCE_LAST)
                steps = step_grads(shares, overdrives, first, alpha, T, FORCE_LAST, KIND)
                here = target + dy * grad_y + dx * grad_x
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

    if grad_bias is not None:
        partial = grad_bias + program.to(tl.int64) * K + kept
        tl.store(partial, tl.sum(sum_bias, axis=0), mask=kept < K)
    if grad_threshold is not None:
        steps = program.to(tl.int64) * BLOCK_S + tl.arange(0, BLOCK_S)
        partials = grad_threshold + steps[:, None] * K + kept[None, :]
        tl.store(partials, sum_threshold, mask=(kept < K)[None, :])
