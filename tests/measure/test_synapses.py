"""Fan-out and synaptic operations against wiring a small network up by hand, synapse by synapse."""

from functools import cache
from itertools import product

import pytest
import torch

from firstspike.data import Dataset
from firstspike.errors import FirstspikeError
from firstspike.measure import evaluate, sites
from firstspike.models import Network, build
from firstspike.nn import AvgPool2d, Conv2d, MaxPool2d, Normalisation, Spiking

ARCHITECTURES = ["C3K3-P2-C4K3-P2-FC9-FC4", "C3K5-P2-FC9-FC4", "FC12-FC7-FC4", "C2K3-C3K3-FC4", "P2-C3K3-FC4"]


def a_network(architecture: str, encoding: str = "direct", pooling: str = "average") -> Network:
    torch.manual_seed(2)
    return build(
        architecture,
        (2, 9, 9),
        T=4,
        encoding=encoding,
        pooling=pooling,
        normalisation=Normalisation(variance=3.0),
    ).eval()


def a_dataset(encoding: str, samples: int = 12) -> Dataset:
    shape = (samples, 4, 2, 9, 9) if encoding == "frames" else (samples, 2, 9, 9)
    images = torch.randint(3 if encoding == "frames" else 256, shape, dtype=torch.uint8)
    return Dataset("noise", "test", images, torch.randint(4, (samples,)), tuple("abcd"))


@cache
def count_targets(
    weight: tuple[int, ...], padding: int | None, shape: tuple[int, ...], position: tuple[int, ...]
) -> int:
    """The synapses of an input at `position`, by brute force over all output positions and taps of the kernel."""
    if padding is None:
        return weight[0]
    kernel = weight[2]
    _, y, x = position
    rows, columns = (range(size + 2 * padding - kernel + 1) for size in shape[1:])
    taps = product(rows, columns, range(kernel), range(kernel))
    hits = sum((row + dy - padding, column + dx - padding) == (y, x) for row, column, dy, dx in taps)
    return weight[0] * hits


def count_operations(net: Network, dataset: Dataset) -> dict[str, int]:
    """Synaptic operations of all samples, step by step, each stopping at its first output spike."""
    operations = {
        name: 0 for name, layer in zip(net.names, net.layers, strict=True) if isinstance(layer, Spiking)
    }
    for index in range(len(dataset)):
        image = dataset.images[index].float()
        frames = image[:, None] if dataset.is_events else None
        state = net.start(frames[0] if frames is not None else image[None] / 255)
        answered = False
        while state.t < net.T and not answered:
            before = state
            step, state = net.step(frames[state.t] if frames is not None else None, state)
            if net.config.encoding == "direct":
                arriving = None
            else:
                arriving = net._frames(frames[before.t][None] if frames is not None else None, before, 1)[
                    0, 0
                ]
            for number, (name, layer) in enumerate(zip(net.names, net.layers, strict=True)):
                if isinstance(layer, Spiking):
                    operations[name] += spent(layer, arriving)
                    old, new = before.neurons[number], state.neurons[number]
                    assert new is not None
                    arriving = (new.fired if old is None else new.fired & ~old.fired)[0].float()
                elif arriving is not None:
                    arriving = pooled(layer, arriving)
            answered = bool(step.spikes.any())
    return operations


