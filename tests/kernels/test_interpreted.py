"""The Triton kernels on the CPU, through Triton's interpreter: `TRITON_INTERPRET=1 pytest tests/kernels`."""

import importlib.util
import os

import numpy
import pytest
import torch
import torch.nn.functional as F
from kernel_checks import CASES, Case, check_adam, check_amos, check_normalise_weight
from step_checks import STEP_CASES, StepCase, check_steps

import firstspike
from firstspike import functional, kernels
from firstspike.inference import Batched
from firstspike.kernels import adam, neuron_ops, pool_ops, pooled_ops, step_ops, sums, weight

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("triton") is None or os.environ.get("TRITON_INTERPRET") != "1",
        reason="needs Triton and TRITON_INTERPRET=1",
    ),
    pytest.mark.skipif(
        numpy.lib.NumpyVersion(numpy.__version__) >= "2.4.0",
        reason="Triton 3.6's interpreter takes arrays for numbers, which numpy 2.4 refuses",
    ),
    pytest.mark.filterwarnings("ignore:Conversion of an array with ndim > 0:DeprecationWarning"),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_amos_equals_the_reference(case: Case) -> None:
    check_amos(case, "cpu")


@pytest.mark.parametrize("case", STEP_CASES, ids=str)
def test_steps_equal_the_reference(case: StepCase) -> None:
    check_steps(case, "cpu")


@pytest.mark.parametrize("dtype", [None, torch.bfloat16], ids=str)
@pytest.mark.parametrize("gain", [False, True])
@pytest.mark.parametrize("shape", [(5, 7), (3, 4, 3, 3), (1, 1), (2, 300)])
def test_normalised_weights_equal_the_reference(
    shape: tuple[int, ...], gain: bool, dtype: torch.dtype | None
) -> None:
    check_normalise_weight(shape, "cpu", dtype, gain, channels_last=len(shape) == 4)


def test_rows_longer_than_a_block_equal_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weight, "ROW", 64)
    check_normalise_weight((3, 200), "cpu", torch.bfloat16, gain=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("gain", [False, True])
@pytest.mark.parametrize("shape", [(5, 7), (3, 200), (2, 512)])
def test_deferred_gradients_train_as_torchs_adamw(
    shape: tuple[int, int], gain: bool, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adam, "CHUNK", 64)  # so that a row is one chunk, a few, or more than are loaded ahead
    check_adam(shape, "cpu", dtype, gain)


def test_many_tiles_a_program_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sums, "SUMMED_ROWS", 4)
    for module in (neuron_ops, pooled_ops):
        monkeypatch.setattr(module, "PROGRAMS", 2)
        monkeypatch.setattr(module, "BACKWARD_ELEMENTS", 16)
    for layout in ("contiguous", "channels_last"):
        check_amos(Case((3, 5, 7, 3, 3), layout=layout, threshold="channel_step"), "cpu")
        check_amos(Case((3, 5, 7, 4, 4), layout=layout, threshold="channel_step", pool=2), "cpu")


def test_a_gradient_with_gaps_between_its_rows_is_taken() -> None:
    """A pooled frame's gradient may come as part of a larger one."""
    current, large = torch.randn(3, 2, 4, 6, 6), torch.randn(3, 2, 4, 3, 5)
    results = []
    for grad in (large[..., :3], large[..., :3].contiguous()):
        leaf = current.clone().requires_grad_()
        kernels.amos(leaf, pool=2).backward(grad)
        results.append(leaf.grad)
    assert torch.equal(*results)


@pytest.mark.parametrize("loads", [0, 1000])
def test_windows_loaded_early_or_late_give_the_same(loads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pooled_ops, "EAGER_LOADS", loads)
    for layout in ("contiguous", "channels_last"):
        check_amos(Case((5, 3, 7, 5, 6), torch.bfloat16, layout=layout, pool=2), "cpu")


def test_a_constant_leaf_gets_the_gradient_of_every_step() -> None:
    current = torch.randn(3, 4).expand(5, 3, 4).requires_grad_()
    kernels.amos(current).backward(torch.randn(5, 3, 4))
    assert current.grad is not None
    assert not torch.equal(current.grad[0], current.grad[1])


def test_operators_are_well_registered() -> None:
    """Schema, shape functions and autograd agree with what the operators do."""
    current = torch.randn(3, 2, 4, 2, 2, requires_grad=True)
    bias, threshold = torch.randn(4, requires_grad=True), torch.rand(3, 4, requires_grad=True)
    arguments = (3, threshold, 0.0, False, None, "atan", 2.0, bias)
    torch.library.opcheck(neuron_ops.amos, (current, *arguments))
    channels_last = torch.randn(3, 2, 2, 2, 4).movedim(-1, 2).requires_grad_()
    torch.library.opcheck(neuron_ops.amos, (channels_last, *arguments))
    rows = torch.randn(4, 6, requires_grad=True)
    torch.library.opcheck(weight.normalise, (rows, bias, 0.5, torch.bfloat16))
    for frames in (current, channels_last):
        torch.library.opcheck(pooled_ops.amos_pooled, (frames, *arguments, 2, True))
        torch.library.opcheck(pool_ops.avg_pool, (frames, 2, False))
        blocks, counts = list(frames.detach().split([1, 2])), torch.zeros(2, 2, dtype=torch.int32)
        options = ([torch.tensor([1, 0])], 1, 2, threshold.detach(), 0.0, None, bias.detach())
        torch.library.opcheck(step_ops.amos_step, (blocks, *options, 1, False, True, counts))
        torch.library.opcheck(step_ops.amos_step, (blocks, *options, 2, True, False, None))


