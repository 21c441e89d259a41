"""Accuracy, latency, spikes and synaptic operations over a data set, with early stopping."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from firstspike.config import to_dict
from firstspike.data import Batch, Batches, Dataset
from firstspike.errors import FirstspikeError
from firstspike.functional.decoding import predict
from firstspike.measure.synapses import Site, sites
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
    sops: float | None = None
    """Mean synaptic operations a sample: each spike times the synapses it drives. None where those are unknown."""
    layer_sops: dict[str, float] = field(default_factory=dict)
    """The same for each layer, in whose synapses they happen."""
    input_operations: float = 0.0
    """Mean multiplications a sample of the input with the first weights: see docs/measures.md."""

    def as_dict(self) -> dict[str, Any]:
        return to_dict(self)


class Tally:
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
    tally, histogram = Tally(), torch.zeros(net.T, dtype=torch.int64, device=device)
    operations = Operations(net)
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
        operations.add(batch.images, times, answer.steps)
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
        **operations.means(count),
    )


class Operations:
    """Spikes that arrive at each layer's synapses, by position, from which their operations follow exactly."""

    def __init__(self, net: Network) -> None:
        self.net = net
        try:
            self.sites: list[Site] = sites(net)
        except FirstspikeError:  # a layer of the user's own, whose synapses nobody can count
            self.sites = []
        self.arrived: dict[str | None, Tensor] = {}
        """Spikes by layer; under None what the first layer multiplies its weights with."""

    def add(self, images: Tensor, times: dict[str, Tensor], steps: Tensor) -> None:
        """Count a batch: its spike times by layer, and the steps each of its samples runs for."""
        for site in self.sites:
            if site.source is not None:
                self._note(site.name, site.arriving(times[site.source], steps, self.net.T))
            elif self.net.config.encoding != "direct":
                inputs = self.net.encode(images)
                running = torch.arange(self.net.T, device=steps.device)[:, None] < steps
                running = running.view(*running.shape, *[1] * (inputs.dim() - 2))
                self._note_frames(site, inputs * running)

    def add_frames(self, frames: dict[str | None, Tensor]) -> None:
        """Count a batch that runs to its end: spikes `[T, B, ...]` by layer, and those of the input under None."""
        for site in self.sites:
            if site.source in frames:
                self._note_frames(site, frames[site.source])

    def _note_frames(self, site: Site, frames: Tensor) -> None:
        self._note(site.name, site.arriving_frames(frames))
        if site.source is None:
            self._note(None, site.arriving_frames(frames, graded=True))

    def _note(self, name: str | None, arrived: Tensor) -> None:
        seen = self.arrived.get(name)
        self.arrived[name] = arrived if seen is None else seen + arrived

    def means(self, samples: int) -> dict[str, Any]:
        """The fields of `Measures` that tell of operations."""
        if not self.sites:
            return {}
        layers = {
            site.name: site.operations(self.arrived[site.name]) / samples
            if site.name in self.arrived
            else 0.0
            for site in self.sites
        }
        first, multiplied = self.sites[0], 0.0
        if self.net.config.encoding == "direct":
            multiplied = float(first.synapses)
        elif None in self.arrived:
            multiplied = first.operations(self.arrived[None]) / samples
        return {"sops": sum(layers.values()), "layer_sops": layers, "input_operations": multiplied}


def batches_of(dataset: Dataset, batch_size: int, device: str | torch.device) -> Iterator[Batch]:
    """Every sample once, in order, unchanged."""
    return Batches(dataset, batch_size, seed=0, shuffle=False, device=device).epoch(0)
