"""A NIR graph as the chain of layers that our grammar has, or a refusal that names the node."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from firstspike.errors import FirstspikeError
from firstspike.export.plain import Array, Neurons, Shape
from firstspike.models.build import next_shape
from firstspike.models.grammar import Conv, Dense, Pool, Token

if TYPE_CHECKING:
    import nir

Link = tuple[Token, Neurons | None, NDArray[np.float64]]
"""A layer in the words of the grammar, its neurons (none for a pool) and what they reset to `[out]`."""

_TAKEN = "Conv2d, Linear, Affine, IF, LIF, AvgPool2d and Flatten"


def refuse(name: str, why: str) -> NoReturn:
    raise FirstspikeError(f"The NIR node {name!r} {why}.")


def chain(graph: "nir.NIRGraph") -> list[Link]:
    """The layers between input and output, every shape and setting checked."""
    try:
        return list(_links(graph))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise FirstspikeError(f"This NIR graph is damaged: {type(error).__name__}, {error}.") from error


def _links(graph: "nir.NIRGraph") -> Iterator[Link]:
    names = _order(graph)
    shape: Shape = tuple(map(int, graph.nodes[names[0]].input_type["input"]))
    if not 1 <= len(shape) <= 3 or min(shape) < 1:
        refuse(names[0], f"takes input of shape {list(shape)}; expected (channels, height, width)")
    waiting: list[str] = names[1:-1]
    while waiting:
        name = waiting.pop(0)
        node, kind = graph.nodes[name], type(graph.nodes[name]).__name__
        if kind == "Flatten":
            _check_flatten(name, node, shape)
            if not waiting or type(graph.nodes[waiting[0]]).__name__ not in ("Affine", "Linear"):
                refuse(name, "is not followed by a Linear or Affine node")
            shape = (int(np.prod(shape)),)
            continue
        if kind == "AvgPool2d":
            token: Token = _pool(name, node)
            shape = next_shape(shape, token)
            yield token, None, np.zeros(0)
            continue
        if kind not in ("Conv2d", "Affine", "Linear"):
            refuse(name, f"is a {kind}, which our networks do not have here (they are made of {_TAKEN})")
        if not waiting or type(graph.nodes[waiting[0]]).__name__ not in ("IF", "LIF"):
            refuse(name, "is not followed by IF or LIF neurons")
        token, weight = _conv(name, node, shape) if kind == "Conv2d" else _dense(name, node, shape)
        inputs, shape = shape, next_shape(shape, token)
        behind = waiting.pop(0)
        padding = token.padding if isinstance(token, Conv) else 0
        yield (
            token,
            *_neurons(
                behind, graph.nodes[behind], _bias(name, node, len(weight)), weight, padding, inputs, shape
            ),
        )
    if not isinstance(token, Dense):
        refuse(names[-2], "is the last layer, which must be fully connected")
    if tuple(graph.nodes[names[-1]].output_type["output"]) != shape:
        refuse(names[-1], f"does not have the shape {list(shape)} of the last layer")


def _order(graph: "nir.NIRGraph") -> list[str]:
    """The names of the nodes from input to output; anything but one straight line is refused."""
    if len(graph.inputs) != 1 or len(graph.outputs) != 1:
        raise FirstspikeError(
            f"This NIR graph has {len(graph.inputs)} inputs and {len(graph.outputs)} outputs; expected one of each."
        )
    (name,), (last,) = graph.inputs, graph.outputs
    after: dict[str, list[str]] = {}
    for source, target in graph.edges:
        after.setdefault(source, []).append(target)
    names = [name]
    while name != last:
        following = after.get(name, [])
        if len(following) != 1:
            refuse(name, f"leads to {len(following)} nodes; our networks are one chain of layers")
        name = following[0]
        if name in names:
            refuse(name, "feeds back on itself, but our networks are feed-forward")
        names.append(name)
    for other in graph.nodes.keys() - set(names):
        refuse(other, "is not on the way from input to output")
    if len(graph.edges) != len(names) - 1:
        refuse(last, "has edges beside the one chain from input to output")
    if len(names) < 4:
        raise FirstspikeError("This NIR graph has no layer of neurons.")
    return names


def _check_flatten(name: str, node: Any, shape: Shape) -> None:
    if (int(node.start_dim), int(node.end_dim)) not in ((0, -1), (0, len(shape) - 1)):
        refuse(
            name,
            f"flattens axes {node.start_dim} to {node.end_dim}; expected 0 to -1, all of them (NIR has no batch)",
        )


def _pool(name: str, node: Any) -> Pool:
    size = np.unique(node.kernel_size)
    if len(size) != 1 or np.any(np.asarray(node.stride) != size) or np.any(np.asarray(node.padding) != 0):
        refuse(
            name,
            f"pools {_text(node.kernel_size)} with stride {_text(node.stride)} and padding {_text(node.padding)}; "
            "expected square windows side by side",
        )
    return Pool(int(size[0]))


def _conv(name: str, node: Any, shape: Shape) -> tuple[Conv, Array]:
    weight = _finite(name, node.weight, "weight")
    if (
        weight.ndim != 4
        or weight.shape[2] != weight.shape[3]
        or len(shape) != 3
        or weight.shape[1] != shape[0]
    ):
        refuse(
            name, f"has a weight of shape {list(weight.shape)}, which does not fit its input {list(shape)}"
        )
    token = Conv(weight.shape[0], weight.shape[2])
    padding = node.padding
    if isinstance(padding, str):
        padding = 0 if padding == "valid" else (weight.shape[2] - 1) // 2
    for what, value, expected in (
        ("stride", node.stride, 1),
        ("dilation", node.dilation, 1),
        ("groups", node.groups, 1),
        ("padding", padding, token.padding),
    ):
        if np.any(np.asarray(value) != expected):
            refuse(name, f"has {what} {_text(value)}; a {token} of ours has {what} {expected}")
    return token, weight


def _dense(name: str, node: Any, shape: Shape) -> tuple[Dense, Array]:
    weight = _finite(name, node.weight, "weight")
    if weight.ndim != 2 or len(shape) != 1 or weight.shape[1] != shape[0]:
        refuse(
            name, f"has a weight of shape {list(weight.shape)}, which does not fit its input {list(shape)}"
        )
    return Dense(weight.shape[0]), weight


def _bias(name: str, node: Any, channels: int) -> Array:
    if type(node).__name__ == "Linear":
        return np.zeros(channels, np.float32)
    bias = _finite(name, node.bias, "bias")
    if bias.shape != (channels,):
        refuse(name, f"has a bias of shape {list(bias.shape)}; expected [{channels}]")
    return bias


def _neurons(
    name: str, node: Any, bias: Array, weight: Array, padding: int, inputs: Shape, shape: Shape
) -> tuple[Neurons, NDArray[np.float64]]:
    """A layer, and the potential that its channels reset to."""
    for what, expected in (("r", 1.0), ("v_leak", 0.0)):
        if hasattr(node, what) and np.any(np.asarray(getattr(node, what)) != expected):
            refuse(name, f"has a {what} other than {expected:g}, which our neurons do not have")
    threshold = _per_channel(name, node.v_threshold, "v_threshold", shape)
    tau = None
    if type(node).__name__ == "LIF":
        taus = np.unique(_per_channel(name, node.tau, "tau", shape))
        if len(taus) != 1 or taus[0] < 1:
            refuse(
                name, "has time constants that differ or are under 1 step; ours have one, of at least 1 step"
            )
        tau = float(taus[0])
    reset = _per_channel(name, node.v_reset, "v_reset", shape).astype(np.float64)
    above = np.nextafter(threshold, np.float32(np.inf))
    return Neurons(name, inputs, shape, weight, bias, padding, above, tau), reset


def _per_channel(name: str, values: Any, what: str, shape: Shape) -> Array:
    """A parameter of every neuron as one of every channel `[out]`."""
    array = _finite(name, values, what)
    if array.shape != shape:
        refuse(name, f"has a {what} of shape {list(array.shape)}, but {list(shape)} neurons")
    flat = array.reshape(shape[0], -1)
    if np.any(flat != flat[:, :1]):
        refuse(name, f"has a {what} that differs within a channel; ours is one a channel")
    return np.ascontiguousarray(flat[:, 0])


def _finite(name: str, values: Any, what: str) -> Array:
    array = np.asarray(values)
    if array.dtype.kind not in "fiu" or not np.isfinite(array).all():
        refuse(name, f"has a {what} that is not made of finite numbers")
    return array.astype(np.float32)


def _text(value: Any) -> str:
    return " x ".join(map(str, np.asarray(value).ravel()))
