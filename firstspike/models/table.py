"""A network as a table, for people."""

from typing import TYPE_CHECKING

from torch import nn

from firstspike.functional.normalisation import fan_in
from firstspike.models.build import next_shape
from firstspike.models.grammar import Conv, Dense, Pool, Token
from firstspike.nn import AvgPool2d, Conv2d, Spiking

if TYPE_CHECKING:
    from firstspike.models.network import Network


def layer_table(net: "Network") -> str:
    """One line a layer: name, shape of its output, weights, and the synapses that one of its spikes drives.

    The fan-out is that of a neuron away from the image's border.
    """
    config = net.config
    rows = [("layer", "output", "weights", "fan-out")]
    rows.append(("input", _times(config.input_shape), "", _fan_out(net, -1)))
    shape, total = config.input_shape, 0
    for index, (name, layer) in enumerate(zip(net.names, net.layers, strict=True)):
        token = _token(layer)
        shape = shape if token is None else next_shape(shape, token)
        weights = layer.synapse.weight.numel() if isinstance(layer, Spiking) else 0
        total += weights
        rows.append((name, _times(shape), f"{weights:,}" if weights else "", _fan_out(net, index)))
    others = sum(p.numel() for p in net.parameters()) - total
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = [
        f"{row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]:>{widths[2]}}  {row[3]:>{widths[3]}}".rstrip()
        for row in rows
    ]
    head = f"{config.architecture}, T = {config.T}, {config.encoding} input"
    return "\n".join([head, *lines, f"{total:,} weights and {others:,} gains, biases and thresholds"])


def _token(layer: nn.Module) -> Token | None:
    if isinstance(layer, Spiking):
        weight = layer.synapse.weight
        return (
            Conv(weight.shape[0], weight.shape[2])
            if isinstance(layer.synapse, Conv2d)
            else Dense(weight.shape[0])
        )
    return Pool(layer.size) if isinstance(layer, AvgPool2d) else None


def _fan_out(net: "Network", index: int) -> str:
    """Synapses that one output value of layer `index` drives in the next layer of neurons."""
    layers = list(net.layers)
    if index >= 0 and not isinstance(layers[index], Spiking):
        return ""
    following = next((layer for layer in layers[index + 1 :] if isinstance(layer, Spiking)), None)
    if following is None:
        return ""
    weight = following.synapse.weight
    return f"{weight.shape[0] * fan_in(weight[:1, :1]):,}"


def _times(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
