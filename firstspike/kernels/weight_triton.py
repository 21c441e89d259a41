"""Weight normalisation in Triton: one program a row (the weights of one output channel).

A row of up to `BLOCK` weights is read from memory once and stays in registers. A longer row is walked over
in blocks, once for each sum that the next one needs; only the first walk is sure to come from memory.
"""

# Triton's dialect of Python: arguments have no types that mypy knows.
# mypy: ignore-errors

import triton
import triton.language as tl


@triton.jit
def forward(
    weight,  # [out, N] float32
    gain,  # [out] or None
    normalised,  # [out, N]
    means,  # [out] float32
    scales,  # [out] float32: 1 / sqrt(var + eps)
    std,
    epsilon,
    N,
    ONE_BLOCK: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """gain * std * (W - mean) / sqrt(var + eps) of one row, and the two statistics for backward."""
    row = tl.program_id(0)
    source = weight + row.to(tl.int64) * N
    target = normalised + row.to(tl.int64) * N
    columns = tl.arange(0, BLOCK)
    if ONE_BLOCK:
        values = tl.load(source + columns, mask=columns < N, other=0.0)
        mean = tl.sum(values, axis=0) / N
        centred = tl.where(columns < N, values - mean, 0.0)
        variance = tl.sum(centred * centred, axis=0) / N
    else:
        sums = tl.zeros([BLOCK], tl.float32)
        for start in range(0, N, BLOCK):
            sums += tl.load(source + start + columns, mask=start + columns < N, other=0.0)
        mean = tl.sum(sums, axis=0) / N
        squares = tl.zeros([BLOCK], tl.float32)
        for start in range(0, N, BLOCK):
            inside = start + columns < N
            centred = tl.where(inside, tl.load(source + start + columns, mask=inside, other=0.0) - mean, 0.0)
            squares += centred * centred
        variance = tl.sum(squares, axis=0) / N

    scale = tl.rsqrt(variance + epsilon)
    tl.store(means + row, mean)
    tl.store(scales + row, scale)
    factor = std * scale
    if gain is not None:
        factor *= tl.load(gain + row).to(tl.float32)
    if ONE_BLOCK:
        tl.store(target + columns, (centred * factor).to(normalised.dtype.element_ty), mask=columns < N)
    else:
        for start in range(0, N, BLOCK):
            inside = start + columns < N
            values = tl.load(source + start + columns, mask=inside, other=0.0)
            result = ((values - mean) * factor).to(normalised.dtype.element_ty)
            tl.store(target + start + columns, result, mask=inside)


@triton.jit
def backward(
    grad,  # [out, N]: dL/d normalised
    weight,  # [out, N] float32
    gain,  # [out] or None
    means,
    scales,
    grad_weight,  # [out, N] float32
    grad_gain,  # [out] float32 or None
    std,
    N,
    ONE_BLOCK: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """With y = (W - mean) * scale: dW = gain std scale (g - mean(g) - y mean(g y)), dgain = std sum(g y)."""
    row = tl.program_id(0)
    source = weight + row.to(tl.int64) * N
    grad_source = grad + row.to(tl.int64) * N
    target = grad_weight + row.to(tl.int64) * N
    columns = tl.arange(0, BLOCK)
    mean = tl.load(means + row)
    scale = tl.load(scales + row)
    if ONE_BLOCK:
        # Kept as loaded: 16-bit gradients take half the registers until they are used again
        values = tl.load(source + columns, mask=columns < N, other=0.0)
        grads = tl.load(grad_source + columns, mask=columns < N, other=0.0)
        wide = grads.to(tl.float32)
        sum_grad = tl.sum(wide, axis=0)
        sum_product = tl.sum(wide * ((values - mean) * scale), axis=0)
    else:
        sums = tl.zeros([BLOCK], tl.float32)
        products = tl.zeros([BLOCK], tl.float32)
        for start in range(0, N, BLOCK):
            inside = start + columns < N
            wide = tl.load(grad_source + start + columns, mask=inside, other=0.0).to(tl.float32)
            sums += wide
            products += wide * ((tl.load(source + start + columns, mask=inside, other=0.0) - mean) * scale)
        sum_grad = tl.sum(sums, axis=0)
        sum_product = tl.sum(products, axis=0)

    if grad_gain is not None:
        tl.store(grad_gain + row, std * sum_product)
    factor = std * scale
    if gain is not None:
        factor *= tl.load(gain + row).to(tl.float32)
    mean_grad = sum_grad / N
    mean_product = sum_product / N
    if ONE_BLOCK:
        result = factor * (grads.to(tl.float32) - mean_grad - (values - mean) * scale * mean_product)
        tl.store(target + columns, result, mask=columns < N)
    else:
        for start in range(0, N, BLOCK):
            inside = start + columns < N
            wide = tl.load(grad_source + start + columns, mask=inside, other=0.0).to(tl.float32)
            values = tl.load(source + start + columns, mask=inside, other=0.0)
            result = factor * (wide - mean_grad - (values - mean) * scale * mean_product)
            tl.store(target + start + columns, result, mask=inside)
