"""AMOS on the CPU, compiled by numba: one pass over the current forward, one backward.

The current `[T, B, C, ...]` is seen as `[T, R, L]`, rows of L neighbouring neurons. A row is one channel of one
sample, and its bias one number; without spatial axes a row is a whole sample, and the bias runs along it. Either
way the bias is `rows[r % len(rows)] + columns[i]` with one of them zero.
"""

from typing import Any

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

Array = NDArray[Any]

SURROGATES = {"atan": 0, "sigmoid": 1, "triangle": 2, "rectangular": 3}


@njit(parallel=True, cache=True, boundscheck=False)
def forward(
    current: Array,
    rows: Array,
    columns: Array,
    threshold: float,
    leak: float,
    force_last: bool,
    spikes: Array,
    times: Array,
) -> int:
    """Fill `spikes [T, R, L]` and `times [R, L]`; returns how many rows hold a value that is not finite.

    `current` has one frame where it is constant. `leak` is tau, or 0 for IF.
    """
    T, R, L = spikes.shape
    constant = current.shape[0] == 1
    one = np.float32(1)
    level, tau = np.float32(threshold), np.float32(leak)
    bad = 0
    for r in prange(R):
        membrane = np.zeros(L, np.float32)
        bias = rows[r % len(rows)]
        for i in range(L):
            times[r, i] = T
        for t in range(T):
            frame = current[0 if constant else t, r]
            for i in range(L):
                drive = frame[i] + (bias + columns[i])
                if tau == 0:
                    membrane[i] += drive
                else:
                    membrane[i] += (drive - membrane[i]) / tau
                fires = times[r, i] == T and (membrane[i] - level >= 0 or (force_last and t == T - 1))
                spikes[t, r, i] = one if fires else np.float32(0)
                times[r, i] = t if fires else times[r, i]
        for i in range(L):
            if not np.isfinite(membrane[i]):
                bad += 1
                break
    return bad


@njit(inline="always")
def _derivative(overdrive: Any, kind: int, alpha: Any) -> Any:
    one, two = np.float32(1), np.float32(2)
    if kind == 0:
        slope = np.float32(np.pi / 2) * alpha * overdrive
        return alpha / two / (one + slope * slope)
    if kind == 1:
        sigmoid = one / (one + np.exp(-alpha * overdrive))
        return alpha * sigmoid * (one - sigmoid)
    if kind == 2:
        return alpha * max(np.float32(0), one - alpha * abs(overdrive))
    return alpha if abs(overdrive) < one / (two * alpha) else np.float32(0)


@njit(parallel=True, cache=True, boundscheck=False)
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
) -> None:
    """Fill `out` with the gradient of the current and `row_sums [R]` with its sum over each row.

    The closed form is that of `functional.first_crossing`. A constant current's gradient is summed over time.
    """
    T, R, L = grad.shape
    constant = current.shape[0] == 1
    zero = np.float32(0)
    level, tau, alpha = np.float32(threshold), np.float32(leak), np.float32(slope)
    keep = np.float32(1) if tau == 0 else np.float32(1) - np.float32(1) / tau
    scale = np.float32(1) if tau == 0 else np.float32(1) / tau
    last = T - 1 if force_last else T
    for r in prange(R):
        membranes = np.empty((T, L), np.float32)
        grad_first, grad_next = np.zeros(L, np.float32), np.zeros(L, np.float32)
        crossed = np.zeros(L, np.uint8)
        bias = rows[r % len(rows)]
        for t in range(T):
            frame = current[0 if constant else t, r]
            for i in range(L):
                drive = frame[i] + (bias + columns[i])
                before = membranes[t - 1, i] if t else zero
                membrane = before + drive if tau == 0 else before + (drive - before) / tau
                membranes[t, i] = membrane
                g, first = grad[t, r, i], times[r, i]
                grad_first[i] = g if t == first else grad_first[i]
                above = membrane - level >= 0 or (force_last and t == T - 1)
                again = above and t > first and crossed[i] == 0
                grad_next[i] = g if again else grad_next[i]
                crossed[i] = 1 if again else crossed[i]
        carry = np.zeros(L, np.float32)
        total = np.zeros(L, np.float32)
        for step in range(T):
            t = T - 1 - step
            for i in range(L):
                first = times[r, i]
                wanted = grad[t, r, i] - grad_first[i] if t < first else zero
                wanted = grad_first[i] - grad_next[i] if t == first else wanted
                wanted = zero if t == last else wanted
                carry[i] = wanted * _derivative(membranes[t, i] - level, kind, alpha) + keep * carry[i]
                value = carry[i] * scale
                total[i] += value
                if not constant:
                    out[t, r, i] = value
        if constant:
            for i in range(L):
                out[0, r, i] = total[i]
        summed = zero
        for i in range(L):
            summed += total[i]
        row_sums[r] = summed
