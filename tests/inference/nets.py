"""Networks of every kind that inference has to run, small enough for tests."""

import torch
from torch import Tensor

from firstspike.models import Network, build
from firstspike.nn import Neuron, Normalisation

CASES: list[dict] = [
    {},
    {"architecture": "FC20-FC12-FC5"},
    {"architecture": "FC16-FC5", "input_shape": (30,)},
    {"architecture": "C20K3-C40K3-P2-C24K5-FC30-FC10", "input_shape": (3, 14, 14)},
    {"architecture": "C6K5-P3-C9K3-P2-P2-FC7", "input_shape": (2, 30, 26)},
    {"architecture": "P2-C8K3-FC10", "input_shape": (1, 12, 12)},
    {"architecture": "C70K3-P2-FC150-FC10"},
    {"encoding": "latency"},
    {"encoding": "latency", "architecture": "FC20-FC10"},
    {"encoding": "frames"},
    {"encoding": "frames", "architecture": "P2-C8K3-FC10", "neuron": Neuron(tau=1.5, threshold=0.5)},
    {"T": 1, "normalisation": Normalisation(variance=30.0)},
    {"T": 20},
    {"neuron": Neuron(tau=1.8, threshold=0.5)},
    {"neuron": Neuron(learn_threshold="channel")},
    {"neuron": Neuron(learn_threshold="channel-step")},
    {"normalisation": Normalisation(kind="none", gain=False, bias=False, variance=6.0)},
    {"pooling": "max"},
    {"dropout": 0.4},
    {"input_mean": (0.4,), "input_std": (0.2,), "classes": 3},
]


def make(case: dict) -> Network:
    """A lively network: strong weights, biases and thresholds that are not where they began."""
    options = {
        "architecture": "C12K5-P2-C18K3-P2-FC20-FC10",
        "input_shape": (1, 14, 14),
        "T": 5,
        "normalisation": Normalisation(variance=4.0),
        **case,
    }
    net = build(**options)
    for key, parameter in net.named_parameters():
        if key.endswith("bias"):
            parameter.data.uniform_(-0.3, 0.4)
        if key.endswith("threshold"):
            parameter.data.mul_(torch.rand_like(parameter) + 0.5)
    return net.eval()


def inputs(net: Network, batch: int = 24) -> Tensor:
    """Random input that the network takes."""
    frames = net.config.encoding == "frames"
    values = torch.rand(*((net.T,) if frames else ()), batch, *net.config.input_shape)
    return (values * 3).floor() if frames else values
