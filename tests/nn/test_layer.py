"""Layers of neurons, and the output layer."""

import torch

from firstspike.functional import amos, charge, spike_times
from firstspike.nn import AMOS, Conv2d, Linear, Neuron, Output, Readout, Spiking


def test_a_layer_is_its_synapse_and_then_its_neurons() -> None:
    layer = Spiking(Conv2d(2, 3, 3, 4), AMOS()).double().eval()
    layer.synapse.bias.data.normal_()
    spikes = torch.rand(4, 5, 2, 6, 6, dtype=torch.float64)
    assert torch.equal(layer(spikes), amos(layer.synapse(spikes)))


def test_a_layer_steps_as_it_runs() -> None:
    layer = Spiking(Linear(8, 30, 4), AMOS(Neuron(tau=1.5))).double().eval()
    spikes = torch.rand(4, 5, 8, dtype=torch.float64)
    whole, state = layer(spikes), None
    assert 0 < whole.mean() < 1 / 4
    for t in range(4):
        fired, state = layer.step(spikes[t], state, t)
        assert torch.equal(fired, whole[t])


def test_the_readout_tells_the_membrane_its_spikes_come_from() -> None:
    layer = Readout(Linear(8, 10, 4), AMOS()).double()
    layer.synapse.bias.data.normal_()
    spikes = torch.rand(4, 5, 8, dtype=torch.float64)
    for training in (True, False):
        output = layer.train(training)(spikes)
        current = layer.synapse(spikes)
        torch.testing.assert_close(output.membrane, charge(current))
        assert torch.equal(output.spikes, amos(current, force_last=training))
        assert torch.equal(output.spike_times, spike_times(output.spikes))


def test_the_forced_step_is_what_the_others_leave() -> None:
    current = 0.4 * torch.randn(4, 50, 10)
    free = Output(amos(current[:3]), charge(current[:3]))
    assert torch.equal(free.with_forced_step().spikes, amos(current, force_last=True))


def test_a_fused_layer_keeps_learned_thresholds_as_a_copy() -> None:
    layer = Spiking(Linear(8, 3, 4), AMOS(Neuron(learn_threshold="channel"), channels=3)).eval()
    spikes = torch.rand(4, 5, 8)
    fused, before = layer.fuse(), layer(spikes)
    assert torch.equal(fused(spikes), before)
    fused.neuron.threshold.data.fill_(100)
    assert torch.equal(layer(spikes), before)
    assert not fused(spikes).any()
