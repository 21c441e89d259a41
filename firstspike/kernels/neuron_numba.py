"""AMOS and the average pool behind it on the CPU, compiled by numba: one pass over the current each way.

The current `[T, B, C, ...]` is seen as `[T, R, L]`, rows of L neighbouring neurons. A row is one channel of one
sample, and its bias one number; without spatial axes a row is a whole sample, and the bias runs along it. Either
way the bias is `rows[r % len(rows)] + columns[i]` with one of them zero. Pooled over windows of side `size` (1:
not at all), a row is a plane whose lines have `width` neurons, and L' of its windows are full.
"""

from typing import Any

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

Array = NDArray[Any]

SURROGATES = {"atan": 0, "sigmoid": 1, "triangle": 2, "rectangular": 3}


@njit(error_model="numpy", boundscheck=False)
def _pool(frame: Array, width: int, size: int, into: Array) -> None:
    """The mean of each window."""
    windows = width // size
    for line in range(len(into) // windows):
        means = into[line * windows : (line + 1) * windows]
        means[:] = np.float32(0)
        for row in range(size):
            start = (line * size + row) * width
            for column in range(size):
                for i in range(windows):
                    means[i] += frame[start + column + i * size]
        for i in range(windows):
            means[i] /= np.float32(size * size)


@njit(error_model="numpy", boundscheck=False)
def _share(means: Array, width: int, size: int, into: Array) -> None:
    """The gradient of each window's neurons from that of its mean; what is in no full window stays as it is."""
    windows = width // size
    for line in range(len(means) // windows):
        for row in range(size):
            start = (line * size + row) * width
            for column in range(size):
                for i in range(windows):
                    into[start + column + i * size] = means[line * windows + i] / np.float32(size * size)


@njit(parallel=True, cache=True, boundscheck=False, error_model="numpy")
def forward(
    current: Array,
    rows: Array,
    columns: Array,
    threshold: float,
    leak: float,
    force_last: bool,
    spikes: Array,
    times: Array,
    width: int,
    size: int,
) -> int:
    """Fill `spikes [T, R, L']` and `times [R, L]`; returns how many rows hold a value that is not finite.

    `current` has one frame where it is constant. `leak` is tau, or 0 for IF.
    """
    T, (R, L) = len(spikes), times.shape
    constant = current.shape[0] == 1
    zero, one = np.float32(0), np.float32(1)
    level, tau = np.float32(threshold), np.float32(leak)
    bad = 0
    for r in prange(R):
        membrane, alone = np.zeros(L, np.float32), np.empty(L if size > 1 else 0, np.float32)
        bias = rows[r % len(rows)]
        for i in range(L):
            times[r, i] = T
        for t in range(T):
            frame = current[0 if constant else t, r]
            fired = alone if size > 1 else spikes[t, r]
            for i in range(L):
                drive = frame[i] + (bias + columns[i])
                if tau == 0:
                    membrane[i] += drive
                else:
                    membrane[i] += (drive - membrane[i]) / tau
                fires = times[r, i] == T and (membrane[i] - level >= 0 or (force_last and t == T - 1))
                fired[i] = one if fires else zero
                times[r, i] = t if fires else times[r, i]
            if size > 1:
                _pool(fired, width, size, spikes[t, r])
        for i in range(L):
            if not np.isfinite(membrane[i]):
                bad += 1
                break
    return bad


@njit(error_model="numpy", boundscheck=False)
def _derivatives(overdrive: Array, kind: int, alpha: Any, into: Array) -> None:
    """The surrogate's derivative at each overdrive: one loop a kind, which the compiler makes vectors of."""
    zero, one, half = np.float32(0), np.float32(1), np.float32(0.5)
    if kind == 0:
        steep, peak = np.float32(np.pi / 2) * alpha, half * alpha
        for i in range(len(into)):
            slope = steep * overdrive[i]
            into[i] = peak / (one + slope * slope)
    elif kind == 1:
        for i in range(len(into)):
            sigmoid = one / (one + np.exp(-alpha * overdrive[i]))
            into[i] = alpha * sigmoid * (one - sigmoid)
    elif kind == 2:
        for i in range(len(into)):
            into[i] = alpha * max(zero, one - alpha * abs(overdrive[i]))
    else:
        for i in range(len(into)):
            into[i] = alpha if abs(overdrive[i]) < half / alpha else zero


@njit(fastmath={"reassoc", "nsz"}, error_model="numpy")
def _sum(values: Array) -> Any:
    """The sum, in whatever order is fastest."""
    total = np.float32(0)
    for i in range(len(values)):
        total += values[i]
    return total


@njit(parallel=True, cache=True, boundscheck=False, error_model="numpy")
def backward(
    grad: Array,
    current: Array,
    times: Array,
    rows: Array,
    columns: Array,
    threshold: float,
    leak: float,
    force_last: bool,
    kind: int,
    slope: float,
    out: Array,
    row_sums: Array,
    width: int,
    size: int,
) -> None:
    """Fill `out` with the gradient of the current and `row_sums [R]` with its sum over each row.

    The closed form is that of `functional.first_crossing`, seen backwards in time: up to the first spike, a step
    is worth its own gradient less that of the next crossing. A constant current's gradient is summed over time.
    """
    T, (R, L) = len(grad), times.shape
    constant = current.shape[0] == 1
    zero = np.float32(0)
    level, tau, alpha = np.float32(threshold), np.float32(leak), np.float32(slope)
    keep = np.float32(1) if tau == 0 else np.float32(1) - np.float32(1) / tau
    scale = np.float32(1) if tau == 0 else np.float32(1) / tau
    for r in prange(R):
        overdrives = np.empty((T, L), np.float32)
        first, bias = times[r], rows[r % len(rows)]
        membrane = np.zeros(L, np.float32)
        for t in range(T):
            frame, overdrive = current[0 if constant else t, r], overdrives[t]
            if tau == 0:
                for i in range(L):
                    membrane[i] += frame[i] + (bias + columns[i])
                    overdrive[i] = membrane[i] - level
            else:
                for i in range(L):
                    membrane[i] += (frame[i] + (bias + columns[i]) - membrane[i]) / tau
                    overdrive[i] = membrane[i] - level
        derivative, next_crossing = membrane, np.zeros(L, np.float32)
        carry, total = np.zeros(L, np.float32), np.zeros(L, np.float32)
        shared = np.zeros(L if size > 1 else 0, np.float32)
        for back in range(T):
            t = T - 1 - back
            g, overdrive, step = grad[t, r], overdrives[t], np.uint8(t)
            if size > 1:
                _share(g, width, size, shared)
                g = shared
            if force_last and t == T - 1:
                for i in range(L):
                    next_crossing[i] = g[i]
            else:
                _derivatives(overdrive, kind, alpha, derivative)
                # Loads stand before the choices, so that the compiler makes vectors of them.
                for i in range(L):
                    here, later = g[i], next_crossing[i]
                    wanted = here - later if step <= first[i] else zero
                    next_crossing[i] = here if overdrive[i] >= zero else later
                    carry[i] = wanted * derivative[i] + keep * carry[i]
                    total[i] += carry[i] * scale
            if not constant:
                frame = out[t, r]
                for i in range(L):
                    frame[i] = carry[i] * scale
        if constant:
            frame = out[0, r]
            for i in range(L):
                frame[i] = total[i]
        row_sums[r] = _sum(total)
