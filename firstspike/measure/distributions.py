"""Distributions inside a network: currents, weight gradients, firing times."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from firstspike.config import to_dict
from firstspike.models import Network
from firstspike.nn import Output, Spiking


@dataclass(frozen=True)
class Distribution:
    """Some values as a histogram with their mean and variance."""

    mean: float
    variance: float
    low: float
    high: float
    """Edges of the histogram; what lies outside is in the first or the last bin."""
    counts: tuple[int, ...]

    @classmethod
    def of(cls, values: Tensor, low: float, high: float, bins: int = 61) -> "Distribution":
        flat = values.detach().float().flatten()
        where = ((flat - low) / (high - low) * bins).long().clamp(0, bins - 1)
        counts = torch.bincount(where, minlength=bins).tolist()
        variance, mean = torch.var_mean(flat.double(), correction=0)
        return cls(float(mean), float(variance), low, high, tuple(counts))

    def as_dict(self) -> dict[str, Any]:
        return to_dict(self)


@torch.no_grad()
def currents(net: Network, images: Tensor, forced: bool = True) -> dict[str, Tensor]:
    """The current X `[T, B, ...]` into the neurons of each layer, gain and bias included.

    `forced` follows the training rule (a neuron that has not fired does so at the last step), for which the
    initialisation's variance is derived; else the network runs as in inference.
    """
    net = copy.deepcopy(net).train(forced)  # batch statistics of the caller's network must not move
    net.skip_last_frame = False
    found: dict[str, Tensor] = {}
    spikes = net.encode(images)
    for name, layer in zip(net.names, net.layers, strict=True):
        if isinstance(layer, Spiking):
            found[name] = layer.synapse(spikes)
        spikes = layer(spikes)
    return found


def mean_variance(current: Tensor) -> float:
    """1/T sum_t D(X[t]): the variance over samples and neurons at each step, averaged over the steps."""
    return float(current.flatten(1).double().var(1, correction=0).mean())


def weight_gradients(net: Network, images: Tensor, loss: Callable[[Output], Tensor]) -> dict[str, Tensor]:
    """dL/dW of each layer's weight for one batch, in training mode; the network is left as it was."""
    net = copy.deepcopy(net).train()
    layers = {
        name: layer.synapse.weight
        for name, layer in zip(net.names, net.layers, strict=True)
        if isinstance(layer, Spiking)
    }
    total = loss(net(images))
    grads = torch.autograd.grad(total, list(layers.values()), allow_unused=True)
    return {
        name: torch.zeros_like(weight) if grad is None else grad
        for (name, weight), grad in zip(layers.items(), grads, strict=True)
    }


@torch.no_grad()
def firing_times(net: Network, images: Tensor) -> dict[str, Tensor]:
    """Share of each layer's neurons that fire at step 0, ..., T-1, and that never do: `[T + 1]`, inference."""
    training = net.training
    net.eval()
    _, times = net.trace(images)
    net.train(training)
    return {
        name: torch.bincount(layer.flatten().long(), minlength=net.T + 1).double() / layer.numel()
        for name, layer in times.items()
    }
