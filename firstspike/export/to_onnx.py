"""To ONNX: the network as one time step, and as all of its T steps.

Both are built operator by operator, in the order in which `functional.amos` computes: H + (W spikes + bias), compared
with the threshold, so that a runtime that rounds like IEEE 754 gives the same spikes.
"""

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from firstspike.export.onnx_graph import OPSET, Graph, Shape
from firstspike.export.plain import Layer, Neurons, Pool, plain_layers
from firstspike.models import Network, NetworkConfig

if TYPE_CHECKING:
    import onnx


def step_model(net: Network) -> "onnx.ModelProto":
    """One time step: `(input, state...) -> (spikes, state...)`, for any batch size.

    `input [batch, ...]` is the raw image under direct encoding (the graph standardises it), else the step's spikes or
    event frame. The state of layer L is `L.membrane` (float32) and `L.fired` (bool), both zero before the first step,
    handed out as `L.membrane.next` and `L.fired.next`; where thresholds vary over the steps there is also `step`
    (int64, from 0). `spikes [batch, classes]` are those of the output.
    """
    graph, config = Graph(), net.config
    spikes = _standardised(graph, graph.input("input", "FLOAT", ("batch", *config.input_shape)), config)
    layers = plain_layers(net)
    by_step = any(isinstance(layer, Neurons) and layer.threshold.ndim == 2 for layer in layers)
    step = graph.input("step", "INT64", ()) if by_step else ""
    for layer in layers:
        if isinstance(layer, Pool):
            spikes = _pooled(graph, layer, spikes)
            continue
        shape: Shape = ("batch", *layer.shape)
        membrane = graph.input(f"{layer.name}.membrane", "FLOAT", shape)
        fired = graph.input(f"{layer.name}.fired", "BOOL", shape)
        threshold = _threshold(graph, layer)
        if layer.threshold.ndim == 2:
            threshold = graph("Gather", threshold, step, axis=0)
        membrane = _charged(graph, layer, membrane, _current(graph, layer, spikes))
        above = graph("GreaterOrEqual", membrane, threshold)
        spikes = graph.cast(graph("And", above, graph("Not", fired)), "FLOAT")
        graph.output(membrane, f"{layer.name}.membrane.next", "FLOAT", shape)
        graph.output(graph("Or", fired, above), f"{layer.name}.fired.next", "BOOL", shape)
    if by_step:
        graph.output(graph("Add", step, graph.constant("one", 1, np.int64)), "step.next", "INT64", ())
    graph.output(spikes, "spikes", "FLOAT", shape)
    return graph.model("step", about(config, layers), "One time step of a time-to-first-spike network")


def whole_model(net: Network) -> "onnx.ModelProto":
    """All T steps: `input -> (spike_times, steps, class_strict, class_potential)`, for any batch size.

    `input` is `[batch, channels, height, width]` (pixels in [0, 1]; the graph standardises and encodes them), or
    event frames `[T, batch, channels, height, width]`. `spike_times [batch, classes]` is uint8, T = silent;
    `steps [batch]` is the number of steps until the answer; the two classes are those of `functional.predict`.
    """
    graph, config, T = Graph(), net.config, net.T
    lead: tuple[int | str, ...] = (T, "batch") if config.encoding == "frames" else ("batch",)
    spikes = _encoded(graph, graph.input("input", "FLOAT", (*lead, *config.input_shape)), config)
    layers, constant = plain_layers(net), config.encoding == "direct"
    for layer in layers:  # spikes: [T * batch, ...], or [batch, ...] while the input is constant
        if isinstance(layer, Pool):
            spikes = _pooled(graph, layer, spikes)
            continue
        current = _current(graph, layer, spikes)
        frames = [current] * T if constant else _steps(graph, current, layer.shape, T)
        membranes, fired = _scan(graph, layer, frames)
        spikes = _spikes(graph, fired)
        constant = False
    classes: Shape = ("batch", *layers[-1].shape)
    times, first = _spike_times(graph, fired)
    graph.output(graph.cast(times, "UINT8"), "spike_times", "UINT8", classes)
    last = graph.constant("last", T - 1, np.int32)
    steps = graph("Add", graph("Min", first, last), graph.constant("one", 1, np.int32))
    graph.output(graph.cast(_flat(graph, steps), "INT64"), "steps", "INT64", ("batch",))
    graph.output(graph("ArgMin", times, axis=1, keepdims=0), "class_strict", "INT64", ("batch",))
    decisive = _decisive(graph, membranes, times, first)
    graph.output(graph("ArgMax", decisive, axis=1, keepdims=0), "class_potential", "INT64", ("batch",))
    return graph.model("network", about(config, layers), "A time-to-first-spike network, all steps")


def about(config: NetworkConfig, layers: list[Layer]) -> dict[str, Any]:
    """What the model is, for its metadata."""
    return {
        "T": config.T,
        "encoding": config.encoding,
        "input_mean": list(config.input_mean),
        "input_std": list(config.input_std),
        "threshold": config.neuron.threshold if config.neuron.learn_threshold == "fixed" else "learned",
        "tau": config.neuron.tau,
        "architecture": config.architecture,
        "classes": layers[-1].shape[0],
        "opset": OPSET,
    }


def _standardised(graph: Graph, images: str, config: NetworkConfig) -> str:
    if not config.standardises:
        return images
    shape = (-1, *[1] * (len(config.input_shape) - 1))
    mean = graph.constant("input_mean", np.reshape(config.input_mean, shape), np.float32)
    std = graph.constant("input_std", np.reshape(config.input_std, shape), np.float32)
    return graph("Div", graph("Sub", images, mean), std)


