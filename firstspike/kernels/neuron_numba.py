"""AMOS and the average pool behind it on the CPU, compiled by numba: one pass over the current each way.

The current `[T, B, C, ...]` is seen as `[T, R, L]`, rows of neurons that are neighbours in memory, of which a piece
is worked on at a time, small enough for the nearest cache: `rows.Rows` says how. Frames are float32, or bfloat16 as
the bits of a uint16; all arithmetic is float32. The bias is `shifts[r % len(shifts)] + columns[i]`, one of them zero.

All of it is in one file, because numba's cache of compiled functions notices a change in their own file only.
"""

from typing import Any

import numpy as np
from numba import njit, prange, types
from numba.extending import overload
from numpy.typing import NDArray

from firstspike.kernels.rows import Rows

Array = NDArray[Any]

SURROGATES = {"atan": 0, "sigmoid": 1, "triangle": 2, "rectangular": 3}


def _load(line: Array, into: Array) -> None:
    """Widen a part of a frame to float32."""
    raise NotImplementedError


@overload(_load)
def _load_from(line: Array, into: Array) -> Any:
    def copied(line: Array, into: Array) -> None:
        for i in range(len(line)):
            into[i] = line[i]

    def widened(line: Array, into: Array) -> None:
        bits = into.view(np.uint32)
        for i in range(len(line)):
            bits[i] = np.uint32(line[i]) << np.uint32(16)

    return copied if line.dtype == types.float32 else widened


def _store(values: Array, line: Array) -> None:
    """Bring float32 into a part of a frame, rounded to nearest, ties to even."""
    raise NotImplementedError


@overload(_store)
def _store_into(values: Array, line: Array) -> Any:
    def copied(values: Array, line: Array) -> None:
        for i in range(len(line)):
            line[i] = values[i]

    def rounded(values: Array, line: Array) -> None:
        bits = values.view(np.uint32)
        for i in range(len(line)):
            odd = (bits[i] >> np.uint32(16)) & np.uint32(1)
            line[i] = np.uint16((bits[i] + np.uint32(0x7FFF) + odd) >> np.uint32(16))

    return copied if line.dtype == types.float32 else rounded


@njit(error_model="numpy", boundscheck=False)
def _load_piece(row: Array, rows: Rows, begin: int, end: int, into: Array) -> None:
    """Neurons `begin` to `end` of each line of a row, one line after the other."""
    size = end - begin
    for line in range(rows.lines):
        start = line * rows.span
        _load(row[start + begin : start + end], into[line * size : (line + 1) * size])


@njit(error_model="numpy", boundscheck=False)
def _store_piece(values: Array, row: Array, rows: Rows, begin: int, end: int) -> None:
    """The inverse of `_load_piece`."""
    size = end - begin
    for line in range(rows.lines):
        start = line * rows.span
        _store(values[line * size : (line + 1) * size], row[start + begin : start + end])


