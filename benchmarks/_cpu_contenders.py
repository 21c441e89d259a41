"""One trained network, run on the CPU in every way that there is: ours, plain PyTorch, other frameworks, its twin.

All take images in [0, 1] and standardise them, all have the same fused weights. The ReLU twin has them too: its
answers mean nothing, its time is that of a conventional network of the same layers.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from _gpu import ROOT
from torch import Tensor, nn

from firstspike.inference import Engine
from firstspike.models import Network
from firstspike.nn import AvgPool2d, Conv2d, Spiking

sys.path.append(os.environ.get("FIRSTSPIKE_PEERS", str(ROOT / "carry" / "peers")))

Call = Callable[[Tensor], Any]


def engine(net: Network, weights: str, threads: int, calibration: Tensor) -> Call:
    made = Engine(net, weights, None if weights == "float32" else calibration, threads)  # type: ignore[arg-type]
    return lambda images: made(images).label


class Dense:
    """The fused network in plain PyTorch, dense and step by step; the first current is worked out once."""

    def __init__(self, net: Network, early: bool) -> None:
        fused = net.fuse()
        self.T, self.early, self.layers = net.T, early, list(fused.layers)
        self.mean, self.std = fused.input_mean, fused.input_std

    @torch.inference_mode()
    def __call__(self, images: Tensor) -> Tensor:
        source = (images - self.mean) / self.std
        first = self.layers[0].synapse
        constant = F.conv2d(source, first.weight, first.bias, padding=first.padding)
        state: list[Any] = [None] * len(self.layers)
        label = torch.full((len(images),), -1)
        waiting = torch.arange(len(images))
        for _ in range(self.T):
            spikes = constant
            for index, layer in enumerate(self.layers):
                if isinstance(layer, AvgPool2d):
                    spikes = F.avg_pool2d(spikes, layer.size)
                    continue
                current = constant if index == 0 else self.current(layer, spikes)
                spikes = self.fire(current, state, index)
            done = spikes.any(1)
            membrane = state[-1][0]
            answer = membrane.masked_fill(spikes == 0, -torch.inf).argmax(1)
            label[waiting] = torch.where((label[waiting] < 0) & done, answer, label[waiting])
            if self.early and done.any():
                left = ~done
                waiting = waiting[left]
                if not len(waiting):
                    return label
                constant = constant[left]
                state = [s and (s[0][left], s[1][left]) for s in state]
        silent = label[waiting] < 0
        label[waiting[silent]] = state[-1][0][silent].argmax(1)
        return label

    @staticmethod
    def current(layer: Spiking, spikes: Tensor) -> Tensor:
        synapse = layer.synapse
        if isinstance(synapse, Conv2d):
            return F.conv2d(spikes, synapse.weight, synapse.bias, padding=synapse.padding)
        return F.linear(spikes.flatten(1), synapse.weight, synapse.bias)

    @staticmethod
    def fire(current: Tensor, state: list[Any], index: int) -> Tensor:
        if state[index] is None:
            fired = current >= 1.0
            state[index] = (current, fired)
            return fired.float()
        membrane, before = state[index]
        membrane = membrane + current
        above = membrane >= 1.0
        state[index] = (membrane, above | before)
        return (above & ~before).float()


class Twin:
    """The same layers with ReLU units, run once."""

    def __init__(self, net: Network) -> None:
        fused = net.fuse()
        self.layers, self.mean, self.std = list(fused.layers), fused.input_mean, fused.input_std

    @torch.inference_mode()
    def __call__(self, images: Tensor) -> Tensor:
        activity = (images - self.mean) / self.std
        for layer in self.layers[:-1]:
            activity = (
                F.avg_pool2d(activity, layer.size)
                if isinstance(layer, AvgPool2d)
                else F.relu_(Dense.current(layer, activity))
            )
        return Dense.current(self.layers[-1], activity).argmax(1)


def onnx_twin(net: Network, path: Path) -> Path:
    """The twin as an ONNX file."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    fused = net.fuse()
    nodes, tensors = [], []

    def constant(name: str, value: Tensor) -> str:
        tensors.append(numpy_helper.from_array(value.detach().numpy(), name))
        return name

    nodes.append(helper.make_node("Sub", ["images", constant("mean", fused.input_mean[None])], ["centred"]))
    nodes.append(helper.make_node("Div", ["centred", constant("std", fused.input_std[None])], ["activity0"]))
    at, flat = "activity0", False
    for index, layer in enumerate(fused.layers):
        after = f"activity{index + 1}"
        if isinstance(layer, AvgPool2d):
            size = [layer.size, layer.size]
            nodes.append(helper.make_node("AveragePool", [at], [after], kernel_shape=size, strides=size))
            at = after
            continue
        synapse = layer.synapse
        given = [constant(f"weight{index}", synapse.weight), constant(f"bias{index}", synapse.bias)]
        last = index == len(fused.layers) - 1
        out = "logits" if last else f"current{index}"
        if isinstance(synapse, Conv2d):
            nodes.append(helper.make_node("Conv", [at, *given], [out], pads=[synapse.padding] * 4))
        else:
            if not flat:
                nodes.append(helper.make_node("Flatten", [at], [f"flat{index}"]))
                at, flat = f"flat{index}", True
            nodes.append(helper.make_node("Gemm", [at, *given], [out], transB=1))
        if not last:
            nodes.append(helper.make_node("Relu", [out], [after]))
        at = after
    images = helper.make_tensor_value_info("images", TensorProto.FLOAT, ["B", *net.config.input_shape])
    logits = helper.make_tensor_value_info(
        "logits", TensorProto.FLOAT, ["B", len(fused.readout.synapse.weight)]
    )
    graph = helper.make_graph(nodes, "twin", [images], [logits], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path


def onnx_int8(path: Path, calibration: Tensor) -> Path:
    """The twin statically quantised to int8, per channel, as ONNX Runtime's own tool does it."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.left = iter(np.split(calibration.numpy(), len(calibration)))

        def get_next(self) -> dict[str, np.ndarray] | None:
            image = next(self.left, None)
            return None if image is None else {"images": image}

    out = path.with_suffix(".int8.onnx")
    quantize_static(
        path,
        out,
        Reader(),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )
    return out


def onnx_session(path: Path, threads: int) -> Call:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda images: session.run(None, {"images": images.numpy()})[0]


def spikingjelly(net: Network) -> Call:
    """SpikingJelly's layers step by step for all T steps, reset before each batch."""
    from spikingjelly.activation_based import functional, layer, neuron

    fused = net.fuse()
    modules: list[nn.Module] = []
    for ours in fused.layers:
        if isinstance(ours, AvgPool2d):
            modules.append(layer.AvgPool2d(ours.size))
            continue
        weight = ours.synapse.weight
        if isinstance(ours.synapse, Conv2d):
            theirs = layer.Conv2d(
                weight.shape[1], weight.shape[0], weight.shape[2], padding=ours.synapse.padding
            )
        else:
            if not any(isinstance(module, layer.Flatten) for module in modules):
                modules.append(layer.Flatten())
            theirs = layer.Linear(weight.shape[1], weight.shape[0])
        theirs.weight, theirs.bias = ours.synapse.weight, ours.synapse.bias
        modules += [theirs, neuron.IFNode()]
    stack = nn.Sequential(*modules).eval()

    @torch.inference_mode()
    def call(images: Tensor) -> Tensor:
        functional.reset_net(stack)
        source = (images - fused.input_mean) / fused.input_std
        total = torch.zeros(())
        for _ in range(net.T):
            total = total + stack(source)
        return total.argmax(1)

    return call


def snntorch(net: Network) -> Call:
    """snnTorch's idiom: all layers once for each step, the neurons' state kept between steps."""
    import snntorch as snn

    fused = net.fuse()
    layers = list(fused.layers)
    neurons = [snn.Leaky(beta=1.0).eval() if isinstance(layer, Spiking) else None for layer in layers]

    @torch.inference_mode()
    def call(images: Tensor) -> Tensor:
        source = (images - fused.input_mean) / fused.input_std
        membranes = [neuron and neuron.init_leaky() for neuron in neurons]
        total = torch.zeros(())
        for _ in range(net.T):
            spikes = source
            for index, (layer, neuron) in enumerate(zip(layers, neurons, strict=True)):
                if neuron is None:
                    spikes = F.avg_pool2d(spikes, layer.size)
                else:
                    spikes, membranes[index] = neuron(Dense.current(layer, spikes), membranes[index])
            total = total + spikes
        return total.argmax(1)

    return call