@pytest.mark.parametrize("shape", [(3, 2, 5, 4, 6), (2, 3, 1, 7, 5), (2, 0, 3, 4, 4)])
@pytest.mark.parametrize("size", [2, 3, 4])
def test_pooling_equals_the_reference(shape: tuple[int, ...], size: int) -> None:
    for channels_last in (False, True):
        frames = torch.randn(shape)
        frames = frames.movedim(2, -1).contiguous().movedim(-1, 2) if channels_last else frames
        pair = [frames.clone().requires_grad_() for _ in range(2)]
        expected = F.avg_pool2d(pair[0].flatten(0, 1), size).unflatten(0, shape[:2])
        found = kernels.avg_pool(pair[1], size)
        grad = torch.randn_like(expected)
        expected.backward(grad)
        found.backward(grad)
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(pair[1].grad, pair[0].grad)


def test_a_network_with_fused_pools_equals_one_layer_after_the_other() -> None:
    """A hook keeps layers apart; both ways, and the CPU's, give the same spikes and gradients."""
    net = firstspike.build("C5K3-P2-C6K3-P2-FC7-FC4", (2, 8, 8), T=4, classes=4)
    net = net.to(memory_format=torch.channels_last)
    images = torch.rand(3, 2, 8, 8).contiguous(memory_format=torch.channels_last)
    results = []
    for apart in (False, True):
        handles = [layer.register_forward_hook(lambda *_: None) for layer in net.layers] if apart else []
        net.zero_grad()
        output = net(images)
        (output.spikes * torch.arange(16.0).view(4, 1, 4)).sum().backward()
        results.append((output.spikes.detach(), [p.grad for p in net.parameters()]))
        for handle in handles:
            handle.remove()
    assert torch.equal(results[0][0], results[1][0])
    for fused, apart in zip(results[0][1], results[1][1], strict=True):
        torch.testing.assert_close(fused, apart)


@pytest.mark.parametrize("encoding", ["direct", "frames"])
def test_a_network_step_by_step_equals_the_whole_run(encoding: str) -> None:
    """Rounds of steps from which samples leave, pools fused: the spikes of all steps layer by layer."""
    net = firstspike.build("C5K3-P2-C6K3-P2-FC7-FC4", (2, 8, 8), T=5, classes=4, encoding=encoding).eval()
    net = net.to(memory_format=torch.channels_last)
    x = torch.rand(*((5, 6) if encoding == "frames" else (6,)), 2, 8, 8)
    with torch.no_grad():
        expected, times = net.trace(x)
        state, here = net.start(x[0] if encoding == "frames" else x), torch.arange(6)
        counts = torch.zeros(4, 5, 6, dtype=torch.int32)
        for steps in (1, 2, 2):
            part = slice(state.t, state.t + steps)
            given = x[part, here] if encoding == "frames" else None
            done = counts[:, part, : len(here)]
            output, state = net.advance(given, state, steps, done)
            assert torch.equal(output.spikes, expected.spikes[part, here])
            torch.testing.assert_close(output.membrane, expected.membrane[part, here])
            for found, layer in zip(done, times.values(), strict=True):
                fired = [(layer[here] == t).flatten(1).sum(1) for t in range(part.start, part.stop)]
                assert torch.equal(found, torch.stack(fired).int())
            stay = torch.arange(len(here))[::2]
            state, here = state.keep(stay), here[stay]
    assert all(isinstance(n, kernels.Past) for n in state.neurons if n is not None)


@pytest.mark.parametrize("dtype", [None, torch.bfloat16], ids=str)
def test_a_batch_that_stops_early_answers_as_all_steps_do(dtype: torch.dtype | None) -> None:
    net = firstspike.build("C5K3-P2-C6K3-P2-FC20-FC4", (2, 9, 9), T=5, classes=4).eval()
    net.readout.neuron.threshold, net.compute_dtype = 2.0, dtype
    images = torch.rand(24, 2, 9, 9)
    with torch.no_grad():
        output = net(images)
    expected = functional.predict(output.spike_times, output.membrane, "potential")
    found = Batched(net)(images)
    for name in ("label", "steps", "tied", "silent"):
        assert torch.equal(getattr(found, name), getattr(expected, name)), name


def test_compiled_without_a_graph_break() -> None:
    def layer(image: torch.Tensor, weights: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        effective = kernels.normalise_weight(weights, 1.0, "channel", None, torch.float32)
        current = (image @ effective.T).view(1, 2, 4, 1, 1).expand(3, -1, -1, 2, 2)
        return kernels.amos(current, bias=bias, pool=2)

    arguments = [torch.randn(shape, requires_grad=True) for shape in ((2, 6), (4, 6), (4,))]
    expected = layer(*arguments)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    spikes = compiled(*arguments)
    assert torch.equal(spikes, expected)
    grads = torch.autograd.grad(expected.sum(), arguments), torch.autograd.grad(spikes.sum(), arguments)
    for eager, traced in zip(*grads, strict=True):
        torch.testing.assert_close(traced, eager)