def _encoded(graph: Graph, images: str, config: NetworkConfig) -> str:
    """The network's input `[T * batch, ...]`, or `[batch, ...]` where it is the same at every step."""
    images = _standardised(graph, images, config)
    if config.encoding == "direct":
        return images
    if config.encoding == "latency":
        one = graph.constant("bright", 1, np.float32)
        last = graph.constant("darkest", config.T - 1, np.float32)
        times = graph("Round", graph("Mul", graph("Sub", one, images), last))
        numbers = [graph.constant(f"step_{t}", t, np.float32) for t in range(config.T)]
        return graph("Concat", *(graph.cast(graph("Equal", times, t), "FLOAT") for t in numbers), axis=0)
    merged = graph.constant("input_shape", (-1, *config.input_shape), np.int64)
    return graph("Reshape", images, merged)


def _pooled(graph: Graph, layer: Pool, spikes: str) -> str:
    operator = "AveragePool" if layer.kind == "average" else "MaxPool"
    window = [layer.size, layer.size]
    return graph(operator, spikes, kernel_shape=window, strides=window)


def _current(graph: Graph, layer: Neurons, spikes: str) -> str:
    """W spikes + bias, for as many frames as there are."""
    weight = graph.constant(f"{layer.name}.weight", layer.weight, np.float32)
    bias = graph.constant(f"{layer.name}.bias", _channels(layer, layer.bias), np.float32)
    if layer.is_conv:
        return graph("Add", graph("Conv", spikes, weight, pads=[layer.padding] * 4), bias)
    flat = graph("Flatten", spikes, axis=1) if len(layer.inputs) > 1 else spikes
    return graph("Add", graph("Gemm", flat, weight, transB=1), bias)


def _channels(layer: Neurons, values: Any) -> Any:
    """`[..., C]` so that C meets the channels of `[batch, C, ...]`."""
    return np.reshape(values, (*np.shape(values), *[1] * (len(layer.shape) - 1)))


def _threshold(graph: Graph, layer: Neurons, t: int | None = None) -> str:
    """The threshold: of step `t`, where it varies and a step is given."""
    values, name = layer.threshold, f"{layer.name}.threshold"
    if t is not None and values.ndim == 2:
        values, name = values[t], f"{name}.{t}"
    return graph.constant(name, _channels(layer, values), np.float32)


def _charged(graph: Graph, layer: Neurons, membrane: str, current: str) -> str:
    """f(H, X): see `functional.integrate`."""
    if layer.tau is None:
        return graph("Add", membrane, current)
    tau = graph.constant(f"{layer.name}.tau", layer.tau, np.float32)
    return graph("Add", membrane, graph("Div", graph("Sub", current, membrane), tau))


def _steps(graph: Graph, frames: str, shape: tuple[int, ...], T: int) -> list[str]:
    """`[T * batch, ...]` as T times `[batch, ...]`."""
    by_time = graph("Reshape", frames, graph.constant(f"by_time_{shape}", (T, -1, *shape), np.int64))
    axis = graph.constant("time_axis", [0], np.int64)
    if T == 1:
        return [graph("Squeeze", by_time, axis)]
    return [graph("Squeeze", step, axis) for step in graph.many("Split", T, by_time, axis=0)]


def _scan(graph: Graph, layer: Neurons, frames: list[str]) -> tuple[list[str], list[str]]:
    """The membrane after each step, and whether the neuron has fired by then."""
    membrane = graph.constant("rest", 0, np.float32)
    membranes: list[str] = []
    fired: list[str] = []
    for t, frame in enumerate(frames):
        membrane = _charged(graph, layer, membrane, frame)
        above = graph("GreaterOrEqual", membrane, _threshold(graph, layer, t))
        membranes.append(membrane)
        fired.append(graph("Or", fired[-1], above) if fired else above)
    return membranes, fired


def _spikes(graph: Graph, fired: list[str]) -> str:
    """Spikes `[T * batch, ...]` of neurons that have fired by each step: the steps at which that became true."""
    changes = [fired[0], *(graph("Xor", before, now) for before, now in pairwise(fired))]
    return graph("Concat", *(graph.cast(change, "FLOAT") for change in changes), axis=0)


def _spike_times(graph: Graph, fired: list[str]) -> tuple[str, str]:
    """Times `[batch, classes]`, T less the steps at which it had fired; and the first of them `[batch, 1]`."""
    times = graph.constant("T", len(fired), np.int32)
    for flags in fired:
        times = graph("Sub", times, graph.cast(flags, "INT32"))
    return times, graph("ReduceMin", times, axes=[1], keepdims=1)


def _decisive(graph: Graph, membranes: list[str], times: str, first: str) -> str:
    """Membranes `[batch, classes]` at the first spike, or at the end of silence; -inf for classes that fire later."""
    decisive = membranes[-1]
    for t, membrane in enumerate(membranes[:-1]):
        now = graph("Equal", first, graph.constant(f"at_{t}", t, np.int32))
        decisive = graph("Where", now, membrane, decisive)
    never = graph.constant("never", -np.inf, np.float32)
    return graph("Where", graph("Equal", times, first), decisive, never)


def _flat(graph: Graph, column: str) -> str:
    """`[batch, 1]` as `[batch]`."""
    return graph("Squeeze", column, graph.constant("class_axis", [1], np.int64))
