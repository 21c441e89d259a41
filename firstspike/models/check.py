"""Does every neuron fire at most once? Verified on real data, layer by layer."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from firstspike.errors import FirstspikeError
from firstspike.models.network import Network
from firstspike.nn import AvgPool2d, Output, Spiking


@dataclass(frozen=True)
class LayerCount:
    """How often the units of one layer fired over all steps: for neurons a count, for pools a sum."""

    layer: str
    fewest: float
    most: float
    forced: bool
    """Whether each unit had to sum to exactly 1, not to at most 1."""

    @property
    def holds(self) -> bool:
        rounding = 1e-3
        return self.most <= 1 + rounding and (not self.forced or self.fewest >= 1 - rounding)

    def __str__(self) -> str:
        rule = "exactly once" if self.forced else "at most once"
        verdict = "holds" if self.holds else "VIOLATED"
        return f"{self.layer}: {self.fewest:g} to {self.most:g} spikes a unit, {rule}: {verdict}"


@dataclass
class OneSpikeReport:
    """What `one_spike_check` saw, a line for each layer and forward pass."""

    counts: list[LayerCount] = field(default_factory=list)

    @property
    def violations(self) -> list[LayerCount]:
        return [count for count in self.counts if not count.holds]

    def __str__(self) -> str:
        return "\n".join(map(str, self.counts))


@contextmanager
def one_spike_check(net: Network, raises: bool = True) -> Iterator[OneSpikeReport]:
    """Watch the forward passes inside the block, and verify the one-spike property of every layer.

    A neuron fires at most once, and exactly once while training (where the last step is forced); an average
    pool then sums to 1 over time. Max pooling breaks this, and the report names the layer. A pool in front of
    all neurons is left out: what it pools is the input, which need not be spikes.

        with one_spike_check(net) as report:
            net(images)
        print(report)

    Args:
        raises: raise a `FirstspikeError` at the end of the block if a layer violated the property.
    """
    report = OneSpikeReport()
    skip, net.skip_last_frame = net.skip_last_frame, False

    def watch(name: str, layer: nn.Module) -> torch.utils.hooks.RemovableHandle:
        def count(_: nn.Module, __: tuple[Tensor, ...], out: Tensor | Output) -> None:
            spikes = out.spikes if isinstance(out, Output) else out
            if spikes.numel():
                total = spikes.detach().float().sum(0)
                report.counts.append(LayerCount(name, total.min().item(), total.max().item(), net.training))

        return layer.register_forward_hook(count)

    named = zip(net.names, net.layers, strict=True)
    after_input = itertools.dropwhile(lambda pair: not isinstance(pair[1], Spiking), named)
    watched = [(name, layer) for name, layer in after_input if isinstance(layer, Spiking | AvgPool2d)]
    handles = [watch(name, layer) for name, layer in watched]
    try:
        yield report
    finally:
        for handle in handles:
            handle.remove()
        net.skip_last_frame = skip
    if raises and report.violations:
        raise FirstspikeError(f"The one-spike property is violated at {report.violations[0]}.")
