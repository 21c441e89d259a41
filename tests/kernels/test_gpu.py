"""The kernels on a real GPU, against the reference on the CPU.

Runs under pytest (`pytest tests/kernels -m gpu`), and as a script where there is none:
`PYTHONPATH=. python3 tests/kernels/test_gpu.py`.
"""

import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from kernel_checks import CASES, Case, check_adam, check_amos, check_normalise_weight, close
from step_checks import STEP_CASES, StepCase, check_steps

import firstspike
from firstspike import functional, kernels
from firstspike.data import load
from firstspike.functional import Surrogate
from firstspike.inference import Batched, batched
from firstspike.models import as_unit, build_from, save
from firstspike.nn import Spiking
from firstspike.training import adam, get_recipe
from firstspike.training.distributed import find_place
from firstspike.training.optimizer import OptimizerConfig, make_optimizers
from firstspike.training.trainer import Trainer

LARGE = [
    Case((7, 16, 256, 16, 16), torch.bfloat16, layout="channels_last"),
    Case((7, 16, 256, 16, 16), torch.bfloat16, layout="constant"),
    Case((7, 16, 64, 17, 15), torch.bfloat16, layout="contiguous", tau=1.9),
    Case((8, 4, 255, 9, 9), layout="channels_last", threshold="channel_step", force_last=True),
    Case((16, 4, 255, 9, 9), layout="channels_last", surrogate=Surrogate("triangle", 0.5)),
    Case((64, 4, 40, 8, 8), torch.bfloat16, layout="channels_last", threshold="channel"),
    Case((255, 2, 33), threshold="channel_step", tau=5.3),
    Case((7, 128, 4096), torch.bfloat16),
    Case((7, 16, 256, 16, 16), torch.bfloat16, layout="channels_last", pool=2),
    Case((7, 16, 256, 16, 16), torch.bfloat16, layout="channels_last", pool=2, contiguous=True),
    Case((7, 16, 256, 16, 16), torch.bfloat16, layout="one_frame", pool=2, tau=1.9),
    Case((8, 5, 40, 17, 13), layout="channels_last", pool=3, threshold="channel_step", force_last=True),
    Case((16, 5, 20, 8, 8), pool=2, threshold="channel"),
    Case((2, 257, 256, 2, 2), torch.bfloat16, pool=2),
    Case((2, 257, 256, 1, 1)),
]
WEIGHTS = [(256, 27), (256, 256, 3, 3), (64, 16384), (10, 20000), (100, 4096)]


def check_all_amos(part: int = 0, parts: int = 1) -> None:
    for case in [*CASES, *LARGE][part::parts]:
        check_amos(case, "cuda")
        if case.dtype == torch.float32 and case.layout != "constant":
            check_amos(replace(case, dtype=torch.float16), "cuda")


LARGE_STEPS = [
    StepCase((16, 256, 16, 16), (1, 1, 2, 4), torch.bfloat16, "channels_last", leave=True),
    StepCase((16, 256, 16, 16), (1, 1, 2, 4), torch.bfloat16, "channels_last", pool=2, leave=True),
    StepCase((16, 256, 16, 16), (1, 1, 2, 4), torch.bfloat16, "channels_last", pool=2, contiguous=True),
    StepCase((16, 256, 16, 16), (1, 1, 2, 4), torch.bfloat16, "constant"),
    StepCase((7, 64, 17, 15), (1, 2), torch.float16, "contiguous", "channel_step", 1.9),
    StepCase((128, 4096), (1, 1, 2, 4), torch.bfloat16),
    StepCase((257, 256, 2, 2), (1, 1), torch.bfloat16, pool=2),
]


def check_all_steps(part: int = 0, parts: int = 1) -> None:
    for case in [*STEP_CASES, *LARGE_STEPS][part::parts]:
        check_steps(case, "cuda")


def check_early_stopping() -> None:
    """Batches that stop early, as they are and replayed as graphs, answer as all steps do."""
    net = firstspike.build("C32K3-C32K3-P2-C32K3-P2-FC64-FC10", (3, 16, 16), T=8).cuda().eval()
    net.compute_dtype = torch.bfloat16
    for layer in net.layers:  # with 1, a fresh network may pass on nothing in three steps
        if isinstance(layer, Spiking):
            layer.neuron.threshold = 0.5
    with torch.no_grad():  # half of the images answered by the third step
        membrane = net(torch.rand(256, 3, 16, 16, device="cuda")).membrane
    net.readout.neuron.threshold = membrane[:3].amax((0, 2)).median().item()
    for graphs in (0, 512):
        batched.GRAPH_UP_TO = graphs
        ready = Batched(net)
        for _ in range(8):
            images = torch.rand(64, 3, 16, 16, device="cuda")
            with torch.no_grad():
                output = ready.net(images.to(memory_format=torch.channels_last))
            expected = functional.predict(output.spike_times, output.membrane, "potential")
            found = ready(images)
            for name in ("label", "steps", "tied", "silent"):
                agree = (getattr(found, name) == getattr(expected, name)).float().mean().item()
                assert agree > 0.98, (
                    f"{name}: {agree:.2%} agree, graphs up to {graphs}"
                )  # rounding may decide
        (run,) = ready._runs.values()
        assert not run.first.tree.failure, run.first.tree.failure
        assert (run.first.graph is not None) == (graphs > 0)
        assert len(found.steps.unique()) > 1


