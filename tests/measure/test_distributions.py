"""Currents, gradients and firing times, against the definitions."""

import pytest
import torch

from firstspike.measure import currents, firing_times, weight_gradients
from firstspike.measure.distributions import Distribution, mean_variance
from firstspike.models import build
from firstspike.nn import Normalisation, Spiking

IMAGES = torch.rand(16, 1, 12, 12)


def test_a_distribution_counts_all_values() -> None:
    values = torch.tensor([-9.0, 0.0, 0.4, 0.6, 9.0])
    found = Distribution.of(values, 0.0, 1.0, bins=2)
    assert found.counts == (3, 2)
    assert found.mean == pytest.approx(float(values.mean()))
    assert found.variance == pytest.approx(float(values.var(correction=0)))


@pytest.mark.parametrize("forced", [True, False])
def test_currents_are_what_the_neurons_are_given(forced: bool) -> None:
    net = build("C4K3-P2-FC20-FC5", (1, 12, 12), T=5).train()
    found = currents(net, IMAGES, forced)
    assert list(found) == ["1.C4K3", "3.FC20", "4.FC5"]
    assert [current.shape[0] for current in found.values()] == [5, 5, 5]
    net.train(forced).skip_last_frame = False
    membrane = net(IMAGES).membrane
    torch.testing.assert_close(found["4.FC5"].cumsum(0), membrane.detach())


def test_the_network_is_left_as_it_was() -> None:
    net = build("FC20-FC5", (1, 12, 12), T=4, normalisation=Normalisation(kind="batch")).eval()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    currents(net, IMAGES)
    weight_gradients(net, IMAGES, lambda output: output.spikes.mean())
    firing_times(net, IMAGES)
    assert not net.training
    assert net.skip_last_frame
    assert all(torch.equal(value, net.state_dict()[name]) for name, value in before.items())
    assert all(parameter.grad is None for parameter in net.parameters())


def test_gradients_are_those_of_backward() -> None:
    net = build("C4K3-P2-FC20-FC5", (1, 12, 12), T=4)
    found = weight_gradients(net, IMAGES, lambda output: output.membrane.square().mean())
    net.train()(IMAGES).membrane.square().mean().backward()  # type: ignore[no-untyped-call]
    layers = [layer for layer in net.layers if isinstance(layer, Spiking)]
    for gradient, layer in zip(found.values(), layers, strict=True):
        torch.testing.assert_close(gradient, layer.synapse.weight.grad)


def test_firing_times_are_shares() -> None:
    net = build("FC20-FC5", (1, 12, 12), T=4)
    for shares in firing_times(net, IMAGES).values():
        assert shares.shape == (5,)
        assert float(shares.sum()) == pytest.approx(1)


def test_ettfs_init_keeps_the_variance_and_kaiming_does_not() -> None:
    """The paper's first claim, where its premise (inputs that sum to 1 over time) holds."""
    images = torch.rand(32, 1, 12, 12)
    variances = {}
    for init in ("ettfs", "kaiming"):
        plain = Normalisation(kind="none", gain=False, bias=False, init=init)
        net = build(
            "FC300-FC300-FC300-FC300-FC300", (1, 12, 12), T=8, encoding="latency", normalisation=plain
        )
        variances[init] = [mean_variance(current) for current in currents(net, images).values()]
    assert all(0.7 < variance < 1.4 for variance in variances["ettfs"][1:])
    assert all(variance < 1.2 / (3 * 8) for variance in variances["kaiming"][1:])