def pooled(layer: torch.nn.Module, spikes: torch.Tensor) -> torch.Tensor:
    """Spikes at the coarser positions: how many (average) or whether any (max)."""
    assert isinstance(layer, AvgPool2d)
    channels, height, width = (spikes.shape[0], spikes.shape[1] // 2, spikes.shape[2] // 2)
    coarse = torch.zeros(channels, height, width)
    for c, y, x in torch.cartesian_prod(*map(torch.arange, (channels, height, width))).tolist():
        window = (spikes[c, 2 * y : 2 * y + 2, 2 * x : 2 * x + 2] != 0).sum()
        coarse[c, y, x] = window > 0 if isinstance(layer, MaxPool2d) else window
    return coarse


def spent(layer: Spiking, arriving: torch.Tensor | None) -> int:
    """Operations of one layer at one step."""
    if arriving is None:
        return 0
    total = 0
    for position in arriving.nonzero().tolist():
        multiplicity = max(1, int(arriving[tuple(position)])) if arriving.dim() == 3 else 1
        total += multiplicity * fan_out(layer, tuple(arriving.shape), tuple(position))
    return total


def fan_out(layer: Spiking, shape: tuple[int, ...], position: tuple[int, ...]) -> int:
    synapse = layer.synapse
    padding = synapse.padding if isinstance(synapse, Conv2d) else None
    return count_targets(tuple(synapse.weight.shape), padding, shape, position)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_fan_out_is_the_number_of_synapses_of_each_position(architecture: str) -> None:
    net = a_network(architecture)
    layers = dict(zip(net.names, net.layers, strict=True))
    for site in sites(net):
        positions = torch.cartesian_prod(*map(torch.arange, site.input_shape)).view(-1, len(site.input_shape))
        for position in map(tuple, positions.tolist()):
            assert int(site.fan_out[position]) == fan_out(layers[site.name], site.input_shape, position)


def test_the_fan_out_of_a_spike_falls_towards_the_border() -> None:
    (first, second, _) = sites(build("C2K3-C5K3-FC4", (1, 6, 6)))
    assert second.fan_out[0, 3, 3] == 5 * 9
    assert second.fan_out[0, 0, 3] == 5 * 6
    assert second.fan_out[0, 0, 0] == 5 * 4
    assert first.dense == 2 * 36 * 9
    assert first.synapses == 2 * (36 * 9 - 4 * 6 * 3 + 4)


@pytest.mark.parametrize("pooling", ["average", "max"])
@pytest.mark.parametrize("encoding", ["direct", "latency", "frames"])
@pytest.mark.parametrize("architecture", ARCHITECTURES[:4])
def test_operations_are_those_counted_by_hand(architecture: str, encoding: str, pooling: str) -> None:
    if encoding == "frames":
        # An event frame may count two events at a pixel, which arrive as one number.
        dataset = a_dataset(encoding, 6)
        dataset = Dataset("noise", "test", dataset.images.clamp(max=1), dataset.labels, dataset.classes)
    else:
        dataset = a_dataset(encoding, 6)
    net = a_network(architecture, encoding, pooling)
    counted = count_operations(net, dataset)
    found = evaluate(net, dataset, batch_size=4)
    assert {name: round(6 * value) for name, value in found.layer_sops.items()} == counted
    assert found.sops == pytest.approx(sum(counted.values()) / 6)
    assert sum(counted.values()) > 0


def test_a_constant_input_is_multiplied_once() -> None:
    net, dataset = a_network("C3K3-P2-FC9-FC4"), a_dataset("direct")
    found = evaluate(net, dataset)
    assert found.input_operations == sites(net)[0].synapses
    assert found.layer_sops["1.C3K3"] == 0
    assert evaluate(a_network("C3K3-FC4", "latency"), dataset).input_operations == 0


@pytest.mark.parametrize("pooling", ["average", "max"])
def test_event_counts_above_one_are_multiplied(pooling: str) -> None:
    net, dataset = a_network("P2-C3K3-FC9-FC4", "frames", pooling), a_dataset("frames")
    found = evaluate(net, dataset)
    frames = dataset.images.float().transpose(0, 1)
    _, times = net.trace(frames)
    steps = (times[net.names[-1]].amin(1).long() + 1).clamp(max=net.T)
    seen = frames * (torch.arange(net.T)[:, None] < steps)[:, :, None, None, None]
    if pooling == "max":
        seen = torch.nn.functional.max_pool2d(seen.flatten(0, 1), 2)
        arrive = [(seen == 1).sum(0), (seen > 1).sum(0)]
    else:
        windows = seen.flatten(0, 1)[..., :8, :8].unfold(2, 2, 2).unfold(3, 2, 2)
        arrive = [chosen.sum((0, 4, 5)) for chosen in (windows == 1, windows > 1)]
    fan_out = sites(net)[0].fan_out
    once, multiplied = ((counts * fan_out).sum().item() / len(dataset) for counts in arrive)
    assert found.layer_sops["2.C3K3"] == pytest.approx(once)
    assert found.input_operations == pytest.approx(multiplied)
    assert once > 0
    assert multiplied > 0


def test_unknown_layers_leave_operations_out() -> None:
    class Own(torch.nn.Module):
        def forward(self, spikes: torch.Tensor) -> torch.Tensor:
            return spikes

    net = a_network("FC12-FC4")
    net = Network([net.layers[0], Own(), net.layers[1]], net.config)
    with pytest.raises(FirstspikeError, match="Own"):
        sites(net)
    assert evaluate(net, a_dataset("direct")).sops is None
