"""Accuracy, latency and spikes over a data set, with early stopping."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from firstspike.config import to_dict
from firstspike.data import Batch, Batches, Dataset
from firstspike.functional.decoding import predict
from firstspike.models import Network


@dataclass(frozen=True)
class Measures:
    """What a network does on a data set when each sample stops at its first output spike."""

    dataset: str
    """Name and split."""
    samples: int
    strict: float
    """Accuracy in percent where ties go to the lowest class index, and silence to class 0."""
    potential: float
    """Accuracy in percent where ties and silence go to the highest membrane potential."""
    steps: float
    """Mean number of time steps until the answer, counted from 1; a silent sample counts T."""
    T: int
    step_histogram: tuple[int, ...]
    """Samples answered at step 1, 2, ..., T."""
    tied: float
    """Percent of samples in which more than one class fired first."""
    silent: float
    """Percent of samples in which no class fired."""
    spikes: float
    """Mean number of spikes a sample, all layers, until it stops (N_s)."""
    layer_spikes: dict[str, float]
    """The same for each layer."""
    layer_rates: dict[str, float]
    """Mean spikes of a neuron until the sample stops, for each layer."""

    def as_dict(self) -> dict[str, Any]:
        return to_dict(self)


class _Tally:
    """Sums over samples, kept on the device until the end."""

    def __init__(self) -> None:
        self.sums: dict[str, Tensor] = {}

    def add(self, name: str, values: Tensor) -> None:
        total = values.double().sum(0) if values.device.type != "mps" else values.float().sum(0)
        self.sums[name] = self.sums[name] + total if name in self.sums else total

    def mean(self, name: str, count: int, scale: float = 1.0) -> float:
        return float(self.sums[name]) * scale / count


@torch.no_grad()
def evaluate(
    net: Network, dataset: Dataset, batch_size: int = 256, device: str | torch.device = "cpu"
) -> Measures:
    """Measure `net` (on `device`) over all samples of `dataset`.

    All T steps are run layer by layer, and what happens after a sample's first output spike is not counted:
    the same numbers as stopping there, by causality.
    """
    training = net.training
    net.eval()
    tally, histogram = _Tally(), torch.zeros(net.T, dtype=torch.int64, device=device)
    sizes: dict[str, int] = {}
    for batch in batches_of(dataset, batch_size, device):
        output, times = net.trace(batch.images)
        for rule in ("strict", "potential"):
            answer = predict(times[net.names[-1]], output.membrane, rule)
            tally.add(rule, answer.label == batch.labels)
        tally.add("steps", answer.steps)
        tally.add("tied", answer.tied)
        tally.add("silent", answer.silent)
        histogram += torch.bincount(answer.steps - 1, minlength=net.T)
        for name, layer_times in times.items():
            sizes[name] = layer_times[0].numel()
            tally.add(name, (layer_times.flatten(1) < answer.steps[:, None]).sum(1))
    net.train(training)
    count = len(dataset)
    layer_spikes = {name: tally.mean(name, count) for name in sizes}
    return Measures(
        dataset=f"{dataset.name}, {dataset.split}",
        samples=count,
        strict=tally.mean("strict", count, 100),
        potential=tally.mean("potential", count, 100),
        steps=tally.mean("steps", count),
        T=net.T,
        step_histogram=tuple(histogram.tolist()),
        tied=tally.mean("tied", count, 100),
        silent=tally.mean("silent", count, 100),
        spikes=sum(layer_spikes.values()),
        layer_spikes=layer_spikes,
        layer_rates={name: spikes / sizes[name] for name, spikes in layer_spikes.items()},
    )


def batches_of(dataset: Dataset, batch_size: int, device: str | torch.device) -> Iterator[Batch]:
    """Every sample once, in order, unchanged."""
    return Batches(dataset, batch_size, seed=0, shuffle=False, device=device).epoch(0)
