"""Adam for a normalised weight in Triton: one program a row (the weights of one output channel).

The row and its gradient are read once and stay in registers, in CHUNKS of BLOCK, until their sums are known;
the moments pass through chunk by chunk.
"""

# Triton's dialect of Python: arguments have no types that mypy knows, and a tuple grows by addition only.
# mypy: ignore-errors
# ruff: noqa: RUF005

import triton
import triton.language as tl


@triton.jit
def load_chunk(source, chunk, N, BLOCK: tl.constexpr):
    """Part of a row as it is stored; 0 beyond its end."""
    columns = chunk * BLOCK + tl.arange(0, BLOCK)
    return tl.load(source + columns, mask=columns < N, other=0.0)


@triton.jit
def load_chunks(source, N, FROM: tl.constexpr, TO: tl.constexpr, BLOCK: tl.constexpr):
    """Some chunks of a row, one after the other."""
    chunks = ()
    for chunk in tl.static_range(FROM, TO):
        chunks = chunks + (load_chunk(source, chunk, N, BLOCK),)
    return chunks


@triton.jit
def update(
    grad,  # [out, N]: dL/d normalised
    weight,  # [out, N] float32, updated
    exp_avg,  # [out, N] float32, updated
    exp_avg_sq,  # [out, N] float32, updated
    gain,  # [out] or None
    means,  # [out] float32
    scales,  # [out] float32: 1 / sqrt(var + eps)
    grad_gain,  # [out] float32 or None
    squares,  # [out] float32: |dL/dW|^2
    taken,  # float32: the number of this step, from 1
    rate,  # float32
    std,
    variance_epsilon,
    rest1,  # 1 - beta1
    rest2,
    log_beta1,
    log_beta2,
    epsilon,
    decay,
    N,
    CHUNKS: tl.constexpr,
    AHEAD: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """dW of one row as in `weight_triton.backward`, then the step of AdamW with it."""
    row = tl.program_id(0)
    start = row.to(tl.int64) * N
    mean = tl.load(means + row)
    scale = tl.load(scales + row)
    values = load_chunks(weight + start, N, 0, CHUNKS, BLOCK)
    grads = load_chunks(grad + start, N, 0, CHUNKS, BLOCK)
    firsts = load_chunks(exp_avg + start, N, 0, AHEAD, BLOCK)
    seconds = load_chunks(exp_avg_sq + start, N, 0, AHEAD, BLOCK)
    sums = tl.zeros([BLOCK], tl.float32)
    products = tl.zeros([BLOCK], tl.float32)
    own = tl.zeros([BLOCK], tl.float32)
    for chunk in tl.static_range(CHUNKS):
        wide = grads[chunk].to(tl.float32)
        sums += wide
        products += wide * (values[chunk] - mean)
        own += wide * wide
    mean_grad = tl.sum(sums, axis=0) / N
    sum_product = tl.sum(products, axis=0) * scale
    mean_product = sum_product / N
    factor = std * scale
    if gain is not None:
        factor *= tl.load(gain + row).to(tl.float32)
    if grad_gain is not None:
        tl.store(grad_gain + row, std * sum_product)
    # sum (g - mean(g) - y mean(g y))^2, where y has mean 0 and mean square 1 - eps scale^2
    along = mean_product * mean_product * (1 + variance_epsilon * scale * scale)
    square = tl.sum(own, axis=0) - N * (mean_grad * mean_grad + along)
    tl.store(squares + row, factor * factor * tl.maximum(square, 0.0))

    # dW = factor (g - mean(g) - (W - mean) scale mean(g y)), written so that nothing of the sums is kept for it
    slope = factor * scale * mean_product
    offset = slope * mean - factor * mean_grad
    count = tl.load(taken).to(tl.float64)  # 1 - beta2^t cancels nearly all digits at first
    correction1 = (1 - tl.exp(count * log_beta1)).to(tl.float32)
    correction2 = (1 - tl.exp(count * log_beta2)).to(tl.float32)
    lr = tl.load(rate)
    size = lr / correction1
    root = tl.sqrt(correction2)
    for chunk in tl.static_range(CHUNKS):
        columns = chunk * BLOCK + tl.arange(0, BLOCK)
        inside = columns < N
        at = start + columns
        if chunk + AHEAD < CHUNKS:
            firsts = firsts + (load_chunk(exp_avg + start, chunk + AHEAD, N, BLOCK),)
            seconds = seconds + (load_chunk(exp_avg_sq + start, chunk + AHEAD, N, BLOCK),)
        g = factor * grads[chunk].to(tl.float32) - slope * values[chunk] + offset
        first = firsts[chunk] + rest1 * (g - firsts[chunk])
        second = seconds[chunk] + rest2 * (g * g - seconds[chunk])
        change = size * first / (tl.sqrt(second) / root + epsilon)
        tl.store(exp_avg + at, first, mask=inside)
        tl.store(exp_avg_sq + at, second, mask=inside)
        tl.store(weight + at, values[chunk] * (1 - lr * decay) - change, mask=inside)
