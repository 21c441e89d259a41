"""Synaptic operations against NeuroBench's, where the two count the same thing.

They do between layers without pooling: NeuroBench counts a pooled value once, whatever spikes went into it, and
calls it a multiplication; here each spike that passes an average pool drives its synapses. `pip install neurobench`
(with `--no-deps`, it pins an old torch) makes this test run.
"""

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
