"""`evaluate` against counting by hand: each sample alone, step by step, stopping at its first output spike."""

from dataclasses import dataclass, field

import pytest
import torch

from firstspike.data import Dataset
from firstspike.measure import evaluate
from firstspike.models import Network, build
from firstspike.nn import Neuron, Normalisation, Spiking


@dataclass
class Counted:
    """Whole numbers, summed over the samples."""

    strict: int = 0
    potential: int = 0
    tied: int = 0
    silent: int = 0
    histogram: list[int] = field(default_factory=list)
    spikes: dict[str, int] = field(default_factory=dict)


def a_network(encoding: str, **options: object) -> Network:
    """In float64, firing at all times: some samples tie, some stay silent."""
    torch.manual_seed(1)
    settings = {"T": 4, "encoding": encoding, "normalisation": Normalisation(variance=3.0), **options}
    net = build("C3K3-P2-FC9-FC4", (2, 6, 6), **settings).double()  # type: ignore[arg-type]
    for name, parameter in net.named_parameters():
        if name.endswith("bias"):
            parameter.data.uniform_(-0.4, 0.3)
    return net


def a_dataset(encoding: str, samples: int = 40) -> Dataset:
    shape = (samples, 4, 2, 6, 6) if encoding == "frames" else (samples, 2, 6, 6)
    largest = 3 if encoding == "frames" else 256
    images = torch.randint(largest, shape, dtype=torch.uint8)
    return Dataset("noise", "test", images, torch.randint(4, (samples,)), tuple("abcd"))


def count(net: Network, dataset: Dataset) -> Counted:
    """By brute force."""
    net.eval()
    names = [name for name, layer in zip(net.names, net.layers, strict=True) if isinstance(layer, Spiking)]
    counted = Counted(histogram=[0] * net.T, spikes=dict.fromkeys(names, 0))
    for index in range(len(dataset)):
        image, label = dataset.images[index], int(dataset.labels[index])
        frames = image.double()[:, None] if dataset.is_events else None
        state = net.start(frames[0] if frames is not None else image[None].double() / 255)
        fired: list[int] = []
        step = None
        while state.t < net.T and not fired:
            step, state = net.step(frames[state.t] if frames is not None else None, state)
            fired = [c for c in range(4) if step.spikes[0, c] == 1]
        assert step is not None
        membrane = step.membrane[0].tolist()
        counted.histogram[state.t - 1] += 1
        counted.silent += not fired
        counted.tied += len(fired) > 1
        counted.strict += (min(fired) if fired else 0) == label
        counted.potential += max(fired or range(4), key=lambda c: membrane[c]) == label
        neurons = [neuron for neuron in state.neurons if neuron is not None]
        for name, neuron in zip(names, neurons, strict=True):
            counted.spikes[name] += int(neuron.fired.sum())
    return counted


@pytest.mark.parametrize("encoding", ["direct", "latency", "frames"])
@pytest.mark.parametrize(
    "neuron",
    [Neuron(), Neuron(tau=1.5), Neuron(learn_threshold="channel-step")],
    ids=["IF", "LIF", "learned"],
)
def test_measures_are_those_counted_by_hand(
    encoding: str, neuron: Neuron, monkeypatch: pytest.MonkeyPatch
) -> None:
    net, dataset = a_network(encoding, neuron=neuron), a_dataset(encoding)
    prepare = net.prepare
    standardise = net._standardise
    monkeypatch.setattr(net, "prepare", lambda x, events: prepare(x.double(), events))
    monkeypatch.setattr(net, "_standardise", lambda x, events: standardise(x.double(), events))
    counted = count(net, dataset)
    found = evaluate(net, dataset, batch_size=16)
    share = 100 / len(dataset)
    assert found.samples == 40
    assert found.T == 4
    assert found.step_histogram == tuple(counted.histogram)
    assert found.strict == pytest.approx(share * counted.strict)
    assert found.potential == pytest.approx(share * counted.potential)
    assert found.tied == pytest.approx(share * counted.tied)
    assert found.silent == pytest.approx(share * counted.silent)
    assert found.steps == pytest.approx(sum((t + 1) * n for t, n in enumerate(counted.histogram)) / 40)
    assert found.layer_spikes == pytest.approx({name: n / 40 for name, n in counted.spikes.items()})
    assert found.spikes == pytest.approx(sum(counted.spikes.values()) / 40)
    sizes = {"1.C3K3": 3 * 6 * 6, "3.FC9": 9, "4.FC4": 4}
    assert found.layer_rates == pytest.approx(
        {name: n / 40 / sizes[name] for name, n in counted.spikes.items()}
    )


def test_the_samples_above_are_of_all_kinds() -> None:
    """Otherwise agreement would mean little."""
    counted = count(a_network("direct"), a_dataset("direct"))
    assert counted.tied
    assert counted.silent
    assert sum(n > 0 for n in counted.histogram) >= 3
    assert counted.strict != counted.potential


@pytest.mark.parametrize("training", [False, True])
def test_the_mode_is_left_as_it_was(training: bool) -> None:
    net = a_network("direct").float().train(training)
    evaluate(net, a_dataset("direct", 8))
    assert net.training == training


def test_the_batch_size_changes_nothing() -> None:
    net, dataset = a_network("direct").float(), a_dataset("direct")
    assert evaluate(net, dataset, batch_size=7) == evaluate(net, dataset, batch_size=40)


def test_measures_are_plain_values() -> None:
    values = evaluate(a_network("direct").float(), a_dataset("direct", 8)).as_dict()
    assert values["dataset"] == "noise, test"
    assert all(isinstance(value, int | float | str | dict | tuple | list) for value in values.values())
