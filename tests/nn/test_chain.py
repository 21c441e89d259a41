"""Layers run as one, or once more in backward, give what they give one after the other."""

from typing import Any

import pytest
import torch
from torch import Tensor

from firstspike import FirstspikeError
from firstspike.models import Network, build, one_spike_check
from firstspike.nn import Neuron, Normalisation, Output, chain
from firstspike.nn.chain import run

NETWORKS: dict[str, dict[str, Any]] = {
    "direct": {},
    "max pooling": {"pooling": "max"},
    "latency": {"encoding": "latency"},
    "events": {"encoding": "frames"},
    "dropout": {"dropout": 0.4},
    "batch statistics": {"normalisation": Normalisation(kind="batch")},
    "learned thresholds": {"neuron": Neuron(learn_threshold="channel-step", tau=2.0)},
}


def network(T: int = 4, architecture: str = "C5K3-P2-C6K3-C6K3-P2-FC7-FC4", **options: Any) -> Network:
    torch.manual_seed(0)
    return build(architecture, (2, 8, 8), T=T, classes=4, **options).train()


def images(net: Network, batch: int = 5) -> Tensor:
    chance = torch.Generator().manual_seed(1)
    lead = (net.T, batch) if net.config.encoding == "frames" else (batch,)
    return torch.rand(*lead, 2, 8, 8, generator=chance)


def backward(net: Network, output: Output) -> list[Tensor]:
    """The gradients of a loss that tells all output spikes apart."""
    weights = torch.randn(output.spikes.shape, generator=torch.Generator().manual_seed(2))
    net.zero_grad()
    ((output.spikes * weights).sum() + output.membrane.square().mean()).backward()
    return [torch.zeros(()) if p.grad is None else p.grad.clone() for p in net.parameters()]


@pytest.mark.parametrize("options", NETWORKS.values(), ids=NETWORKS)
def test_recomputing_changes_no_gradient_and_no_statistic(options: dict[str, Any]) -> None:
    results = []
    for recompute in (False, True):
        net = network(**options)
        net.recompute = recompute
        torch.manual_seed(3)
        output = net(images(net))
        results.append([output.spikes, output.membrane, *backward(net, output), *net.buffers()])
    assert all(map(torch.equal, *results))


@pytest.mark.parametrize("options", NETWORKS.values(), ids=NETWORKS)
def test_recomputing_some_samples_at_a_time_adds_up(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chain, "PART_BYTES", 3000)
    results = []
    for recompute in (False, True):
        net = network(**options)
        net.recompute = recompute
        torch.manual_seed(3)
        output = net(images(net))
        results.append([output.spikes, *backward(net, output), *net.buffers()])
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_recomputing_keeps_no_frames_between_convolutions() -> None:
    """What backward waits with: all spikes and currents, or little more than enters the first dense layer."""

    def kept_bytes(T: int, recompute: bool) -> int:
        net = network(T, "C16K3-C16K3-C16K3-P2-P2-FC4-FC4")
        net.recompute = recompute
        kept: dict[int, int] = {}

        def note(tensor: Tensor) -> Tensor:
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            output = net(images(net, batch=32))
        assert output.spikes.requires_grad
        return sum(kept.values())

    for T in (8, 32):
        assert kept_bytes(T, recompute=True) < kept_bytes(T, recompute=False) / 8
    assert kept_bytes(32, recompute=True) < kept_bytes(8, recompute=False)


@pytest.mark.parametrize("channels_last", [False, True])
def test_parts_of_a_batch_are_dense(channels_last: bool) -> None:
    """A convolution then reads them as they are, instead of copying them into another order."""
    spikes = torch.rand(3, 6, 4, 5, 5)
    spikes = spikes.movedim(2, -1).contiguous().movedim(-1, 2) if channels_last else spikes
    taken = chain._take(spikes, slice(2, 4))
    assert torch.equal(taken, spikes[:, 2:4])
    assert taken.flatten(0, 1).data_ptr() == taken.data_ptr()


def test_an_empty_batch_is_recomputed_too() -> None:
    net = network()
    net.recompute = True
    output = net(torch.rand(0, 2, 8, 8))
    assert output.spikes.shape == (4, 0, 4)


def test_pools_run_with_the_neurons_before_them() -> None:
    net = network()
    whole = net(images(net))
    spikes = net.encode(images(net))
    for layer in net.layers:
        spikes = layer(spikes)
    apart = spikes.with_forced_step()  # type: ignore[operator]
    assert torch.equal(whole.spikes, apart.spikes)
    assert all(map(torch.equal, backward(net, whole), backward(net, apart)))


def test_hooks_see_every_layer() -> None:
    net = network()
    with one_spike_check(net) as report:
        net(images(net))
    assert len(report.counts) == len(net.layers)
    net.recompute = True
    with one_spike_check(net) as report:
        net(images(net))
    assert len(report.counts) == len(net.layers)


def test_a_pool_too_large_is_refused_in_words() -> None:
    net = network(architecture="C5K3-P2-FC4")
    net.layers[1].size = 9
    with pytest.raises(FirstspikeError, match="at least 9"):
        run(list(net.layers), net.encode(images(net)))
