"""AMOS in Triton, for T small enough to keep a neuron's whole life in registers.

A program owns a tile of neurons (see `layout.Plane`) and all their steps. The T loads of a neuron are
issued before the first store, because a store in between could alias them and would put them in line.

Exactness: the membrane is a chain of float32 additions in the order of `functional.charge`, with no
product whose rounding a fused multiply-add could skip, and LIF divides with IEEE rounding. Spikes are
therefore bit-identical to the CPU reference. (PyTorch on CUDA divides by a number through its reciprocal,
so `functional.amos` there may round a LIF membrane differently, unless tau is a power of two.)
"""

# Triton's dialect of Python: arguments have no types that mypy knows, a static `if` needs its `else`, and a
# tuple grows by addition only.
# mypy: ignore-errors
# ruff: noqa: B007, RET505, RUF005

import triton
import triton.language as tl

from firstspike.kernels.tile_triton import own_channels, own_tile, plane_offsets, rows_of


@triton.jit
def integrate(membrane, drive, tau, LEAKY: tl.constexpr):
    """One charging step: IF, or LIF when LEAKY."""
    if LEAKY:
        return membrane + tl.div_rn(drive - membrane, tl.zeros_like(membrane) + tau)
    else:
        return membrane + drive


@triton.jit
def surrogate(u, alpha, KIND: tl.constexpr):
    """The derivative that stands in for that of step(u), see `functional.Surrogate`, as a share of its `peak`."""
    if KIND == "atan":
        scaled = 1.5707963267948966 * alpha * u
        root = tl.rsqrt(1 + scaled * scaled)  # one instruction, where a division takes several
        return root * root
    elif KIND == "sigmoid":
        s = tl.sigmoid(alpha * u)
        return 4 * s * (1 - s)
    elif KIND == "triangle":
        return tl.maximum(1 - alpha * tl.abs(u), 0.0)
    else:
        return tl.where(tl.abs(u) < 0.5 / alpha, 1.0, 0.0)


@triton.jit
def peak(alpha, KIND: tl.constexpr):
    """The surrogate at u = 0. Gradients are multiplied by it once, and not at every neuron of a window."""
    if KIND == "atan":
        return 0.5 * alpha
    elif KIND == "sigmoid":
        return 0.25 * alpha
    else:
        return alpha


@triton.jit
def times_factor(grads, factor, T: tl.constexpr):
    """The T gradients of a tile in float32, each times a number."""
    products = ()
    for t in tl.static_range(T):
        products = products + (grads[t].to(tl.float32) * factor,)
    return products


@triton.jit
def per_channel(values, channel, kept, K):
    """float32 `[1, BLOCK_K]` of a parameter `[C]`; 0 where it is None."""
    if values is None:
        return tl.zeros_like(channel).to(tl.float32)[None, :]
    else:
        return tl.load(values + channel, mask=kept < K, other=0).to(tl.float32)[None, :]


@triton.jit
def level_at(t, thresholds, level, step, channel, kept, K):
    """The threshold V of step t, float32 `[1, BLOCK_K]`: a number, or read from `[1 or T, C]`."""
    if thresholds is None:
        return (tl.zeros_like(channel).to(tl.float32) + level)[None, :]
    else:
        return tl.load(thresholds + t * step + channel, mask=kept < K, other=0).to(tl.float32)[None, :]


@triton.jit
def load_steps(source, step, inside, T: tl.constexpr, CONSTANT: tl.constexpr):
    """The T values of each neuron of a tile, as they are stored; one load stands for all when CONSTANT."""
    frames = (tl.load(source, mask=inside, other=0),)
    for t in tl.static_range(1, T):
        if CONSTANT:
            frames = frames + (frames[0],)
        else:
            source += step
            frames = frames + (tl.load(source, mask=inside, other=0),)
    return frames


@triton.jit
def overdrives_of(
    frames,
    shift,
    thresholds,
    level,
    threshold_step,
    channel,
    kept,
    K,
    tau,
    T: tl.constexpr,
    LEAKY: tl.constexpr,
):
    """H[t] - V[t] of a tile, float32, for every step."""
    membrane = tl.zeros_like(frames[0]).to(tl.float32)
    overdrives = ()
    for t in tl.static_range(T):
        membrane = integrate(membrane, frames[t].to(tl.float32) + shift, tau, LEAKY)
        v = level_at(t, thresholds, level, threshold_step, channel, kept, K)
        overdrives = overdrives + (membrane - v,)
    return overdrives


@triton.jit
def first_crossing(overdrives, T: tl.constexpr, FORCE_LAST: tl.constexpr):
    """The spike time of each neuron of a tile, int32; T for silence. The first crossing is seen last, and holds."""
    first = tl.zeros_like(overdrives[0]).to(tl.int32) + (T - 1 if FORCE_LAST else T)
    for t in tl.static_range(T - 1, -1, -1):
        if not (FORCE_LAST and t == T - 1):
            first = tl.where(overdrives[t] >= 0, t, first)
    return first


