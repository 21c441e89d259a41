"""Synaptic operations against NeuroBench's, where the two count the same thing.

They do between layers without pooling: NeuroBench counts a pooled value once, whatever spikes went into it, and
calls it a multiplication; here each spike that passes an average pool drives its synapses. `pip install --no-deps
neurobench snntorch` makes these tests run, and leaves all other packages as they are.
"""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from firstspike.data import Dataset
from firstspike.measure import evaluate, sites
from firstspike.models import Network, build
from firstspike.nn import Conv2d, Normalisation, Spiking

macs = pytest.importorskip("neurobench.metrics.utils.layers")


def plain(layer: Spiking) -> nn.Module:
    """The torch layer with the weights of a fused layer, which is what NeuroBench knows."""
    weight = layer.synapse.weight
    made: nn.Conv2d | nn.Linear
    if isinstance(layer.synapse, Conv2d):
        made = nn.Conv2d(weight.shape[1], weight.shape[0], weight.shape[2], padding=layer.synapse.padding)
    else:
        made = nn.Linear(weight.shape[1], weight.shape[0])
    with torch.no_grad():
        made.weight.copy_(weight)
    return made


@torch.no_grad()
def by_neurobench(net: Network, dataset: Dataset) -> tuple[dict[str, int], dict[str, int]]:
    """Effective and dense operations of each layer but the first, summed over samples and the steps they run."""
    layers = {
        name: layer for name, layer in zip(net.names, net.layers, strict=True) if isinstance(layer, Spiking)
    }
    effective, dense = dict.fromkeys(layers, 0), dict.fromkeys(layers, 0)
    for index in range(len(dataset)):
        state = net.start(dataset.images[index : index + 1].float() / 255)
        answered = False
        while state.t < net.T and not answered:
            before = state
            step, state = net.step(None, state)
            arriving: torch.Tensor | None = None
            for number, (name, layer) in enumerate(layers.items()):
                if arriving is not None:
                    shaped = arriving if isinstance(layer.synapse, Conv2d) else arriving.flatten(1)
                    count, spiking = macs.single_layer_MACs(shaped, plain(layer))
                    assert spiking or not bool(shaped.any())
                    effective[name] += count
                    dense[name] += macs.single_layer_MACs(shaped, plain(layer), total=True)[0]
                old, new = before.neurons[number], state.neurons[number]
                assert new is not None
                arriving = (new.fired if old is None else new.fired & ~old.fired).float()
            answered = bool(step.spikes.any())
    return effective, dense


@pytest.mark.parametrize("architecture", ["FC30-FC20-FC4", "C3K3-C4K3-FC4", "C3K5-C4K3-FC9-FC4"])
def test_operations_are_neurobenchs(architecture: str) -> None:
    torch.manual_seed(2)
    net = build(architecture, (2, 9, 9), T=4, normalisation=Normalisation(variance=3.0)).eval().fuse()
    images = torch.randint(256, (10, 2, 9, 9), dtype=torch.uint8)
    dataset = Dataset("noise", "test", images, torch.zeros(10).long(), tuple("abcd"))
    found = evaluate(net, dataset)
    effective, dense = by_neurobench(net, dataset)
    assert {name: round(10 * value) for name, value in found.layer_sops.items()} == effective
    assert sum(effective.values()) > 0
    steps = round(10 * found.steps)
    for site in sites(net)[1:]:
        assert dense[site.name] == steps * site.synapses


@torch.no_grad()
def spikes_one_by_one(net: Network, dataset: Dataset) -> dict[str, list[torch.Tensor]]:
    """Each layer's spikes at every step that is run, a sample after the other."""
    names = [name for name, layer in zip(net.names, net.layers, strict=True) if isinstance(layer, Spiking)]
    seen: dict[str, list[torch.Tensor]] = {name: [] for name in names}
    for index in range(len(dataset)):
        state = net.start(dataset.images[index : index + 1].float() / 255)
        fired: dict[str, torch.Tensor] = {}
        answered = False
        while state.t < net.T and not answered:
            step, state = net.step(None, state)
            neurons = [neuron for neuron in state.neurons if neuron is not None]
            for name, neuron in zip(names, neurons, strict=True):
                seen[name].append(neuron.fired & ~fired.get(name, torch.zeros_like(neuron.fired)))
                fired[name] = neuron.fired
            answered = bool(step.spikes.any())
    return seen


@pytest.mark.parametrize("architecture", ["FC30-FC20-FC4", "C3K3-P2-C4K3-P2-FC9-FC4"])
def test_spikes_are_neurobenchs_activation_sparsity(architecture: str) -> None:
    sparsity = pytest.importorskip("neurobench.metrics.workload.activation_sparsity").ActivationSparsity()
    torch.manual_seed(2)
    net = build(architecture, (2, 9, 9), T=4, normalisation=Normalisation(variance=3.0)).eval()
    images = torch.randint(256, (10, 2, 9, 9), dtype=torch.uint8)
    dataset = Dataset("noise", "test", images, torch.zeros(10).long(), tuple("abcd"))
    found = evaluate(net, dataset)
    steps = 10 * found.steps
    for name, outputs in spikes_one_by_one(net, dataset).items():
        hooks = SimpleNamespace(activation_hooks=[SimpleNamespace(activation_outputs=outputs)])
        active = 1 - sparsity(hooks, None, None)
        assert 10 * found.layer_rates[name] == pytest.approx(steps * active)
        assert found.layer_rates[name] > 0
