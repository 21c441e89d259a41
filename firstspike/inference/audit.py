"""Does the engine fire as the reference does? Counted neuron by neuron, and class by class."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from firstspike.config import to_dict
from firstspike.functional.times import spikes_at
from firstspike.inference.answer import Answer
from firstspike.inference.engine import Engine
from firstspike.inference.given import check_images
from firstspike.models import Network
from firstspike.nn import Spiking


@dataclass(frozen=True)
class Audit:
    """Spike times against float64, every layer from the very spikes that came to it."""

    samples: int
    neurons: int
    """Spike times compared."""
    differing: int
    """How many of them differ."""
    widest: float
    """The largest |H - V| in float64, in units of the threshold, at which a spike time differs: rounding's reach."""

    def __add__(self, other: "Audit") -> "Audit":
        return Audit(
            self.samples + other.samples,
            self.neurons + other.neurons,
            self.differing + other.differing,
            max(self.widest, other.widest),
        )


@torch.no_grad()
def audit(net: Network, images: Tensor, answer: Answer) -> Audit:
    """Recompute every layer of `net` in float64 from the spikes that `answer` (with times) says came to it.

    One neuron at the very threshold may fire a step earlier or later by rounding, and the layers after it then
    rightly differ. So each layer is judged by itself. `net` is `engine.reference`.
    """
    check_images(net, images)
    if answer.times is None:
        raise ValueError("an audit needs the spike times: infer(..., times=True)")
    exact = net.fuse().double()
    exact.compute_dtype = None
    spikes = exact.encode(images.double())
    total = Audit(len(answer), 0, 0, 0.0)
    for name, layer in zip(exact.names, exact.layers, strict=True):
        if not isinstance(layer, Spiking):
            spikes = layer(spikes)
            continue
        current, bias = layer.synapse.current(spikes)
        threshold = layer.neuron.threshold_for(current)
        overdrive = layer.neuron.membrane(current, bias) - threshold
        times = answer.times[name]
        total += _compare(overdrive / threshold, times, answer.steps, net.T, len(answer))
        spikes = spikes_at(times, net.T, torch.float64)
    return total


def _compare(overdrive: Tensor, times: Tensor, steps: Tensor, T: int, samples: int) -> Audit:
    """One layer: `overdrive` (H - V) / V `[T, B, ...]` against the times `[B, ...]` that were found."""
    stop = steps.view(-1, *[1] * (times.dim() - 1))
    above = overdrive >= 0
    expected = torch.where(above.any(0), above.to(torch.uint8).argmax(0), T)
    expected = torch.where(expected < stop, expected, T)
    wrong = expected != times
    earlier = torch.minimum(expected, times.long()).clamp(max=T - 1)
    distance = overdrive.gather(0, earlier[None])[0].abs()[wrong]
    return Audit(0, times.numel(), int(wrong.sum()), float(distance.max()) if len(distance) else 0.0)


@dataclass(frozen=True)
class Agreement:
    """Two ways to run a network, on the same labelled images."""

    samples: int
    classes: float
    """Percent of samples with the same class."""
    steps: float
    """Percent of samples with the same number of steps."""
    accuracy: float
    """Of the first, in percent."""
    other_accuracy: float
    """Of the second."""

    def as_dict(self) -> dict[str, Any]:
        return to_dict(self)


def agreement(one: Answer, other: Answer, labels: Tensor) -> Agreement:
    """How far the answers of two ways agree: what int8 weights cost, for instance."""

    def percent(flags: Tensor) -> float:
        return 100 * float(flags.double().mean())

    return Agreement(
        len(labels),
        percent(one.label == other.label),
        percent(one.steps == other.steps),
        percent(one.label == labels),
        percent(other.label == labels),
    )


def audit_all(engine: Engine, images: Tensor, batch_size: int = 250) -> Audit:
    """`audit` of an engine over many images, in batches."""
    axis = 1 if engine.net.config.encoding == "frames" else 0
    reference = engine.reference
    parts = [
        audit(reference, part, engine(part, times=True)) for part in torch.split(images, batch_size, dim=axis)
    ]
    total = parts[0]
    for part in parts[1:]:
        total += part
    return total
