"""The kernels on a real GPU, against the reference on the CPU.

Runs under pytest (`pytest tests/kernels -m gpu`), and as a script where there is none:
`PYTHONPATH=. python3 tests/kernels/test_gpu.py`.
"""

import sys
import traceback
from dataclasses import replace

import torch
from kernel_checks import CASES, Case, check_amos, check_normalise_weight, close

from firstspike import functional, kernels
from firstspike.functional import Surrogate

LARGE = [
    Case((7, 16, 256, 16, 16), torch.bfloat16, layout="channels_last"),
    Case((7, 16, 256, 16, 16), torch.bfloat16, layout="constant"),
    Case((7, 16, 64, 17, 15), torch.bfloat16, layout="contiguous", tau=1.9),
    Case((8, 4, 255, 9, 9), layout="channels_last", threshold="channel_step", force_last=True),
    Case((16, 4, 255, 9, 9), layout="channels_last", surrogate=Surrogate("triangle", 0.5)),
    Case((64, 4, 40, 8, 8), torch.bfloat16, layout="channels_last", threshold="channel"),
    Case((255, 2, 33), threshold="channel_step", tau=5.3),
    Case((7, 128, 4096), torch.bfloat16),
]
WEIGHTS = [(256, 27), (256, 256, 3, 3), (64, 16384), (10, 20000), (100, 4096)]


def check_all_amos() -> None:
    for case in [*CASES, *LARGE]:
        check_amos(case, "cuda")
        if case.dtype == torch.float32 and case.layout != "constant":
            check_amos(replace(case, dtype=torch.float16), "cuda")


def check_all_weights() -> None:
    for shape in WEIGHTS:
        for dtype in (None, torch.bfloat16):
            for gain in (False, True):
                check_normalise_weight(shape, "cuda", dtype, gain)
    check_normalise_weight((64, 32, 3, 3), "cuda", torch.bfloat16, True, channels_last=True)


def check_every_element_is_written() -> None:
    """Freed memory full of NaN is what an unwritten output would show."""
    poison = torch.full((64, 1024, 1024), float("nan"), device="cuda")
    del poison
    current = torch.randn(7, 33, 70, 9, 9, device="cuda").to(torch.bfloat16).requires_grad_()
    spikes = kernels.amos(current)
    spikes.backward(torch.randn_like(spikes))
    assert current.grad is not None
    assert bool(((spikes == 0) | (spikes == 1)).all())
    assert bool(torch.isfinite(current.grad).all())


def check_repeatable() -> None:
    """The reductions add in the same order every time."""
    current = torch.randn(7, 64, 96, 8, 8, device="cuda", dtype=torch.bfloat16)
    current = current.movedim(2, -1).contiguous().movedim(-1, 2)
    grad = torch.randn_like(current)

    def bias_grad() -> torch.Tensor:
        bias = torch.zeros(96, device="cuda", requires_grad=True)
        kernels.amos(current, bias=bias).backward(grad)
        assert bias.grad is not None
        return bias.grad

    first = bias_grad()
    assert all(torch.equal(first, bias_grad()) for _ in range(5))


def check_compiled() -> None:
    """One graph through torch.compile, with the spikes and gradients of eager."""

    def layer(image: torch.Tensor, weights: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        effective = kernels.normalise_weight(weights, 1.0, "channel", None, torch.float32)
        current = torch.nn.functional.conv2d(image, effective, padding=1)
        return kernels.amos(current.expand(3, *current.shape), bias=bias)

    arguments = [
        torch.randn(shape, device="cuda", requires_grad=True)
        for shape in ((4, 8, 9, 9), (16, 8, 3, 3), (16,))
    ]
    expected = layer(*arguments)
    spikes = torch.compile(layer, fullgraph=True)(*arguments)
    assert torch.equal(spikes, expected)
    weights = torch.randn_like(spikes)
    for eager, traced in zip(
        torch.autograd.grad((expected * weights).sum(), arguments),
        torch.autograd.grad((spikes * weights).sum(), arguments),
        strict=True,
    ):
        close(traced, eager.cpu(), 1e-3, "compiled")


def check_graph_replay() -> None:
    """A captured CUDA graph computes on new inputs."""
    current = torch.randn(3, 8, 16, 5, 5, device="cuda")
    kernels.amos(current)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        spikes = kernels.amos(current)
    current.copy_(torch.randn_like(current))
    graph.replay()
    assert torch.equal(spikes.cpu(), functional.amos(current.cpu()))


CHECKS = [
    check_all_amos,
    check_all_weights,
    check_every_element_is_written,
    check_repeatable,
    check_graph_replay,
    check_compiled,
]


def main() -> int:
    """Run all checks, print a line for each, and return how many failed."""
    failures = 0
    for check in CHECKS:
        try:
            check()
            print(f"ok      {check.__name__}", flush=True)
        except Exception:
            failures += 1
            print(f"FAILED  {check.__name__}\n{traceback.format_exc()}", flush=True)
    return failures


if __name__ == "__main__":
    sys.exit(main())

import pytest  # noqa: E402  (after the script's end: a GPU machine may have none)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_on_the_gpu(check: object) -> None:
    assert callable(check)
    check()
