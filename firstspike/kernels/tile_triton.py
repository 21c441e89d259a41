"""Where a program's tile lies in a plane (see `layout.Plane`); programs are numbered channels first."""

# Triton's dialect of Python: arguments have no types that mypy knows.
# mypy: ignore-errors

import triton
import triton.language as tl


@triton.jit
def own_channels(kept_tiles, BLOCK_K: tl.constexpr):
    """This program's number among those of the same channels, and the channels, `[BLOCK_K]`."""
    kept = tl.program_id(0) % kept_tiles * BLOCK_K + tl.arange(0, BLOCK_K)
    return tl.program_id(0) // kept_tiles, kept


@triton.jit
def rows_of(block, kept, R, K, BLOCK_R: tl.constexpr):
    """The rows of a block, `[BLOCK_R]`, and what of rows and channels is inside the plane."""
    reduced = block * BLOCK_R + tl.arange(0, BLOCK_R)
    return reduced, (reduced < R)[:, None] & (kept < K)[None, :]


@triton.jit
def own_tile(kept_tiles, R, K, BLOCK_R: tl.constexpr, BLOCK_K: tl.constexpr):
    """Rows and channels of this program, and what of them is inside the plane, for one tile a program."""
    block, kept = own_channels(kept_tiles, BLOCK_K)
    reduced, inside = rows_of(block, kept, R, K, BLOCK_R)
    return reduced, kept, inside


@triton.jit
def plane_offsets(reduced, kept, r_stride, k_stride):
    """Where the elements of a tile lie, int64."""
    return reduced[:, None].to(tl.int64) * r_stride + kept[None, :].to(tl.int64) * k_stride
