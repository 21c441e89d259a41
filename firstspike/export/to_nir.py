"""To NIR, the neuromorphic intermediate representation.

NIR has no neuron that fires only once: ours becomes an `IF` (or `LIF`) whose reset lies so low that it cannot fire
again within T steps (see `reset`). NIR fires where v > v_threshold and we where H >= V: v_threshold is the float32
just below V, which is the same condition for every float32.
"""

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from firstspike.errors import FirstspikeError
from firstspike.export.needs import need
from firstspike.export.plain import Array, Layer, Neurons, Pool, plain_layers
from firstspike.export.reset import SPIKES, input_range, once_only_reset
from firstspike.models import Network, NetworkConfig

if TYPE_CHECKING:
    import nir

FORMAT = 1
"""Of our metadata; raised when older readers would misread it."""


def to_nir(net: Network) -> "nir.NIRGraph":
    """The fused network as a NIR graph, for one time step and without a batch axis.

    At every step the graph takes what `net.encode` makes of the input: under direct encoding the standardised image
    `(x - input_mean) / input_std` again and again, else the step's spikes or frame. Time is counted in steps:
    dt = 1. What a tool has to know beyond the graph is in its metadata.
    """
    nir = need("nir", "nir")
    config = net.config
    nodes: dict[str, Any] = {"input": nir.Input(np.array(config.input_shape))}
    inputs = input_range(config)
    for number, layer in enumerate(layers := plain_layers(net), start=1):
        nodes |= _nodes(nir, layer, number)
        if isinstance(layer, Neurons):
            nodes[f"neuron_{number}"] = _neuron(nir, layer, once_only_reset(layer, inputs, config.T))
            inputs = SPIKES
    nodes["output"] = nir.Output(np.array(layers[-1].shape))
    return nir.NIRGraph(nodes, list(pairwise(nodes)), metadata(config, layers))


def metadata(config: NetworkConfig, layers: list[Layer]) -> dict[str, Any]:
    """What a tool must know beyond the graph to run it as we do, in values that HDF5 holds."""
    from firstspike import __version__

    thresholds = np.unique(
        np.concatenate([layer.threshold for layer in layers if isinstance(layer, Neurons)])
    )
    return {
        "made_by": f"firstspike {__version__}",
        "format": FORMAT,
        "T": config.T,
        "dt": 1.0,
        "threshold": float(thresholds[0]) if len(thresholds) == 1 else "per channel",
        "fires": "v >= threshold, at most once in T steps",
        "encoding": config.encoding,
        "input_mean": np.array(config.input_mean),
        "input_std": np.array(config.input_std),
        "classes": layers[-1].shape[0],
        "decoding": "the class that spikes first",
    }


def _nodes(nir: Any, layer: Layer, number: int) -> dict[str, Any]:
    """The nodes of a layer's linear part."""
    if isinstance(layer, Pool):
        if layer.kind == "max":
            raise FirstspikeError(
                f"Layer {layer.name} is max pooling, which NIR does not have: export to ONNX."
            )
        window = np.array([layer.size, layer.size])
        return {f"pool_{number}": nir.AvgPool2d(kernel_size=window, stride=window, padding=np.zeros(2, int))}
    if layer.is_conv:
        return {
            f"conv_{number}": nir.Conv2d(
                input_shape=layer.inputs[1:],
                weight=layer.weight,
                stride=1,
                padding=layer.padding,
                dilation=1,
                groups=1,
                bias=layer.bias,
            )
        }
    linear = {f"linear_{number}": nir.Affine(weight=layer.weight, bias=layer.bias)}
    if len(layer.inputs) == 1:
        return linear
    flatten = nir.Flatten(input_type={"input": np.array(layer.inputs)}, start_dim=0, end_dim=-1)
    return {f"flatten_{number}": flatten, **linear}


def _neuron(nir: Any, layer: Neurons, reset: float) -> Any:
    if layer.threshold.ndim == 2:
        raise FirstspikeError(
            f"Layer {layer.name} has a threshold for every step, which NIR does not have: export to ONNX."
        )
    below = np.nextafter(layer.threshold, np.float32(-np.inf))

    def everywhere(values: Array | float) -> Array:
        column = np.float32(values).reshape(-1, *[1] * (len(layer.shape) - 1))
        return np.broadcast_to(column, layer.shape).copy()

    common = {"r": everywhere(1.0), "v_threshold": everywhere(below), "v_reset": everywhere(reset)}
    if layer.tau is None:
        return nir.IF(**common)
    return nir.LIF(tau=everywhere(layer.tau), v_leak=everywhere(0.0), **common)
