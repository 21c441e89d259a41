"""Does a network fire at the same times elsewhere? And if not, is it rounding?"""

from dataclasses import dataclass

import torch
from torch import Tensor

from firstspike.errors import FirstspikeError
from firstspike.models import Network
from firstspike.nn import Spiking


@dataclass(frozen=True)
class Agreement:
    """Spike times here and elsewhere, compared neuron by neuron."""

    samples: int
    compared: int
    """Neurons times samples."""
    different: int
    by_rounding: int
    """Of the different ones: the membrane lay within `tolerance` of the threshold, so that rounding decided."""
    following: int
    """Of the different ones: an earlier layer had differed in that sample already."""
    largest_gap: float
    """The largest |H - V| of those that rounding decided."""

    @property
    def unexplained(self) -> int:
        return self.different - self.by_rounding - self.following

    def __add__(self, other: "Agreement") -> "Agreement":
        """The agreement over the samples of both."""
        return Agreement(
            self.samples + other.samples,
            self.compared + other.compared,
            self.different + other.different,
            self.by_rounding + other.by_rounding,
            self.following + other.following,
            max(self.largest_gap, other.largest_gap),
        )

    def __str__(self) -> str:
        if not self.different:
            return f"all {self.compared:,} spike times of {self.samples:,} samples are identical"
        return (
            f"{self.different:,} of {self.compared:,} spike times of {self.samples:,} samples differ: "
            f"{self.by_rounding:,} by rounding (|H - V| at most {self.largest_gap:.1e}), {self.following:,} follow "
            f"from those, {self.unexplained:,} unexplained"
        )


@torch.no_grad()
def agreement(net: Network, x: Tensor, times: dict[str, Tensor], tolerance: float = 1e-4) -> Agreement:
    """Compare the spike times of `net` on `x` with those that another runtime found.

    Args:
        x: input as `net` takes it.
        times: uint8 `[B, ...]`, T = silent, by the layer's name in `net.names`; layers may be left out.
        tolerance: |H - V| within which float32 rounding may decide whether a neuron fires.
    """
    for name in times.keys() - set(net.names):
        raise FirstspikeError(f"There is no layer {name!r} in this network: it has {', '.join(net.names)}.")
    net = net.fuse()
    spikes, batch = net.encode(x), net.encode(x).shape[1]
    differed = torch.zeros(batch, dtype=torch.bool, device=x.device)
    total = Agreement(batch, 0, 0, 0, 0, 0.0)
    for name, layer in zip(net.names, net.layers, strict=True):
        if not isinstance(layer, Spiking):
            spikes = layer(spikes)
            continue
        current, bias = layer.synapse.current(spikes)
        gap = (layer.neuron.membrane(current, bias) - layer.neuron.threshold_for(current)).abs()
        spikes = layer.neuron(current, bias)
        if name in times:
            part, different = _compare(spikes, times[name], gap, differed, tolerance)
            total, differed = total + part, differed | different
    return total


def _compare(
    spikes: Tensor, theirs: Tensor, gap: Tensor, differed: Tensor, tolerance: float
) -> tuple[Agreement, Tensor]:
    """One layer: `differed [B]` are the samples in which an earlier one did; also those in which this one does."""
    T = spikes.shape[0]
    ours = torch.where(spikes.any(0), spikes.argmax(0), T)
    theirs = theirs.to(ours)
    if theirs.shape != ours.shape:
        raise FirstspikeError(f"These spike times have shape {list(theirs.shape)}, ours {list(ours.shape)}.")
    different = ours != theirs
    earlier = torch.minimum(ours, theirs).clamp(max=T - 1)  # where one fired and the other did not
    nearest = gap.gather(0, earlier[None])[0]
    after = differed.view(-1, *[1] * (ours.dim() - 1)) & different
    rounded = different & ~after & (nearest <= tolerance)
    largest = float(nearest[rounded].max()) if bool(rounded.any()) else 0.0
    part = Agreement(0, ours.numel(), int(different.sum()), int(rounded.sum()), int(after.sum()), largest)
    return part, different.flatten(1).any(1)
