"""The partial sums that the programs of a backward launch leave, added up in Triton."""

# Triton's dialect of Python: arguments have no types that mypy knows.
# mypy: ignore-errors

import triton
import triton.language as tl


@triton.jit
def add_up(
    partial,  # [programs, slots, samples, C] float32
    sums,  # [slots, C] float32
    rows,  # programs * samples
    samples,
    slots,
    C,
    BLOCK_R: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """The sum over programs and samples of some channels of one slot, always in the same order."""
    tiles = tl.cdiv(C, BLOCK_C)
    slot = tl.program_id(0) // tiles
    channel = tl.program_id(0) % tiles * BLOCK_C + tl.arange(0, BLOCK_C)
    total = tl.zeros([BLOCK_R, BLOCK_C], tl.float32)
    for start in tl.range(0, rows, BLOCK_R, loop_unroll_factor=4):
        row = start + tl.arange(0, BLOCK_R)
        line = ((row // samples).to(tl.int64) * slots + slot) * samples + row % samples
        inside = (row < rows)[:, None] & (channel < C)[None, :]
        total += tl.load(partial + line[:, None] * C + channel[None, :], mask=inside, other=0.0)
    tl.store(sums + slot * C + channel, tl.sum(total, axis=0), mask=channel < C)
