"""The one-spike check holds where it should, and tells where it does not."""

import pytest
import torch

from firstspike.errors import FirstspikeError
from firstspike.models import ZOO, build, one_spike_check
from tests.models.zoo import images, shrunk


@pytest.mark.parametrize("training", [False, True], ids=["eval", "training"])
@pytest.mark.parametrize("name", ZOO)
def test_every_neuron_fires_at_most_once_and_exactly_once_when_forced(name: str, training: bool) -> None:
    net = shrunk(name).train(training)
    with one_spike_check(net) as report:
        net(images(net))
    assert [count.layer for count in report.counts] == net.names
    assert all(count.forced == training and count.holds for count in report.counts)
    assert str(report).count("exactly once: holds" if training else "at most once: holds") == len(net.layers)


@pytest.mark.parametrize("training", [False, True], ids=["eval", "training"])
def test_max_pooling_is_reported_with_its_layer(training: bool) -> None:
    net = shrunk("SCNN5", pooling="max").train(training)
    violated = r"one-spike property is violated at 2\.P2: .* [234] spikes a unit"
    with pytest.raises(FirstspikeError, match=violated), one_spike_check(net):
        net(images(net))
    with one_spike_check(net, raises=False) as report:
        net(images(net))
    assert [count.layer for count in report.violations] == ["2.P2", "4.P2"]
    assert "VIOLATED" in str(report)


def test_a_layer_that_does_not_fire_though_forced_is_a_violation() -> None:
    net = shrunk("FC2")
    with one_spike_check(net, raises=False) as report:
        net.layers[1].neuron.force_last = False
        net.layers[1].synapse.bias.data.fill_(-100)
        net(images(net))
    assert [count.layer for count in report.violations] == ["2.FC8"]
    assert report.violations[0].fewest == 0


def test_the_check_leaves_no_trace_even_after_an_error() -> None:
    net = shrunk("SCNN5")
    x = images(net)
    before = net(x).spikes
    with pytest.raises(FirstspikeError, match="takes input of shape"), one_spike_check(net):
        net(x[:, :, 1:])
    assert net.skip_last_frame
    assert not any(layer._forward_hooks for layer in net.layers)
    assert torch.equal(net(x).spikes, before)


def test_a_pool_of_the_input_is_not_asked_to_be_spikes() -> None:
    net = build("P2-C3K3-P2-FC3", (1, 8, 8), T=4)
    with one_spike_check(net) as report:
        net(torch.rand(2, 1, 8, 8))
    assert [count.layer for count in report.counts] == ["2.C3K3", "3.P2", "4.FC3"]


def test_dropout_does_not_hide_a_neuron_from_the_check() -> None:
    net = shrunk("FC2", dropout=0.5)
    with one_spike_check(net) as report:
        net(images(net))
    assert [count.layer for count in report.counts] == ["1.FC8", "3.FC8", "5.FC10"]
