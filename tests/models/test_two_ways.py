"""Layer by layer, step by step, fused, and with the last frame left out: one result.

In float64, where the rounding of convolutions over different batch sizes cannot decide who fires.
"""

import pytest
import torch
from torch import Tensor

from firstspike.models import ZOO, Network, build
from firstspike.nn import Neuron, Normalisation, Spiking
from tests.models.zoo import assert_lively, assert_same_times, images, shrunk, stepped_times, train

OPTIONS: list[dict] = [
    {"encoding": "latency"},
    {"encoding": "frames"},
    {"T": 1, "normalisation": Normalisation(variance=30.0)},
    {"neuron": Neuron(tau=1.8, threshold=0.5)},
    {"neuron": Neuron(learn_threshold="channel")},
    {"neuron": Neuron(learn_threshold="channel-step")},
    {"normalisation": Normalisation(per="layer")},
    {"normalisation": Normalisation(kind="batch")},
    {"normalisation": Normalisation(kind="none", gain=False, bias=False, variance=6.0)},
    {"normalisation": Normalisation(unit_weights=True, bias=False, variance=6.0)},
    {"pooling": "max"},
    {"dropout": 0.4},
    {"input_mean": (0.4,), "input_std": (0.2,), "classes": 7},
]


def ready(name: str, trained: bool, **options: object) -> tuple[Network, Tensor]:
    net = shrunk(name, **options)
    if trained and net.T > 1:
        train(net)
    return net.eval(), images(net)


def agree_with_steps(net: Network, x: Tensor) -> None:
    with torch.no_grad():
        output, times = net.trace(x)
        stepped, spikes, membrane = stepped_times(net, x)
    assert_lively(times, net.T)
    assert_same_times(stepped, times)
    assert torch.equal(spikes, output.spikes)
    torch.testing.assert_close(membrane, output.membrane)


@pytest.mark.parametrize("trained", [False, True], ids=["fresh", "trained"])
@pytest.mark.parametrize("name", ZOO)
def test_step_by_step_fires_at_the_times_of_layer_by_layer(name: str, trained: bool) -> None:
    agree_with_steps(*ready(name, trained))


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_step_by_step_agrees_with_every_option(options: dict) -> None:
    agree_with_steps(*ready("SCNN5", True, **options))


@pytest.mark.parametrize("trained", [False, True], ids=["fresh", "trained"])
@pytest.mark.parametrize("name", ZOO)
def test_a_fused_network_fires_at_the_same_times(name: str, trained: bool) -> None:
    net, x = ready(name, trained)
    with torch.no_grad():
        assert_same_times(net.fuse().trace(x)[1], net.trace(x)[1])


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_fused_network_agrees_with_every_option_in_both_ways(options: dict) -> None:
    net, x = ready("SCNN5", True, **options)
    fused = net.fuse()
    with torch.no_grad():
        times = net.trace(x)[1]
        assert_same_times(fused.trace(x)[1], times)
        assert_same_times(stepped_times(fused, x)[0], times)
    assert {name.rsplit(".", 1)[-1] for name, _ in fused.named_parameters()} <= {
        "weight",
        "bias",
        "threshold",
    }


def test_a_fused_network_standardises_as_the_network_does() -> None:
    """Its mean and deviation follow the network's dtype (and device)."""
    net = shrunk("FC1", input_mean=(0.1,), input_std=(0.3,))
    fused = net.fuse()
    assert fused.input_mean.dtype == fused.input_std.dtype == torch.float64


def outcome(net: Network, x: Tensor, skip: bool) -> tuple[Tensor, list[Tensor]]:
    """Training output and gradients, with the last frame left out or not, under the same dropout."""
    net.train().skip_last_frame = skip
    net.zero_grad()
    torch.manual_seed(7)
    output = net(x)
    weights = torch.randn(output.spikes.shape, dtype=torch.float64)
    ((output.spikes * weights).sum() + (output.membrane[: net.T - 1] * weights[: net.T - 1]).sum()).backward()
    assert len(output.membrane) == net.T - skip
    return output.spikes.detach(), [parameter.grad.clone() for parameter in net.parameters()]