def check_all_weights() -> None:
    for shape in WEIGHTS:
        for dtype in (None, torch.bfloat16):
            for gain in (False, True):
                check_normalise_weight(shape, "cuda", dtype, gain)
    check_normalise_weight((64, 32, 3, 3), "cuda", torch.bfloat16, True, channels_last=True)


def check_all_adam() -> None:
    for shape in ((64, 16384), (33, 4096), (100, 3000), (10, 50)):
        for dtype in (torch.float32, torch.bfloat16):
            for gain in (False, True):
                check_adam(shape, "cuda", dtype, gain)


def check_deferred_training() -> None:
    """Training with deferred gradients, plain and replayed as a graph, against torch's AdamW."""
    from tests.training.small import recipe  # here, because it needs the whole house

    options = OptimizerConfig("adamw", lr=1e-2, ema=0.9, weight_decay=1e-3)
    large, adam.LARGE = adam.LARGE, 1
    losses = []
    for deferring, capture in ((False, False), (True, False), (True, True)):
        trainer = Trainer(recipe("C8K3-P2-C8K3-FC16-FC4", optimizer=options), find_place("cuda"))
        if not deferring:
            trainer.optimizers = make_optimizers(trainer.model, options, alone=False)
        trainer.capture = capture
        for epoch in range(2):
            trainer.epoch, trainer.step = epoch, 0
            for _ in trainer.rest_of_epoch():
                pass
        losses.append(trainer.meter.read()["loss"])
        weights = [layer.synapse.weight for layer in trainer.network.layers if hasattr(layer, "synapse")]
        assert [weight.grad is None for weight in weights] == [False, False, deferring, deferring]
    adam.LARGE = large
    step = trainer.static_step
    assert step is not None
    assert step.graph is not None, step.failure
    assert all(
        layer.synapse.gradient_norm() > 0 for layer in trainer.network.layers if hasattr(layer, "synapse")
    )
    assert max(losses) - min(losses) < 0.03 * losses[0], losses


def check_all_pools() -> None:
    for shape, size in (((3, 4, 64, 16, 16), 2), ((3, 4, 33, 17, 19), 3), ((2, 3, 5, 9, 8), 4)):
        for channels_last in (False, True):
            frames = torch.randn(shape)
            frames = frames.movedim(2, -1).contiguous().movedim(-1, 2) if channels_last else frames
            results = []
            for device in ("cpu", "cuda"):
                leaf = frames.detach().to(device).requires_grad_()
                pooled = kernels.avg_pool(leaf, size)
                (pooled * torch.arange(pooled.shape[-1], device=device)).sum().backward()
                assert leaf.grad is not None
                results.append((pooled.detach(), leaf.grad))
            for found, expected in zip(*reversed(results), strict=True):
                close(found, expected, 1e-5, f"avg_pool {shape}, {size}")


def check_a_large_batch_in_float32() -> None:
    """B * C = 65,536 contiguous planes: once more than a grid's second axis takes."""
    net = firstspike.build("C256K3-P2-FC10", (3, 8, 8), T=4).eval()
    images = torch.rand(256, 3, 8, 8)
    allowed, torch.backends.cudnn.allow_tf32 = torch.backends.cudnn.allow_tf32, False
    with torch.no_grad():
        expected, found = net(images), net.cuda()(images.cuda())
    torch.backends.cudnn.allow_tf32 = allowed
    differing = (found.spikes.cpu() != expected.spikes).float().mean().item()
    assert differing < 1e-3, f"{differing:.2%} of the output spikes differ"


def check_a_network_in_all_its_ways() -> None:
    """Pools fused or apart (a hook keeps them so), recomputed or kept: the same spikes, the same gradients."""
    net = firstspike.build("C16K3-C16K3-P2-C24K3-P2-FC32-FC10", (3, 16, 16), T=8).cuda()
    net = net.to(memory_format=torch.channels_last).train()
    net.compute_dtype = torch.bfloat16
    images = torch.rand(8, 3, 16, 16, device="cuda").to(memory_format=torch.channels_last)
    weights = torch.randn(8, 8, 10, device="cuda")
    results = []
    for apart, recompute in ((False, False), (True, False), (False, True)):
        handles = [layer.register_forward_hook(lambda *_: None) for layer in net.layers] if apart else []
        net.recompute = recompute
        net.zero_grad()
        output = net(images)
        (output.spikes * weights).sum().backward()
        results.append([output.spikes.detach(), *[p.grad for p in net.parameters()]])
        for handle in handles:
            handle.remove()
    for other in results[1:]:
        assert torch.equal(other[0], results[0][0])
        for found, expected in zip(other[1:], results[0][1:], strict=True):
            close(found, expected.cpu(), 2e-2, "network")


