"""A fused network in the terms of the native core: layers of neurons with the pooling folded in."""

import math
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from firstspike.errors import FirstspikeError
from firstspike.inference.quantise import Calibration, quantise
from firstspike.models import Network
from firstspike.nn import AvgPool2d, Conv2d, Dropout, Linear, MaxPool2d, Readout, Spiking

Weights = Literal["float32", "int8", "int8-all"]


class UnsupportedError(FirstspikeError):
    """A network that the engine cannot run, and the reference can."""


class Pools(NamedTuple):
    """The pooling between two layers of neurons."""

    sizes: tuple[int, ...] = ()
    largest: bool = False
    """Max pooling rather than average."""

    @property
    def window(self) -> int:
        return math.prod(size * size for size in self.sizes)

    def coarse(self, length: int) -> tuple[np.ndarray, int]:
        """Where each of `length` rows (or columns) lands, -1 for those pooling drops; and how many there are."""
        place = np.arange(length, dtype=np.int32)
        for size in self.sizes:
            length //= size
            place = np.where(place < 0, -1, place // size)
            place[place >= length] = -1
        return place.astype(np.int32), length


@dataclass
class Plan:
    """What the native core is given."""

    layers: list[dict[str, Any]] = field(default_factory=list)
    """See LayerSpec in native/src/engine.hpp."""
    names: list[str] = field(default_factory=list)
    units: list[Tensor | None] = field(default_factory=list)
    """float64 `[out]`, for int8 layers: what one step of the integer sum is worth."""
    input_shape: tuple[int, int, int] = (1, 1, 1)
    input_pools: Pools = field(default_factory=Pools)
    """Pooling in front of all neurons, left to the caller."""


def make_plan(net: Network, encoding: str, weights: Weights, calibration: Calibration | None = None) -> Plan:
    """The plan of a fused network in float32; `UnsupportedError` where the core cannot run it."""
    check_supported(net)
    shape = net.config.input_shape
    if len(shape) not in (1, 3):
        raise UnsupportedError(f"The engine takes images (channels, height, width), not {shape}.")
    channels, height, width = shape if len(shape) == 3 else (shape[0], 1, 1)
    plan, pools = Plan(), Pools()
    for name, layer in zip(net.names, net.layers, strict=True):
        if isinstance(layer, AvgPool2d):
            pools = joined(pools, layer)
        if not isinstance(layer, Spiking):
            continue
        rows, height = pools.coarse(height)
        columns, width = pools.coarse(width)
        first = not plan.layers
        if first:
            if pools.sizes and (pools.largest or encoding == "latency"):
                raise UnsupportedError(
                    "The engine knows only average pooling of images before the first layer."
                )
            plan.input_pools, plan.input_shape = pools, (channels, height, width)
        else:
            plan.layers[-1] |= {"to_row": rows, "to_col": columns, "saturate": pools.largest}
        analog = first and encoding != "latency"
        made, unit = describe(
            layer,
            (channels, height, width),
            Pools() if first else pools,
            net.T,
            not analog
            and (weights == "int8-all" or (weights == "int8" and isinstance(layer.synapse, Linear))),
            constant=first and encoding == "direct",
            importance=None if calibration is None else calibration[name],
        )
        plan.layers.append(made)
        plan.names.append(name)
        plan.units.append(unit)
        channels, pools = made["outputs"], Pools()
        height, width = made.pop("out")
    return plan


def check_supported(net: Network) -> None:
    """Refuse what the core cannot compute as the network would."""
    for name, layer in zip(net.names, net.layers, strict=True):
        known = type(layer) in (AvgPool2d, MaxPool2d, Dropout, Spiking, Readout)
        if not known or (isinstance(layer, Spiking) and type(layer.synapse) not in (Conv2d, Linear)):
            raise UnsupportedError(f"The engine does not know layer {name}: only firstspike's own layers.")
    tensors = [*net.parameters(), *net.buffers()]
    if any(tensor.dtype != torch.float32 or tensor.device.type != "cpu" for tensor in tensors):
        raise UnsupportedError("The engine runs networks in float32 on the CPU: net.float().cpu().")
    if net.compute_dtype not in (None, torch.float32):
        raise UnsupportedError("The engine computes in float32: set net.compute_dtype = None.")
    for name, tensor in net.named_parameters():
        if not bool(torch.isfinite(tensor).all()):
            raise FirstspikeError(f"The network's {name} has NaN or infinite values: it cannot answer.")


def joined(pools: Pools, layer: AvgPool2d) -> Pools:
    """Several pools in a row as one."""
    largest = isinstance(layer, MaxPool2d)
    if pools.sizes and pools.largest != largest:
        raise UnsupportedError("The engine does not mix average and max pooling between two layers.")
    return Pools((*pools.sizes, layer.size), largest)


def describe(
    layer: Spiking,
    shape: tuple[int, int, int],
    pools: Pools,
    T: int,
    int8: bool,
    constant: bool,
    importance: Tensor | None,
) -> tuple[dict[str, Any], Tensor | None]:
    """One layer of neurons as the core takes it, its output size under `out`; and the unit of its int8 sums.

    An integrate-and-fire neuron fires when the sum of its weighted spikes reaches theta[t] = V[t] - (t + 1) bias,
    so its bias costs nothing. For a constant current X (`constant`) that is X >= V[t] / (t + 1) - bias.
    """
    synapse, neuron = layer.synapse, layer.neuron
    channels, height, width = shape
    outputs = synapse.weight.shape[0]
    kernel = synapse.weight.shape[2] if isinstance(synapse, Conv2d) else 0
    padding = synapse.padding if isinstance(synapse, Conv2d) else 0
    share = 1.0 if pools.largest else 1.0 / pools.window
    weight = synapse.weight.detach().double()
    bias = torch.zeros(outputs).double() if synapse.bias is None else synapse.bias.detach().double()
    threshold = thresholds(neuron, T, outputs)
    tau = neuron.neuron.tau
    count = torch.arange(1, T + 1, dtype=torch.float64)[:, None]
    unit: Tensor | None = None
    if int8:
        weight, scale = quantise(weight, importance)
        unit = scale * share
    else:
        weight = weight * share
    if tau is not None:
        theta = threshold
    elif unit is not None:
        steps = torch.round(bias / unit)
        bias = steps * unit
        theta = (torch.ceil(threshold / unit) - count * steps).clamp(-(2**30), 2**30)
    else:
        theta = threshold / count - bias if constant else threshold - count * bias
    made = {
        "channels": channels,
        "height": height,
        "width": width,
        "outputs": outputs,
        "kernel": kernel,
        "padding": padding,
        "int8": int8,
        "weight": _array(weight.reshape(outputs, -1), np.int8 if int8 else np.float32),
        "theta": _array(theta, np.int32 if int8 and tau is None else np.float32),
        "bias": _array(bias, np.float32),
        "unit": _array(torch.ones_like(bias) if unit is None else unit, np.float32),
        "tau": 0.0 if tau is None else float(tau),
        "most": 1 if pools.largest else pools.window,
        "saturate": False,
        "to_row": np.zeros(0, np.int32),
        "to_col": np.zeros(0, np.int32),
        "out": (height + 2 * padding - kernel + 1, width + 2 * padding - kernel + 1) if kernel else (1, 1),
    }
    return made, unit


def thresholds(neuron: nn.Module, T: int, outputs: int) -> Tensor:
    """Every channel's threshold at every step, float64 `[T, out]`."""
    threshold = neuron.threshold
    if not isinstance(threshold, Tensor):
        return torch.full((T, outputs), float(threshold), dtype=torch.float64)  # type: ignore[arg-type]
    return threshold.detach().double().expand(T, outputs)


def _array(values: Tensor, kind: Any) -> np.ndarray:
    return np.ascontiguousarray(values.numpy().astype(kind))
