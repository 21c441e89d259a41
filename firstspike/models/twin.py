"""The ReLU twin: the same synapses with ReLU units between them, run once instead of over time."""

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
    another T gives the very weights it runs with; a twin's come to the scale that T steps ask for.
    """
    donor = source.net if isinstance(source, Twin) else source
    own = net.state_dict()
    carried = {
        name: value
        for name, value in donor.state_dict().items()
        if name in own and name.rsplit(".", 1)[-1] in ("weight", "gain", "bias")
    }
    for name in own.keys() ^ donor.state_dict().keys():
        if name.endswith(".weight"):
            raise FirstspikeError(
                f"Cannot start {net.config.architecture} from {donor.config.architecture}: the layers differ."
            )
    for name, value in carried.items():
        if value.shape != own[name].shape:
            raise FirstspikeError(
                f"Cannot start {net.config.architecture} from {donor.config.architecture}: {name!r} has shape "
                f"{list(own[name].shape)} here and {list(value.shape)} there."
            )
    if isinstance(source, Network):
        _keep_scale(net, source, carried)
    net.load_state_dict({**own, **carried})


def _keep_scale(net: Network, source: Network, carried: dict[str, Tensor]) -> None:
    """Undo in the gains what another T does to normalised weights, whose deviation goes with its square root."""
    for name, module in source.named_modules():
        if isinstance(module, Synapse) and module.normalisation.kind == "weight" and module.gain is not None:
            carried[f"{name}.gain"] = carried[f"{name}.gain"] * (source.T / net.T) ** 0.5
