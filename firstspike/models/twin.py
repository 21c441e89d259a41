"""The ReLU twin: the same synapses with ReLU units between them, run once instead of over time."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firstspike.errors import FirstspikeError
from firstspike.models.config import NetworkConfig
from firstspike.models.network import Network
from firstspike.nn import Spiking, Synapse


class Twin(nn.Module):
    """The conventional network of a spiking one: `[B, C, H, W]` in, logits `[B, classes]` out.

    It shares the layout of the spiking network's parameters, so either can start from the other's weights.
    Event frames `[T, B, C, H, W]` are averaged over time. Neurons' thresholds take no part, and
    are no longer learned.
    """

    def __init__(self, net: Network) -> None:
        super().__init__()
        self.net = net
        for layer in net.layers:
            if isinstance(layer, Spiking):
                layer.neuron.requires_grad_(False)

    @property
    def unit(self) -> str:
        """What stands in the place of the AMOS neurons, as recipes and saved models name it."""
        return "relu"

    @property
    def config(self) -> NetworkConfig:
        return self.net.config

    def forward(self, x: Tensor) -> Tensor:
        activity = self.net.prepare(x.mean(0) if self.config.encoding == "frames" else x, events=False)[None]
        for layer in self.net.layers[:-1]:
            activity = F.relu(layer.synapse(activity)) if isinstance(layer, Spiking) else layer(activity)
        logits: Tensor = self.net.readout.synapse(activity)[0]
        return logits.float()


def start_from(net: Network, source: Network | Twin) -> None:
    """Start a network from the weights, gains and biases of another of the same architecture.

    Thresholds and batch statistics stay as they are: a ReLU unit's do not carry over. A spiking network of
    another T or v gives the very weights it runs with; a twin's come to the scale that T steps ask for.
    """
    donor = source.net if isinstance(source, Twin) else source
    pairs = list(zip(_synapses(net), _synapses(donor), strict=False))
    if len(_synapses(net)) != len(_synapses(donor)):
        raise FirstspikeError(
            f"Cannot start {net.config.architecture} from {donor.config.architecture}: the layers differ."
        )
    for number, (mine, theirs) in enumerate(pairs, start=1):
        if mine.weight.shape != theirs.weight.shape:
            raise FirstspikeError(
                f"Cannot start {net.config.architecture} from {donor.config.architecture}: the weights of layer "
                f"{number} have shape {list(mine.weight.shape)} here and {list(theirs.weight.shape)} there."
            )
    with torch.no_grad():
        for mine, theirs in pairs:
            # Normalised weights have the deviation that T and v ask for; a gain can undo that.
            rescales = isinstance(source, Network) and theirs.normalisation.kind == "weight"
            scale = theirs.std / mine.std if rescales else 1.0
            mine.weight.copy_(theirs.weight)
            if mine.gain is not None and theirs.gain is not None:
                mine.gain.copy_(theirs.gain * scale)
            if mine.bias is not None and theirs.bias is not None:
                mine.bias.copy_(theirs.bias)


def _synapses(net: Network) -> list[Synapse]:
    """Those of a network in order, wherever dropout and pooling lie between them."""
    return [module for module in net.modules() if isinstance(module, Synapse)]
