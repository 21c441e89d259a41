"""Average pooling in Triton.

A program owns a tile of pooled places (sample, row and column of the pooled frame) by channels, and walks
over the N x N values of each window. Frames are addressed by their four strides, so that no layout is
copied into another one.
"""

# Triton's dialect of Python: arguments have no types that mypy knows.
# mypy: ignore-errors

import triton
import triton.language as tl

from firstspike.kernels.tile_triton import own_tile


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
    place, kept, inside = own_tile(kept_tiles, R, K, BLOCK_R, BLOCK_K)
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
    place, kept, inside = own_tile(kept_tiles, R, K, BLOCK_R, BLOCK_K)
    at = offsets(place, height, width, pooled_b, pooled_y, pooled_x)
    g = tl.load(grad + at + kept[None, :].to(tl.int64) * pooled_c, mask=inside, other=0).to(tl.float32)
    share = tl.div_rn(g, tl.zeros_like(g) + N * N).to(grad_frames.dtype.element_ty)
    at = offsets(place, height, width, frames_b, N * frames_y, N * frames_x)
    target = grad_frames + at + kept[None, :].to(tl.int64) * frames_c
    for dy in tl.static_range(N):
        for dx in tl.static_range(N):
            tl.store(target + dy * frames_y + dx * frames_x, share, mask=inside)
