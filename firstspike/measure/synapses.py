"""The synapses that each spike drives, counted where they are: borders, padding and pooling included."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from firstspike.errors import FirstspikeError
from firstspike.functional.times import spikes_at
from firstspike.models import Network
from firstspike.nn import AvgPool2d, Conv2d, Dropout, Linear, MaxPool2d, Spiking, Synapse


@dataclass(frozen=True)
class Site:
    """The synapses of one layer."""

    name: str
    """Name of the layer, as in `Network.names`."""
    source: str | None
    """The layer whose spikes arrive; None for the network's input."""
    pools: tuple[AvgPool2d, ...]
    """The pooling on the way."""
    input_shape: tuple[int, ...]
    """`(C, H, W)` or `(features,)` where the synapses begin, behind the pooling."""
    output_shape: tuple[int, ...]
    fan_out: Tensor
    """int64, of the input's shape: how many synapses an input at each position drives."""
    fan_in: int

    @property
    def dense(self) -> int:
        """Operations of the layer's dense counterpart, one for each output and weight (padding included)."""
        return math.prod(self.output_shape) * self.fan_in

    @property
    def synapses(self) -> int:
        """Connections that exist: `dense` without those that only meet padding."""
        return int(self.fan_out.sum())

    def arriving(self, times: Tensor, steps: Tensor, T: int) -> Tensor:
        """Spikes that arrive before each sample stops, by position, summed over the batch: int64.

        `times` are the source's spike times `[B, ...]` and `steps` the steps each sample runs for `[B]`. A spike
        passes an average pool as a spike at the coarser position (its weight, 1/n^2, is fused into the synapse). A
        max pool passes one spike a step on, however many arrive.
        """
        stop = steps.view(-1, *[1] * (times.dim() - 1))
        if not self._takes_maxima:
            return self._pool_counts((times < stop).sum(0))
        frames = spikes_at(torch.where(times < stop, times, T), T)
        return self.arriving_frames(frames)

    def arriving_frames(self, frames: Tensor, graded: bool = False) -> Tensor:
        """As `arriving`, for frames `[T, B, ...]` of neurons that may fire more than once, or of the input.

        What arrives is a spike where it is 1. `graded` counts the others instead, as event counts are: with them a
        weight is not added, but multiplied.
        """
        if self._takes_maxima:
            for pool in self.pools:
                frames = pool(frames)
        arrives = (frames != 0) & (frames != 1) if graded else frames == 1
        counts = arrives.sum((0, 1))
        return counts.reshape(self.input_shape) if self._takes_maxima else self._pool_counts(counts)

    def operations(self, arrived: Tensor) -> int:
        """Synaptic operations for spikes that arrived, by position."""
        return int((arrived.cpu() * self.fan_out).sum())

    @property
    def _takes_maxima(self) -> bool:
        return any(isinstance(pool, MaxPool2d) for pool in self.pools)

    def _pool_counts(self, counts: Tensor) -> Tensor:
        for pool in self.pools:  # float32 is exact here: a batch has fewer than 2^24 spikes at a position
            counts = F.avg_pool2d(counts[None].float(), pool.size, divisor_override=1)[0].long()
        return counts.reshape(self.input_shape)


def sites(net: Network) -> list[Site]:
    """The synapses of each layer of a network, in order; weights need not exist (a meta device will do)."""
    return list(_walk(net))


def _walk(net: Network) -> Iterator[Site]:
    shape: tuple[int, ...] = tuple(net.config.input_shape)
    source: str | None = None
    pools: list[AvgPool2d] = []
    for name, layer in zip(net.names, net.layers, strict=True):
        if isinstance(layer, Spiking):
            fan_out, after = _fan_out(layer.synapse, shape)
            inputs = tuple(fan_out.shape)
            yield Site(name, source, tuple(pools), inputs, after, fan_out, layer.synapse.weight[0].numel())
            shape, source, pools = after, name, []
        elif isinstance(layer, AvgPool2d):
            shape = (shape[0], shape[1] // layer.size, shape[2] // layer.size)
            pools.append(layer)
        elif not isinstance(layer, Dropout):
            raise FirstspikeError(
                f"Layer {name} is a {type(layer).__name__}, whose synapses cannot be counted: only pooling and "
                "dropout may stand between layers of neurons."
            )


def _fan_out(synapse: Synapse, shape: tuple[int, ...]) -> tuple[Tensor, tuple[int, ...]]:
    """Synapses driven from each input position, and the shape of the layer behind them."""
    outputs = synapse.weight.shape[0]
    if isinstance(synapse, Linear):
        return torch.full((math.prod(shape),), outputs), (outputs,)
    if not isinstance(synapse, Conv2d):
        raise FirstspikeError(f"The synapses of a {type(synapse).__name__} cannot be counted.")
    kernel, padding = synapse.weight.shape[2], synapse.padding
    height, width = (size - kernel + 1 + 2 * padding for size in shape[1:])
    # How often the window of some output position covers each input position: the transposed window does that.
    cover = F.conv_transpose2d(
        torch.ones(1, 1, height, width), torch.ones(1, 1, kernel, kernel), padding=padding
    )
    fan_out = outputs * cover[0].round().long().expand(shape)
    return fan_out, (outputs, height, width)


def describe(net: Network) -> list[dict[str, Any]]:
    """What a network is made of, a row for each layer: neurons, synapses, dense operations."""
    return [
        {
            "layer": site.name,
            "neurons": math.prod(site.output_shape),
            "synapses": site.synapses,
            "dense": site.dense,
        }
        for site in sites(net)
    ]
