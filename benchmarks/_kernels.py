"""Our kernels one by one, at the sizes of SCNN6, against the bytes they must move."""

from collections.abc import Callable
from typing import Any

import torch
from _gpu import captured, measure

from firstspike.kernels import neuron_ops, weight

FRAMES, BATCH = 7, 128
CALLS = 5
"""Calls in one captured graph: launching a kernel from Python takes longer than running it."""


def kernel_rows(copy_tb_s: float) -> list[dict[str, Any]]:
    """Time, bytes and share of the measured copy bandwidth of each kernel."""
    rows = []
    for name, steps in (
        ("amos, 256 x 32 x 32", amos_steps(constant=False)),
        ("amos, 256 x 32 x 32, constant current", amos_steps(constant=True)),
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
