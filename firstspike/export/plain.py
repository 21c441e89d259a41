"""A network as what every other tool knows: weights, biases, thresholds and pools, one after the other."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from firstspike.errors import FirstspikeError
from firstspike.models import Network, Pooling
from firstspike.nn import AvgPool2d, Conv2d, Dropout, MaxPool2d, Spiking
from firstspike.nn.synapse import Linear

Array = NDArray[np.float32]
Shape = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Neurons:
    """Synapses and the neurons behind them: `H += W spikes + bias`, a spike where H first reaches the threshold."""

    name: str
    inputs: Shape
    """Shape of one input sample."""
    shape: Shape
    """Shape of one output sample."""
    weight: Array
    """`[out, in, k, k]` of a convolution with stride 1, or `[out, in]`."""
    bias: Array
    """`[out]`, added at every step."""
    padding: int
    threshold: Array
    """`[out]`, or `[T, out]` where it varies over the steps."""
    tau: float | None
    """Time constant of a leaky neuron in steps; None for IF."""

    @property
    def is_conv(self) -> bool:
        return self.weight.ndim == 4


@dataclass(frozen=True)
class Pool:
    """Pooling over n x n windows that do not overlap."""

    name: str
    inputs: Shape
    shape: Shape
    size: int
    kind: Pooling


Layer = Neurons | Pool


def plain_layers(net: Network) -> list[Layer]:
    """The fused network, layer by layer, in float32."""
    shape = net.config.input_shape
    layers: list[Layer] = []
    for name, module in zip(net.names, net.fuse().layers, strict=True):
        if isinstance(module, Dropout):
            continue  # at rest outside training
        layers.append(_layer(name, module, shape))
        shape = layers[-1].shape
    return layers


def _layer(name: str, module: nn.Module, inputs: Shape) -> Layer:
    match module:
        case Spiking(synapse=Conv2d() | Linear()):
            return _neurons(name, module, inputs)
        case AvgPool2d(size=size):
            kind: Pooling = "max" if isinstance(module, MaxPool2d) else "average"
            channels, height, width = inputs
            return Pool(name, inputs, (channels, height // size, width // size), size, kind)
    raise FirstspikeError(
        f"Layer {name} is a {type(module).__name__}, which cannot be exported: a network that leaves is made of "
        "Spiking and Readout layers with Conv2d or Linear synapses, AvgPool2d, MaxPool2d and Dropout."
    )


def _neurons(name: str, module: Spiking, inputs: Shape) -> Neurons:
    weight, bias = _array(module.synapse.weight, name), module.synapse.bias
    channels, padding = len(weight), 0
    shape: Shape = (channels,)
    if isinstance(module.synapse, Conv2d):
        padding = module.synapse.padding
        shape = (channels, *(side + 2 * padding - weight.shape[2] + 1 for side in inputs[1:]))
    threshold = module.neuron.threshold
    return Neurons(
        name=name,
        inputs=inputs,
        shape=shape,
        weight=weight,
        bias=np.zeros(channels, np.float32) if bias is None else _array(bias, name),
        padding=padding,
        threshold=_array(threshold, name)
        if isinstance(threshold, Tensor)
        else np.full(channels, threshold, np.float32),
        tau=module.neuron.neuron.tau,
    )


def _array(tensor: Tensor, name: str) -> Array:
    if tensor.dtype == torch.float64:
        raise FirstspikeError(
            f"Layer {name} is in float64, and exports are in float32: call net.float() first."
        )
    if not bool(torch.isfinite(tensor).all()):
        raise FirstspikeError(
            f"Layer {name} has values that are NaN or infinite: this network did not train."
        )
    array: Array = tensor.detach().float().cpu().contiguous().numpy()
    return array
