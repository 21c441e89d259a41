"""Our kernels one by one, at the sizes of SCNN6, against the bytes they must move."""

from collections.abc import Callable
from typing import Any

import torch
from _gpu import captured, measure

from firstspike.kernels import neuron_ops, pooled_ops, weight

FRAMES, BATCH = 7, 128
CALLS = 5
"""Calls in one captured graph: launching a kernel from Python takes longer than running it."""


def kernel_rows(copy_tb_s: float) -> list[dict[str, Any]]:
    """Time, bytes and share of the measured copy bandwidth of each kernel."""
    rows = []
    for name, steps in (
        ("amos, 256 x 32 x 32", amos_steps(constant=False)),
        ("amos, 256 x 32 x 32, constant current", amos_steps(constant=True)),
        ("amos pooled, 256 x 32 x 32", pooled_steps(32, contiguous=False)),
        ("amos pooled, 256 x 16 x 16, contiguous", pooled_steps(16, contiguous=True)),
        ("avg_pool, 256 x 32 x 32", pool_steps()),
        ("normalise_weight, 4096 x 16384", weight_steps(4096, 16384)),
    ):
        for direction, (step, size) in steps.items():
            ms = measure(captured(step, CALLS))["ms"] / CALLS
            rate = size / ms / 1e9
            rows.append(
                {
                    "name": f"{name}, {direction}",
                    "ms": round(ms, 4),
                    "bytes": size,
                    "tb_s": round(rate, 3),
                    "share_of_copy": round(rate / copy_tb_s, 3),
                }
            )
            print(
                f"{name + ', ' + direction:<52} {ms:8.3f} ms {rate:6.2f} TB/s, {rate / copy_tb_s:.2f} of a copy"
            )
    return rows


def amos_steps(constant: bool) -> dict[str, tuple[Callable[[], object], int]]:
    """Forward reads the current and writes spikes and times; backward reads all three and writes one."""
    frames = 1 if constant else FRAMES
    current = torch.randn(frames, BATCH, 32, 32, 256, device="cuda").to(torch.bfloat16).movedim(-1, 2)
    grad = torch.randn(FRAMES, BATCH, 32, 32, 256, device="cuda").to(torch.bfloat16).movedim(-1, 2)
    options = (None, 1.0, False, None, "atan", 2.0, torch.zeros(256, device="cuda"))
    times = neuron_ops.amos(current, FRAMES, *options)[1]
    neurons = times.numel()
    return {
        "forward": (
            lambda: neuron_ops.amos(current, FRAMES, *options),
            neurons * (2 * frames + 2 * FRAMES + 1),
        ),
        "backward": (
            lambda: neuron_ops.amos_backward(grad, current, times, *options, False, True),
            neurons * (4 * frames + 2 * FRAMES + 1),
        ),
    }


def pooled_steps(size: int, contiguous: bool) -> dict[str, tuple[Callable[[], object], int]]:
    """Forward reads the current and writes a quarter of it; backward reads both and writes the gradient."""
    current = torch.randn(FRAMES, BATCH, size, size, 256, device="cuda").to(torch.bfloat16).movedim(-1, 2)
    options = (None, 1.0, False, None, "atan", 2.0, torch.zeros(256, device="cuda"), 2)
    grad = torch.randn_like(pooled_ops.amos_pooled(current, FRAMES, *options, contiguous))
    return {
        "forward": (
            lambda: pooled_ops.amos_pooled(current, FRAMES, *options, contiguous),
            2 * (current.numel() + grad.numel()),
        ),
        "backward": (
            lambda: pooled_ops.amos_pooled_backward(grad, current, *options, False, True),
            2 * (2 * current.numel() + grad.numel()),
        ),
    }


def pool_steps() -> dict[str, tuple[Callable[[], object], int]]:
    """Pooling alone: a quarter is written, or read."""
    frames = torch.randn(FRAMES, BATCH, 32, 32, 256, device="cuda").to(torch.bfloat16).movedim(-1, 2)
    grad = torch.randn_like(pooled_ops.avg_pool(frames, 2, False))
    size = 2 * (frames.numel() + grad.numel())
    shape = list(frames.shape)
    return {
        "forward": (lambda: pooled_ops.avg_pool(frames, 2, False), size),
        "backward": (lambda: pooled_ops.avg_pool_backward(grad, shape, 2, True), size),
    }


def program_rows() -> list[dict[str, Any]]:
    """The neuron's backward over the number of programs that leave partial sums: which is best?"""
    rows = []
    before = neuron_ops.PROGRAMS
    for programs in (1056, 2112, 4096, 8192, 16384):
        neuron_ops.PROGRAMS = programs
        plain, pooled = (
            measure(captured(steps["backward"][0], CALLS))["ms"] / CALLS
            for steps in (amos_steps(constant=False), pooled_steps(32, contiguous=False))
        )
        rows.append({"programs": programs, "plain_ms": round(plain, 4), "pooled_ms": round(pooled, 4)})
        print(f"backward with {programs} programs: {plain:.3f} ms, pooled {pooled:.3f} ms")
    neuron_ops.PROGRAMS = before
    return rows


def weight_steps(rows: int, inputs: int) -> dict[str, tuple[Callable[[], object], int]]:
    """Forward reads float32 and writes bf16; backward reads both and writes float32."""
    weights = torch.randn(rows, inputs, device="cuda")
    gain = torch.ones(rows, device="cuda")
    grad = torch.randn(rows, inputs, device="cuda").to(torch.bfloat16)
    _, means, scales = weight.normalise(weights, gain, 1.0, torch.bfloat16)
    return {
        "forward": (lambda: weight.normalise(weights, gain, 1.0, torch.bfloat16), 6 * weights.numel()),
        "backward": (
            lambda: weight.normalise_backward(grad, weights, gain, means, scales, 1.0, True),
            10 * weights.numel(),
        ),
    }