@triton.jit
def step_grads(
    grads, overdrives, first, alpha, T: tl.constexpr, FORCE_LAST: tl.constexpr, KIND: tl.constexpr
):
    """dL/d overdrive[t], last step first, from dL/dS[t] * peak: the closed form of `functional.first_crossing`.

    Backwards in time, the gradient at the last crossing passed is g[t2] before t1 and g[t1] after it, since
    nothing crosses before t1. So dL/d step[t] = g[t] - g[last crossing passed], for all t <= t1.
    """
    later = tl.zeros_like(overdrives[0])
    steps = ()
    for t in tl.static_range(T - 1, -1, -1):
        g = grads[t]
        if FORCE_LAST and t == T - 1:
            later = g
            steps = steps + (tl.zeros_like(g),)
        else:
            step = tl.where(first >= t, g - later, 0.0) * surrogate(overdrives[t], alpha, KIND)
            later = tl.where(overdrives[t] >= 0, g, later)
            steps = steps + (step,)
    return steps


@triton.jit
def leave_partial_sums(
    grad_bias, grad_threshold, sum_bias, sum_threshold, program, kept, K, BLOCK_S: tl.constexpr
):
    """Write a program's sums over its neurons, for bias and threshold, where they are wanted."""
    if grad_bias is not None:
        partial = grad_bias + program.to(tl.int64) * K + kept
        tl.store(partial, tl.sum(sum_bias, axis=0), mask=kept < K)
    if grad_threshold is not None:
        steps = program.to(tl.int64) * BLOCK_S + tl.arange(0, BLOCK_S)
        partials = grad_threshold + steps[:, None] * K + kept[None, :]
        tl.store(partials, sum_threshold, mask=(kept < K)[None, :])


@triton.jit
def forward(
    current,  # [T or 1, plane]
    spikes,  # [T, plane]
    bias,  # [C] or None
    thresholds,  # [1 or T, C] or None, when `level` holds
    level,
    tau,
    current_step,
    spikes_step,
    threshold_step,
    R,
    K,
    r_stride,
    k_stride,
    C,
    kept_tiles,
    T: tl.constexpr,
    CONSTANT: tl.constexpr,
    FORCE_LAST: tl.constexpr,
    LEAKY: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Spike frames of one tile of neurons."""
    reduced, kept, inside = own_tile(kept_tiles, R, K, BLOCK_R, BLOCK_K)
    at = plane_offsets(reduced, kept, r_stride, k_stride)
    channel = kept % C
    shift = per_channel(bias, channel, kept, K)

    frames = load_steps(current + at, current_step, inside, T, CONSTANT)
    levels = thresholds, level, threshold_step, channel, kept, K
    overdrives = overdrives_of(frames, shift, *levels, tau, T, LEAKY)
    first = first_crossing(overdrives, T, FORCE_LAST)
    target = spikes + at
    for t in tl.static_range(T):
        tl.store(target, (first == t).to(tl.float32).to(spikes.dtype.element_ty), mask=inside)
        target += spikes_step


@triton.jit
def backward(
    grad,  # [T, plane]: dL/dS
    current,  # [T or 1, plane]
    grad_current,  # [T or 1, plane]
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
    threshold_step,
    R,
    K,
    r_stride,
    k_stride,
    C,
    programs,
    kept_tiles,
    T: tl.constexpr,
    CONSTANT: tl.constexpr,
    FORCE_LAST: tl.constexpr,
    LEAKY: tl.constexpr,
    KIND: tl.constexpr,
    BLOCK_S: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """The closed form of `step_grads`, and the reverse scan of the membrane.

    Spike times are worked out anew from the current, which is read anyway.
    Each program walks over several tiles of the same channels and leaves one partial sum for the bias and
    the threshold, in an order that does not change between runs.
    """
    program, kept = own_channels(kept_tiles, BLOCK_K)
    channel = kept % C
    shift = per_channel(bias, channel, kept, K)
    sum_bias = tl.zeros([BLOCK_R, BLOCK_K], tl.float32)
    sum_threshold = tl.zeros([BLOCK_S, BLOCK_K], tl.float32)

    for block in range(program, tl.cdiv(R, BLOCK_R), programs):
        reduced, inside = rows_of(block, kept, R, K, BLOCK_R)
        at = plane_offsets(reduced, kept, r_stride, k_stride)

        grads = load_steps(grad + at, grad_step, inside, T, False)
        frames = load_steps(current + at, current_step, inside, T, CONSTANT)
        grads = times_factor(grads, peak(alpha, KIND), T)
        levels = thresholds, level, threshold_step, channel, kept, K
        overdrives = overdrives_of(frames, shift, *levels, tau, T, LEAKY)
        first = first_crossing(overdrives, T, FORCE_LAST)
        steps = step_grads(grads, overdrives, first, alpha, T, FORCE_LAST, KIND)

        grad_membrane = tl.zeros([BLOCK_R, BLOCK_K], tl.float32)
        total = tl.zeros([BLOCK_R, BLOCK_K], tl.float32)
        target = grad_current + at
        if not CONSTANT:
            target += tl.full([], T - 1, tl.int64) * grad_current_step
        for t in tl.static_range(T - 1, -1, -1):
            grad_membrane += steps[T - 1 - t]
            if grad_threshold is not None:
                here = (tl.arange(0, BLOCK_S) == (t if BLOCK_S > 1 else 0))[:, None]
                sum_threshold -= tl.where(here, tl.sum(steps[T - 1 - t], axis=0)[None, :], 0.0)
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
