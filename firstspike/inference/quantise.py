"""int8 weights: one scale for each output channel, chosen for the spikes that the weights will meet."""

import copy
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from firstspike.inference.given import check_finite, check_images
from firstspike.models import Network
from firstspike.nn import AMOS, Neuron, Spiking

if TYPE_CHECKING:
    from firstspike.inference.plan import Plan

LARGEST = 127
CLIPS = torch.linspace(0.6, 1.0, 21, dtype=torch.float64)

Calibration = dict[str, Tensor]
"""Mean square of every input of every layer of neurons, by the layer's name: `[in, ...]`."""


@torch.no_grad()
def calibrate(net: Network, images: Tensor, batch_size: int = 64) -> Calibration:
    """How much of each input the layers of a fused network see, over `images` (or event frames)."""
    check_images(net, images)
    check_finite(net, images)
    axis = 1 if net.config.encoding == "frames" else 0
    seen: Calibration = {}
    for part in torch.split(images, batch_size, dim=axis):
        spikes = net.encode(part)
        for name, layer in zip(net.names, net.layers, strict=True):
            if isinstance(layer, Spiking):
                energy = spikes.double().square().mean(0).sum(0) / images.shape[axis]
                seen[name] = seen[name] + energy if name in seen else energy
            spikes = spikes if layer is net.layers[-1] else layer(spikes)
    return seen


def quantise(weight: Tensor, importance: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Whole numbers in [-127, 127] and a scale per output channel, float64: weight ~ whole * scale[:, None].

    The scale is the one, of several that cut off the largest weights, with the smallest squared error of the
    current, sum_i E[x_i^2] (w_i - whole_i * scale)^2: `importance` is E[x^2], the same for all where not given.
    For convolutions it is the mean over the image, one value a channel.
    """
    flat = weight.flatten(1)
    if importance is None:
        heed = torch.ones(1, flat.shape[1], dtype=torch.float64)
    elif weight.dim() == 4:
        heed = importance.flatten(1).mean(1)[:, None].expand(-1, weight[0, 0].numel()).reshape(1, -1)
    else:
        heed = importance.reshape(1, -1)
    heed = heed + 1e-3 * heed.mean() + 1e-12  # an input that was silent so far may fire one day
    largest = flat.abs().amax(1, keepdim=True).clamp(min=1e-12)
    best = torch.full((len(flat), 1), torch.inf, dtype=torch.float64)
    scale = largest / LARGEST
    for clip in CLIPS:
        tried = largest * clip / LARGEST
        error = (heed * (flat - (flat / tried).round().clamp(-LARGEST, LARGEST) * tried).square()).sum(
            1, True
        )
        scale = torch.where(error <= best, tried, scale)
        best = torch.minimum(error, best)
    whole = (flat / scale).round().clamp(-LARGEST, LARGEST)
    return whole.view_as(weight), scale[:, 0]


def quantised_network(net: Network, plan: "Plan") -> Network:
    """The network of plain layers, in float64, whose spikes the int8 engine computes.

    Weights, biases and thresholds are the engine's whole numbers, so that float64 holds every membrane exactly:
    both fire at the same times. The first layer's float32 weights stay as they are where it takes an image. Leaky
    neurons divide by tau, so there the weights are the whole numbers times their scale.
    """
    layers: list[nn.Module] = []
    described = zip(plan.layers, plan.units, strict=True)
    for layer in net.layers:
        copied = copy.deepcopy(layer).double()
        layers.append(copied)
        if isinstance(copied, Spiking):
            made, unit = next(described)
            if unit is not None:
                take_quantised(copied, made, unit, net.T)
    result = Network(layers, net.config)
    result.input_mean, result.input_std = net.input_mean.double(), net.input_std.double()
    return result.eval()


def take_quantised(layer: Spiking, made: dict[str, Any], unit: Tensor, T: int) -> None:
    """Put the engine's whole numbers into a layer in float64."""
    synapse, window = layer.synapse, made["most"]
    whole = torch.from_numpy(made["weight"]).double().view_as(synapse.weight)
    if made["tau"]:
        synapse.weight.data = whole * (unit * window).view(-1, *[1] * (whole.dim() - 1))
        return
    synapse.weight.data = whole
    steps = torch.round(torch.from_numpy(made["bias"]).double() / unit)
    if synapse.bias is not None:
        synapse.bias.data = steps / window
    # Half a unit below the whole number that decides, so that no rounding of an average can matter.
    count = torch.arange(1, T + 1, dtype=torch.float64)[:, None]
    threshold = (torch.from_numpy(made["theta"]).double() + count * steps - 0.5) / window
    layer.neuron = AMOS(Neuron(learn_threshold="channel-step"), len(whole), T).double()
    layer.neuron.threshold = nn.Parameter(threshold)
