"""The measures of a rate-coded network, to stand beside those of one that stops at its first spike."""

import torch
from torch import Tensor

from firstspike.data import Dataset
from firstspike.functional.rate import mean_rate
from firstspike.measure.evaluate import Measures, Operations, Tally, batches_of
from firstspike.models import RateTwin


@torch.no_grad()
def evaluate_rate(
    twin: RateTwin, dataset: Dataset, batch_size: int = 256, device: str | torch.device = "cpu"
) -> Measures:
    """Accuracy, spikes and operations of a rate-coded network, which runs all T steps on every sample.

    `strict` and `potential` are both the accuracy of the highest rate (the lowest index among equals); `tied` is
    the share of samples whose highest rate is shared, `silent` that of those without an output spike.
    """
    training, net = twin.training, twin.net
    twin.eval()
    tally, operations = Tally(), Operations(net)
    sizes: dict[str, int] = {}
    for batch in batches_of(dataset, batch_size, device):
        spikes = twin.trace(batch.images)
        rates = mean_rate(spikes[net.names[-1]])
        tally.add("right", rates.argmax(1) == batch.labels)
        highest = rates.amax(1)
        tally.add("silent", highest == 0)
        tally.add("tied", (highest > 0) & ((rates == highest[:, None]).sum(1) > 1))
        for name, frames in spikes.items():
            sizes[name] = frames[0, 0].numel()
            tally.add(name, frames.flatten(2).sum((0, 2)))
        arriving: dict[str | None, Tensor] = dict(spikes.items())
        if net.config.encoding != "direct":
            arriving[None] = net.encode(batch.images)
        operations.add_frames(arriving)
    twin.train(training)
    count = len(dataset)
    layer_spikes = {name: tally.mean(name, count) for name in sizes}
    accuracy = tally.mean("right", count, 100)
    return Measures(
        dataset=f"{dataset.name}, {dataset.split}",
        samples=count,
        strict=accuracy,
        potential=accuracy,
        steps=float(net.T),
        T=net.T,
        step_histogram=(*[0] * (net.T - 1), count),
        tied=tally.mean("tied", count, 100),
        silent=tally.mean("silent", count, 100),
        spikes=sum(layer_spikes.values()),
        layer_spikes=layer_spikes,
        layer_rates={name: spikes / sizes[name] for name, spikes in layer_spikes.items()},
        **operations.means(count),
    )
