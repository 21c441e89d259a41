"""Small networks of every kind that is exported, firing well, and input for them."""

from typing import Any

import torch
from torch import Tensor

from firstspike.models import Network, build
from firstspike.nn import AMOS, Neuron, Normalisation

STRONG = Normalisation(variance=3.0)

KINDS: dict[str, dict[str, Any]] = {
    "convolutions": {"architecture": "C6K5-P2-C8K3-P2-FC12-FC5"},
    "deep and padded": {"architecture": "{C6K3}*2-P2-C6K3-FC10-FC5"},
    "fully connected": {"architecture": "FC20-FC12-FC5"},
    "pooled input": {"architecture": "P2-C6K3-FC5"},
    "several channels": {
        "input_shape": (3, 12, 12),
        "input_mean": (0.2, 0.5, 0.4),
        "input_std": (0.3, 0.2, 0.5),
    },
    "standardised": {"input_mean": (0.28,), "input_std": (0.35,)},
    "latency": {"encoding": "latency"},
    "event frames": {"encoding": "frames", "input_shape": (2, 12, 12)},
    "leaky": {"neuron": Neuron(tau=2.0), "normalisation": Normalisation(variance=30.0)},
    "leaky, odd": {"neuron": Neuron(tau=1.7), "normalisation": Normalisation(variance=30.0)},
    "another threshold": {"neuron": Neuron(threshold=0.7)},
    "learned thresholds": {"neuron": Neuron(learn_threshold="channel")},
    "no bias": {"normalisation": Normalisation(variance=3.0, bias=False)},
    "batch normalisation": {"normalisation": Normalisation("batch", variance=3.0)},
    "dropout": {"dropout": 0.3},
    "one step": {"T": 1},
    "many steps": {"T": 40},
}

ONLY_ONNX: dict[str, dict[str, Any]] = {
    "thresholds for each step": {"neuron": Neuron(learn_threshold="channel-step")},
    "max pooling": {"pooling": "max"},
}


def small(kind: str) -> Network:
    """A network of a kind, with biases and learned thresholds drawn at random."""
    options = {**KINDS, **ONLY_ONNX}[kind]
    defaults = {
        "architecture": "C6K5-P2-FC12-FC5",
        "input_shape": (1, 12, 12),
        "T": 6,
        "normalisation": STRONG,
    }
    net = build(**{**defaults, **options})
    for name, parameter in net.named_parameters():
        if name.endswith("bias"):
            parameter.data.uniform_(-0.3, 0.4)
        if name.endswith("threshold"):
            parameter.data.uniform_(0.5, 2.0)
    for name, buffer in net.named_buffers():
        if "running" in name:
            buffer.data.uniform_(0.3, 1.0)
    return net.eval()


def images(net: Network, batch: int = 16) -> Tensor:
    if net.config.encoding == "frames":
        return torch.poisson(torch.rand(net.T, batch, *net.config.input_shape))
    return torch.rand(batch, *net.config.input_shape)


def neurons(net: Network) -> list[AMOS]:
    return [module for module in net.modules() if isinstance(module, AMOS)]
