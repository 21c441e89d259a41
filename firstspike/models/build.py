"""From an architecture to a network."""

import math
from typing import Any

from torch import nn

from firstspike.errors import FirstspikeError
from firstspike.models.config import NetworkConfig
from firstspike.models.grammar import Conv, Dense, Pool
from firstspike.models.network import Network
from firstspike.models.zoo import resolve
from firstspike.nn import AMOS, AvgPool2d, Conv2d, Dropout, Linear, MaxPool2d, Readout, Spiking


def build(architecture: str, input_shape: tuple[int, ...], T: int = 8, **options: Any) -> Network:
    """A fresh network: `build("SCNN5", input_shape=(1, 28, 28), T=8)`.

    `options` are the other fields of `NetworkConfig`: classes, encoding, neuron, normalisation, ...
    """
    unknown = set(options) - set(NetworkConfig.__dataclass_fields__)
    if unknown:
        known = ", ".join(list(NetworkConfig.__dataclass_fields__)[3:])
        raise FirstspikeError(f"Unknown network option {sorted(unknown)[0]!r}: choose from {known}.")
    return build_from(NetworkConfig(architecture, tuple(input_shape), T, **options))


def build_from(config: NetworkConfig) -> Network:
    """A fresh network as `config` says."""
    tokens = resolve(config.architecture, config.classes)
    pool = AvgPool2d if config.pooling == "average" else MaxPool2d
    layers: list[nn.Module] = []
    shape = config.input_shape
    for index, token in enumerate(tokens):
        given = shape
        shape = next_shape(shape, token)
        match token:
            case Conv():
                conv = Conv2d(
                    given[0], token.channels, token.kernel, config.T, config.normalisation, token.padding
                )
                layers.append(Spiking(conv, AMOS(config.neuron, token.channels, config.T)))
            case Pool():
                layers.append(pool(token.size))
            case Dense():
                last = index == len(tokens) - 1
                linear = Linear(math.prod(given), token.neurons, config.T, config.normalisation)
                fall = (config.fall, config.lift) if last else (0.0, 0.0)
                neurons = AMOS(config.neuron, token.neurons, config.T, *fall)
                layers.append((Readout if last else Spiking)(linear, neurons))
                if config.dropout and not last:
                    layers.append(Dropout(config.dropout))
    return Network(layers, config)


def next_shape(shape: tuple[int, ...], token: Conv | Pool | Dense) -> tuple[int, ...]:
    """The shape after a layer, for one sample; refuses a layer that does not fit."""
    if isinstance(token, Dense):
        return (token.neurons,)
    if len(shape) != 3:
        raise FirstspikeError(
            f"{token} needs images (channels, height, width), but its input has shape {shape}."
        )
    channels, height, width = shape
    if isinstance(token, Conv):
        shrink = token.kernel - 1 - 2 * token.padding
        after = (token.channels, height - shrink, width - shrink)
    else:
        after = (channels, height // token.size, width // token.size)
    if min(after) < 1:
        raise FirstspikeError(
            f"{token} does not fit: its input is {height} x {width}. Take a larger image, or fewer or "
            "smaller kernels and pools."
        )
    return after
