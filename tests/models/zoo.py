"""The zoo at a size that tests can afford, and short training for it."""

import re

import torch
import torch.nn.functional as F
from torch import Tensor

from firstspike.functional import spike_times, temporal_weighting, temporal_weights
from firstspike.models import ZOO, Network, build
from firstspike.nn import Normalisation, Spiking

T, BATCH = 4, 6

IMAGE = {"FC1": 6, "FC2": 6, "SCNN3": 8, "SCNN6": 8, "SCNN7": 32}
"""Side of the smallest image that still has a pixel at the end (others: 16, for two K5-P2)."""


def shrunk_spec(name: str, width: int = 8) -> str:
    """The architecture with all hidden widths cut to `width`: same layers, same groups, same output."""
    head, last = ZOO[name].rsplit("-", 1)
    return "-".join([re.sub(r"(?<=C)\d+(?=K)|(?<=FC)\d+", str(width), head), last])


def shrunk(name: str, **options: object) -> Network:
    """The shrunk architecture in float64, where rounding cannot decide whether a neuron fires.

    So few neurons would leave each other silent, and silent layers agree too easily: strong weights and biases
    keep them firing.
    """
    side = IMAGE.get(name, 16)
    shape = (2 if name == "SCNN7" else 1, side, side)
    options = {"T": T, "normalisation": Normalisation(variance=4.0), **options}
    net = build(shrunk_spec(name), shape, **options).double()  # type: ignore[arg-type]
    for key, parameter in net.named_parameters():
        if key.endswith("bias"):
            parameter.data.uniform_(-0.2, 0.8)
    return net


def images(net: Network, batch: int = BATCH) -> Tensor:
    """Random input of the shape that the network takes."""
    lead = (net.T, batch) if net.config.encoding == "frames" else (batch,)
    return torch.rand(*lead, *net.config.input_shape, dtype=torch.float64)


def train(net: Network, steps: int = 3) -> Network:
    """A few steps of SGD on random labels: trained enough that no parameter is where it began."""
    before = [parameter.detach().clone() for parameter in net.parameters()]
    optimiser = torch.optim.SGD(net.parameters(), lr=0.3)
    weights = temporal_weights(net.T)
    net.train()
    for _ in range(steps):
        output = net(images(net))
        labels = torch.randint(output.spikes.shape[2], (BATCH,))
        loss = F.cross_entropy(temporal_weighting(output.spikes, weights), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    moved = [not torch.equal(old, new) for old, new in zip(before, net.parameters(), strict=True)]
    assert all(moved), "a parameter had no gradient"
    return net.eval()


def stepped_times(net: Network, x: Tensor) -> tuple[dict[str, Tensor], Tensor, Tensor]:
    """Step by step: spike times of every layer of neurons, and spikes and membrane of the output."""
    frames = net.config.encoding == "frames"
    state = net.start(x[0] if frames else x)
    spikes, membranes, fired = [], [], []
    for t in range(net.T):
        step, state = net.step(x[t] if frames else None, state)
        spikes.append(step.spikes)
        membranes.append(step.membrane)
        fired.append([neuron.fired for neuron in state.neurons if neuron is not None])
    names = [name for name, layer in zip(net.names, net.layers, strict=True) if isinstance(layer, Spiking)]
    times = {name: spike_times(torch.stack(flags)) for name, *flags in zip(names, *fired, strict=True)}
    return times, torch.stack(spikes), torch.stack(membranes)


def assert_same_times(one: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    """Every neuron of every layer fires at the same time."""
    assert list(one) == list(other)
    for name in one:
        assert torch.equal(one[name], other[name]), f"layer {name} fires at other times"


def assert_lively(times: dict[str, Tensor], steps: int = T) -> None:
    """Neurons of every layer that fire at different times: otherwise agreement would mean little."""
    for name, layer in times.items():
        assert len(layer.unique()) >= 2, f"all neurons of {name} fire at {layer.unique().tolist()}"
    seen = torch.cat([layer.flatten() for layer in times.values()]).unique()
    assert len(seen) >= min(3, steps + 1), f"all neurons fire at {seen.tolist()}"