@njit(error_model="numpy", boundscheck=False)
def _pool(piece: Array, width: int, size: int, beside: int, into: Array) -> None:
    """The mean of each window of a piece with lines of `width`."""
    windows = width // beside // size
    for line in range(len(into) // max(1, windows * beside)):
        means = into[line * windows * beside : (line + 1) * windows * beside]
        means[:] = np.float32(0)
        for row in range(size):
            start = (line * size + row) * width
            for column in range(size):
                if beside == 1:
                    for i in range(windows):
                        means[i] += piece[start + column + i * size]
                    continue
                for i in range(windows):
                    first = start + (column + i * size) * beside
                    for c in range(beside):
                        means[i * beside + c] += piece[first + c]
        for i in range(len(means)):
            means[i] /= np.float32(size * size)


@njit(error_model="numpy", boundscheck=False)
def _share(means: Array, width: int, size: int, beside: int, into: Array) -> None:
    """The gradient of each window's neurons from that of its mean (divided in place); in no full window it is 0."""
    windows = width // beside // size
    for i in range(len(means)):
        means[i] /= np.float32(size * size)
    if len(means) * size * size < len(into):
        into[:] = np.float32(0)
    for line in range(len(means) // max(1, windows * beside)):
        own = means[line * windows * beside : (line + 1) * windows * beside]
        for row in range(size):
            start = (line * size + row) * width
            for column in range(size):
                if beside == 1:
                    for i in range(windows):
                        into[start + column + i * size] = own[i]
                    continue
                for i in range(windows):
                    first = start + (column + i * size) * beside
                    for c in range(beside):
                        into[first + c] = own[i * beside + c]


@njit(error_model="numpy", boundscheck=False)
def _bias(shift: Any, columns: Array, lines: int, begin: int, end: int, into: Array) -> None:
    """The bias of each neuron of a piece."""
    size = end - begin
    for line in range(lines):
        for i in range(size):
            into[line * size + i] = shift + columns[begin + i]


@njit(error_model="numpy", boundscheck=False)
def _is_finite(values: Array) -> Any:
    """Whether all are: read off their bits, which the compiler compares many at a time."""
    bits, largest = values.view(np.uint32), np.uint32(0)
    for i in range(len(bits)):
        largest = max(largest, bits[i] & np.uint32(0x7FFFFFFF))
    return largest < np.uint32(0x7F800000)


@njit(parallel=True, cache=True, boundscheck=False, error_model="numpy")
def forward(
    rows: Rows,
    current: Array,
    shifts: Array,
    columns: Array,
    threshold: float,
    leak: float,
    force_last: bool,
    spikes: Array,
    times: Array,
) -> int:
    """Fill `spikes [T, R, L']` and `times [R, L]`; returns how many rows hold a value that is not finite.

    `current` has one frame where it is constant. `leak` is tau, or 0 for IF. Times lie piece by piece.
    """
    T, (R, _) = len(spikes), times.shape
    constant = current.shape[0] == 1
    zero, one = np.float32(0), np.float32(1)
    level, tau, silent = np.float32(threshold), np.float32(leak), np.uint8(T)
    most, pooled_most = rows.lines * rows.piece, rows.piece // rows.unit * rows.made
    bad = 0
    for r in prange(R):
        arrays, pools = np.empty((3, most), np.float32), np.empty(pooled_most, np.float32)
        finite = True
        for begin in range(0, rows.span, rows.piece):
            end = min(begin + rows.piece, rows.span)
            size, width = rows.lines * (end - begin), rows.width if rows.beside == 1 else end - begin
            membrane, drive, bias = arrays[0, :size], arrays[1, :size], arrays[2, :size]
            first = times[r, rows.lines * begin : rows.lines * end]
            out, made = begin // rows.unit * rows.made, (end - begin) // rows.unit * rows.made
            _bias(shifts[r % len(shifts)], columns, rows.lines, begin, end, bias)
            membrane[:] = zero
            first[:] = silent
            for t in range(T):
                _load_piece(current[0 if constant else t, r], rows, begin, end, drive)
                if tau == 0:
                    for i in range(size):
                        membrane[i] += drive[i] + bias[i]
                else:
                    for i in range(size):
                        membrane[i] += (drive[i] + bias[i] - membrane[i]) / tau
                step, last = np.uint8(t), force_last and t == T - 1
                for i in range(size):
                    before, over = first[i], membrane[i] - level >= zero or last
                    fires = before == silent and over
                    drive[i] = one if fires else zero
                    first[i] = step if fires else before
                if rows.size > 1:
                    _pool(drive, width, rows.size, rows.beside, pools[:made])
                    _store(pools[:made], spikes[t, r, out : out + made])
                else:
                    _store_piece(drive, spikes[t, r], rows, begin, end)
            finite = finite and _is_finite(membrane)
        if not finite:
            bad += 1
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
    rows: Rows,
    grad: Array,
    current: Array,
    times: Array,
    shifts: Array,
    columns: Array,
    threshold: float,
    leak: float,
    force_last: bool,
    kind: int,
    slope: float,
    out: Array,
    sums: Array,
) -> None:
    """Fill `out` with the gradient of the current and `sums [R, beside]` with the bias's part of each row.

    The closed form is that of `functional.first_crossing`, seen backwards in time: up to the first spike, a step
    is worth its own gradient less that of the next crossing. A constant current's gradient is summed over time.
    """
    T, (R, _) = len(grad), times.shape
    constant = current.shape[0] == 1
    zero = np.float32(0)
    level, tau, alpha = np.float32(threshold), np.float32(leak), np.float32(slope)
    keep = np.float32(1) if tau == 0 else np.float32(1) - np.float32(1) / tau
    scale = np.float32(1) if tau == 0 else np.float32(1) / tau
    most, pooled_most = rows.lines * rows.piece, rows.piece // rows.unit * rows.made
    for r in prange(R):
        overdrives, arrays = np.empty((T, most), np.float32), np.empty((7, most), np.float32)
        pools = np.empty(pooled_most, np.float32)
        sums[r, :] = zero
        for begin in range(0, rows.span, rows.piece):
            end = min(begin + rows.piece, rows.span)
            size, width = rows.lines * (end - begin), rows.width if rows.beside == 1 else end - begin
            made_at, made = begin // rows.unit * rows.made, (end - begin) // rows.unit * rows.made
            first = times[r, rows.lines * begin : rows.lines * end]
            membrane, drive, bias = arrays[0, :size], arrays[1, :size], arrays[2, :size]
            _bias(shifts[r % len(shifts)], columns, rows.lines, begin, end, bias)
            membrane[:] = zero
            for t in range(T):
                overdrive = overdrives[t, :size]
                _load_piece(current[0 if constant else t, r], rows, begin, end, drive)
                if tau == 0:
                    for i in range(size):
                        membrane[i] += drive[i] + bias[i]
                        overdrive[i] = membrane[i] - level
                else:
                    for i in range(size):
                        membrane[i] += (drive[i] + bias[i] - membrane[i]) / tau
                        overdrive[i] = membrane[i] - level
            derivative, g = membrane, drive
            next_crossing, carry, total = arrays[3, :size], arrays[4, :size], arrays[5, :size]
            wide = arrays[6, :size]
            next_crossing[:] = zero
            carry[:] = zero
            total[:] = zero
            for back in range(T):
                t = T - 1 - back
                overdrive, step = overdrives[t, :size], np.uint8(t)
                if rows.size > 1:
                    _load(grad[t, r, made_at : made_at + made], pools[:made])
                    _share(pools[:made], width, rows.size, rows.beside, g)
                else:
                    _load_piece(grad[t, r], rows, begin, end, g)
                if force_last and t == T - 1:
                    next_crossing[:] = g
                else:
                    _derivatives(overdrive, kind, alpha, derivative)
                    # Loads stand before the choices, so that the compiler makes vectors of them.
                    for i in range(size):
                        here, later = g[i], next_crossing[i]
                        wanted = here - later if step <= first[i] else zero
                        next_crossing[i] = here if overdrive[i] >= zero else later
                        carry[i] = wanted * derivative[i] + keep * carry[i]
                        total[i] += carry[i] * scale
                if not constant:
                    for i in range(size):
                        wide[i] = carry[i] * scale
                    _store_piece(wide, out[t, r], rows, begin, end)
            if constant:
                _store_piece(total, out[0, r], rows, begin, end)
            if rows.beside == 1:
                sums[r, 0] += _sum(total)
            else:
                for i in range(0, size, rows.beside):
                    for c in range(rows.beside):
                        sums[r, c] += total[i + c]