def check_captured_training() -> None:
    """Training replayed as a graph against plain steps, for every optimiser, with a moving average."""
    from tests.training.small import recipe  # here, because it needs the whole house

    for kind in ("sgd", "adamw", "muon"):
        options = OptimizerConfig(kind, lr=1e-2, clip=1.0, ema=0.9, weight_decay=1e-3)
        losses = []
        for capture in (False, True):
            trainer = Trainer(recipe("C8K3-P2-C8K3-FC16-FC4", optimizer=options), find_place("cuda"))
            trainer.capture = capture
            for epoch in range(2):
                trainer.epoch, trainer.step = epoch, 0
                for _ in trainer.rest_of_epoch():
                    pass
            losses.append(trainer.meter.read()["loss"])
        step = trainer.static_step
        assert step is not None
        assert step.graph is not None, f"{kind}: {step.failure}"
        assert abs(losses[1] - losses[0]) < 0.03 * losses[0], f"{kind}: {losses}"


def check_captured_distillation() -> None:
    """The step of SCNN6 with a ReLU twin as its teacher is captured too."""
    with tempfile.TemporaryDirectory() as folder:
        data, teacher = Path(folder) / "noise.npz", Path(folder) / "twin"
        images = np.random.default_rng(0).integers(0, 256, (2048, 3, 32, 32)).astype(np.uint8)
        np.savez(data, x=images, y=np.arange(2048) % 10)
        of = get_recipe("cifar10-scnn6")
        of = replace(of, data=replace(of.data, name=str(data)))
        twin = replace(get_recipe("cifar10-relu"), data=of.data).network_config(load(data))
        save(as_unit(build_from(twin), "relu"), teacher)
        taught = replace(of.network, teacher=str(teacher))
        trainer = Trainer(replace(of, network=taught, loss=replace(of.loss, distil=1.0)), find_place("cuda"))
        steps = trainer.rest_of_epoch()
        for _ in range(5):
            next(steps)
        step = trainer.static_step
        assert step is not None
        assert step.graph is not None, step.failure


def check_captured_growth() -> None:
    """When T grows, the step is captured anew, with the deferred gradient of a large layer still in it."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "noise.npz"
        images = np.random.default_rng(0).integers(0, 256, (768, 3, 32, 32)).astype(np.uint8)
        np.savez(data, x=images, y=np.arange(768) % 10)
        of = get_recipe("cifar10-scnn6")
        schedule = replace(of.schedule, grow=(2,), grow_at=(0.5,))
        trainer = Trainer(
            replace(of, epochs=2, schedule=schedule, data=replace(of.data, name=str(data))),
            find_place("cuda"),
        )
        graphs = []
        for epoch, T in enumerate((2, of.T)):
            trainer.epoch, trainer.step = epoch, 0
            for _ in trainer.rest_of_epoch():
                pass
            step = trainer.static_step
            assert step is not None
            assert step.graph is not None, step.failure
            assert trainer.network.T == T
            assert all(bool(torch.isfinite(value).all()) for value in trainer.model.parameters())
            graphs.append(step.graph)
        assert graphs[0] is not graphs[1]


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
    check_all_steps,
    check_early_stopping,
    check_all_weights,
    check_all_adam,
    check_deferred_training,
    check_all_pools,
    check_a_large_batch_in_float32,
    check_a_network_in_all_its_ways,
    check_captured_training,
    check_captured_distillation,
    check_captured_growth,
    check_every_element_is_written,
    check_repeatable,
    check_graph_replay,
    check_compiled,
]


SHARED = [check_all_amos, check_all_steps]
PARTS = 8
"""Processes that share the cases of the neuron's kernels: nearly all of their time is compilation."""


def main(part: int | None = None) -> int:
    """Run all checks, or one part of the cases; print a line for each, and return how many failed."""
    if part is not None:
        return sum(
            run_check(f"{check.__name__}, part {part}", partial(check, part, PARTS)) for check in SHARED
        )
    others = [subprocess.Popen([sys.executable, __file__, str(number)]) for number in range(PARTS)]
    failures = sum(run_check(check.__name__, check) for check in CHECKS if check not in SHARED)
    return failures + sum(process.wait() != 0 for process in others)


def run_check(name: str, check: Callable[[], None]) -> int:
    """1 if the check fails, after saying how."""
    start = time.monotonic()
    try:
        check()
    except Exception:
        print(f"FAILED  {name}\n{traceback.format_exc()}", flush=True)
        return 1
    print(f"ok      {name} ({time.monotonic() - start:.0f} s)", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else None))

import pytest  # noqa: E402  (after the script's end: a GPU machine may have none)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_on_the_gpu(check: object) -> None:
    assert callable(check)
    check()
