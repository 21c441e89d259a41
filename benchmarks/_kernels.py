"""Our kernels one by one, at the sizes of SCNN6, against the bytes they must move."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from _gpu import captured, measure

from firstspike.kernels import adam, neuron_ops, pool_ops, pooled_ops, step_ops, weight

FRAMES, BATCH = 7, 128
CALLS = 5
"""Calls in one captured graph: launching a kernel from Python takes longer than running it."""


Timed = dict[str, tuple[Callable[[], object], int]]
"""What is timed, by name, and the bytes that it must move."""


def kernel_rows(copy_tb_s: float) -> Iterator[dict[str, Any]]:
    """Time, bytes and share of the measured copy bandwidth of each kernel of training."""
    kernels = {
        "amos, 256 x 32 x 32": partial(amos_steps, constant=False),
        "amos, 256 x 32 x 32, constant current": partial(amos_steps, constant=True),
        "amos pooled, 256 x 32 x 32": partial(pooled_steps, 32, contiguous=False),
        "amos pooled, 256 x 16 x 16, contiguous": partial(pooled_steps, 16, contiguous=True),
        "avg_pool, 256 x 32 x 32": pool_steps,
        "normalise_weight, 4096 x 16384": partial(weight_steps, 4096, 16384),
    }
    return timed_rows(kernels, copy_tb_s)


def inference_rows(copy_tb_s: float) -> Iterator[dict[str, Any]]:
    """The same for each kernel of inference, at the rounds of a step that matter."""
    rounds = ((0, 1), (1, 1), (2, 1), (4, 4))
    kernels = {
        "amos_step, 256 x 32 x 32": lambda: {f"{p} + {n}": one_round(32, p, n, 1, False) for p, n in rounds},
        "amos_step pooled, 256 x 32 x 32": lambda: {
            f"{p} + {n}": one_round(32, p, n, 2, False) for p, n in rounds
        },
        "amos_step pooled, 256 x 16 x 16, contiguous": lambda: {
            f"{p} + {n}": one_round(16, p, n, 2, True) for p, n in rounds
        },
    }
    return timed_rows(kernels, copy_tb_s)


def timed_rows(kernels: dict[str, Callable[[], Timed]], copy_tb_s: float) -> Iterator[dict[str, Any]]:
    for name, make in kernels.items():
        for direction, (step, size) in make().items():
            ms = measure(captured(step, CALLS))["ms"] / CALLS
            rate = size / ms / 1e9
            print(
                f"{name + ', ' + direction:<52} {ms:8.3f} ms {rate:6.2f} TB/s, {rate / copy_tb_s:.2f} of a copy"
            )
            yield {
                "name": f"{name}, {direction}",
                "ms": round(ms, 4),
                "bytes": size,
                "tb_s": round(rate, 3),
                "share_of_copy": round(rate / copy_tb_s, 3),
            }


def one_round(
    size: int, past: int, steps: int, pool: int, contiguous: bool
) -> tuple[Callable[[], object], int]:
    """Some steps after `past` others, whose samples come in another order: reads all currents, writes new spikes."""
    blocks = [
        torch.randn(n, BATCH, size, size, 256, device="cuda").to(torch.bfloat16).movedim(-1, 2)
        for n in (*[1] * past, steps)
    ]
    counts = torch.zeros(steps, BATCH, dtype=torch.int32, device="cuda")
    bias = torch.zeros(256, device="cuda")
    stay = torch.randperm(BATCH, device="cuda")
    options = ([stay] * past, past, steps, None, 1.0, None, bias, pool, contiguous, False, counts)
    neurons = blocks[0][0].numel()
    moved = 2 * neurons * (past + steps) + 2 * neurons * steps // pool**2
    return lambda: step_ops.amos_step(blocks, *options), moved


def amos_steps(constant: bool) -> Timed:
    """Forward reads the current and writes spikes; backward reads current and gradient and writes one."""
    frames = 1 if constant else FRAMES
    current = torch.randn(frames, BATCH, 32, 32, 256, device="cuda").to(torch.bfloat16).movedim(-1, 2)
    grad = torch.randn(FRAMES, BATCH, 32, 32, 256, device="cuda").to(torch.bfloat16).movedim(-1, 2)
    options = (None, 1.0, False, None, "atan", 2.0, torch.zeros(256, device="cuda"))
    neurons = current[0].numel()
    return {
        "forward": (
            lambda: neuron_ops.amos(current, FRAMES, *options),
            neurons * (2 * frames + 2 * FRAMES),
        ),
        "backward": (
            lambda: neuron_ops.amos_backward(grad, current, *options, False, True),
            neurons * (4 * frames + 2 * FRAMES),
        ),
    }


def pooled_steps(size: int, contiguous: bool) -> Timed:
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


def pool_steps() -> Timed:
    """Pooling alone: a quarter is written, or read."""
    frames = torch.randn(FRAMES, BATCH, 32, 32, 256, device="cuda").to(torch.bfloat16).movedim(-1, 2)
    grad = torch.randn_like(pool_ops.avg_pool(frames, 2, False))
    size = 2 * (frames.numel() + grad.numel())
    shape = list(frames.shape)
    return {
        "forward": (lambda: pool_ops.avg_pool(frames, 2, False), size),
        "backward": (lambda: pool_ops.avg_pool_backward(grad, shape, 2, True), size),
    }


Setting = tuple[Any, str, int]
"""A constant of a module of kernels, and the value to try."""


def variant_rows() -> Iterator[dict[str, Any]]:
    """The kernels under other numbers of neurons, weights and programs than the ones in use: which is best?"""
    plain, pooled, dense = amos_steps(False), pooled_steps(32, False), pooled_steps(16, True)
    update = weight_steps(4096, 16384)["backward and AdamW"]
    for chunk, ahead in ((2048, 1), (2048, 2), (2048, 3), (1024, 4), (4096, 1)):
        yield variant("AdamW", update, (adam, "CHUNK", chunk), (adam, "AHEAD", ahead))
    for elements in (256, 512, 1024):
        yield variant("pooled forward", pooled["forward"], (pooled_ops, "ELEMENTS", elements))
        yield variant("contiguous forward", dense["forward"], (pooled_ops, "ELEMENTS", elements))
    for elements, loads in ((256, 0), (256, 32), (512, 0)):
        settings = (pooled_ops, "BACKWARD_ELEMENTS", elements), (pooled_ops, "EAGER_LOADS", loads)
        yield variant("pooled backward", pooled["backward"], *settings)
        if not loads:
            yield variant("contiguous backward", dense["backward"], *settings)
    for programs in (2112, 4096, 8192, 16384):
        yield variant("pooled backward", pooled["backward"], (pooled_ops, "PROGRAMS", programs))
        yield variant("plain backward", plain["backward"], (neuron_ops, "PROGRAMS", programs))
    yield variant("plain backward", plain["backward"], (neuron_ops, "BACKWARD_ELEMENTS", 256))


def variant(name: str, timed: tuple[Callable[[], object], int], *settings: Setting) -> dict[str, Any]:
    """A kernel's time with some constants changed, and back again after it."""
    before = [(module, constant, getattr(module, constant)) for module, constant, _ in settings]
    values = {constant: value for _, constant, value in settings}
    result: dict[str, Any] = {"kernel": name, **values}
    try:
        for module, constant, value in settings:
            setattr(module, constant, value)
        result["ms"] = round(measure(captured(timed[0], CALLS), 10)["ms"] / CALLS, 4)
    except Exception as error:
        result["error"] = f"{type(error).__name__}: {error}"[:300]
    for module, constant, value in before:
        setattr(module, constant, value)
    print(f"{name:<20} {result.get('ms', result.get('error'))} ms with {values}", flush=True)
    return result


def weight_steps(rows: int, inputs: int) -> Timed:
    """Forward reads float32 and writes bf16; backward reads both and writes float32, or updates in its place."""
    weights, first, second = torch.randn(3, rows, inputs, device="cuda").abs()
    gain, step = torch.ones(rows, device="cuda"), torch.ones((), device="cuda")
    grad = torch.randn(rows, inputs, device="cuda").to(torch.bfloat16)
    _, means, scales = weight.normalise(weights, gain, 1.0, torch.bfloat16)
    grad_gain, squares = torch.empty(2, rows, device="cuda")
    sums = gain, means, scales, grad_gain, squares
    rates = 1e-4 * step, 1.0, 0.9, 0.999, 1e-8, 0.0
    return {
        "forward": (lambda: weight.normalise(weights, gain, 1.0, torch.bfloat16), 6 * weights.numel()),
        "backward": (
            lambda: weight.normalise_backward(grad, weights, gain, means, scales, 1.0, True),
            10 * weights.numel(),
        ),
        "backward and AdamW": (
            lambda: adam.adam_normalised(grad, weights, first, second, *sums, step, *rates),
            26 * weights.numel(),
        ),
    }