def same_without_the_last_frame(net: Network, x: Tensor) -> None:
    whole, whole_gradients = outcome(net, x, skip=False)
    short, short_gradients = outcome(net, x, skip=True)
    assert torch.equal(whole, short)
    assert torch.equal(short.sum(0), torch.ones_like(short[0]))
    for (name, parameter), one, other in zip(
        net.named_parameters(), whole_gradients, short_gradients, strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11, msg=lambda m, name=name: f"{name}: {m}")
        assert one.any(), f"{name} {list(parameter.shape)} has no gradient at all"


@pytest.mark.parametrize("name", ZOO)
def test_T_frames_and_T_minus_one_give_the_same_training_output_and_gradients(name: str) -> None:
    same_without_the_last_frame(*ready(name, True))


@pytest.mark.parametrize(
    "options", [o for o in OPTIONS if o.get("T") != 1 and "batch" not in str(o)], ids=str
)
def test_the_last_frame_is_free_with_every_option(options: dict) -> None:
    """But for batch normalisation, whose statistics are over the frames there are."""
    same_without_the_last_frame(*ready("SCNN5", True, **options))


def test_hidden_layers_see_one_frame_less_in_training_and_all_in_evaluation() -> None:
    net = shrunk("SCNN5")
    seen: list[int] = []
    net.layers[1].register_forward_hook(lambda _, __, out: seen.append(len(out)))
    x = images(net)
    net(x)
    net.eval()(x)
    net.train().skip_last_frame = False
    net(x)
    assert seen == [net.T - 1, net.T, net.T]


def test_with_one_step_there_is_no_frame_to_leave_out() -> None:
    net = shrunk("SCNN5", T=1)
    assert not net.skip_last_frame
    assert net(images(net)).spikes.all()  # forced


def test_the_trace_of_training_has_every_neuron_fire() -> None:
    net = shrunk("SCNN5")
    x = images(net)
    _, short = net.trace(x)
    net.skip_last_frame = False
    _, whole = net.trace(x)
    assert_same_times(short, whole)
    assert max(int(times.max()) for times in whole.values()) == net.T - 1


@pytest.mark.parametrize("name", ["SCNN3", "SCNN5"])
def test_in_float32_the_two_ways_differ_only_where_the_membrane_is_at_the_threshold(name: str) -> None:
    """Layer by layer from the same spikes, so that one near-tie does not make the next layers differ."""
    net = shrunk(name).float().eval()
    spikes = net.encode(torch.rand(64, *net.config.input_shape))
    neurons = 0
    for layer in net.layers:
        if not isinstance(layer, Spiking):
            spikes = layer(spikes)
            continue
        membrane = layer.neuron.membrane(*layer.synapse.current(spikes))
        out = layer(spikes)
        whole = out if isinstance(out, Tensor) else out.spikes
        state, differs = None, torch.zeros_like(whole[0], dtype=torch.bool)
        for t in range(net.T):
            stepped, state = layer.step(spikes[t], state, t)
            first = (stepped != whole[t]) & ~differs
            assert ((membrane[t] - 1).abs()[first] < 1e-5).all()
            differs |= first
        neurons += differs.numel()
        assert differs.float().mean() < 1e-3
        spikes = whole
    assert neurons > 10_000


def test_the_compute_dtype_leaves_the_membrane_in_float32_in_both_ways() -> None:
    net = shrunk("SCNN5").float().eval()
    net.compute_dtype = torch.bfloat16
    x = torch.rand(3, *net.config.input_shape)
    output = net(x)
    assert output.membrane.dtype == torch.float32
    assert net.layers[0](net.encode(x)).dtype == torch.bfloat16
    step, state = net.step(None, net.start(x))
    assert step.membrane.dtype == torch.float32
    assert all(n.membrane.dtype == torch.float32 for n in state.neurons if n is not None)
    # a float32 membrane holds values that bfloat16 does not
    assert (output.membrane.bfloat16().float() != output.membrane).any()


def test_the_compute_dtype_does_not_move_latency_coded_spikes() -> None:
    net = build("FC10", (256,), T=100, encoding="latency").eval()
    pixels = (torch.arange(256) / 255)[None]
    expected = net.encode(pixels)
    net.compute_dtype = torch.bfloat16
    assert net.encode(pixels).dtype == torch.bfloat16
    assert torch.equal(net.encode(pixels).float(), expected)
    state = net.start(pixels)
    for t in range(3):
        assert torch.equal(net._frames(None, state._replace(t=t), 1)[0].float(), expected[t])
