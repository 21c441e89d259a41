"""The variance of the current at initialisation, layer by layer.

Over the draw of its weights (mean 0, variance s^2), the current of a neuron has at step t the variance
s^2 * sum_i S_i[t]^2. Averaged over the T steps this is s^2 / T * sum_i q_i, with q_i = sum_t S_i[t]^2. So
with N inputs in the neuron's field it is

    ETTFS-init   s^2 = v T / N      v * mean_i q_i
    Kaiming      s^2 = 1 / (3 N)    1 / (3 T) * mean_i q_i

and q_i = 1 for an input that spikes exactly once: latency-coded pixels and neurons that are forced. An average
over n x n spikes has q_i < 1, and zero padding brings inputs with q_i = 0; there the value is corrected by the
q that is measured. It is a statement about the draw, so the plain initialised weights are looked at, without
weight normalisation, whose centred channels are no longer independent draws.
"""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from firstspike.models import Network, build
from firstspike.nn import Conv2d, Normalisation, Spiking

EXACT = "C300K5-C300K5-FC600-FC500"
POOLED = "C300K3-P2-C300K3-P2-FC600-FC500"


def measure(net: Network, x: Tensor) -> list[tuple[str, Tensor, float]]:
    """Of each layer: its name, the mean square of the current per output channel, and the mean q of its field.

    The channels are independent draws of weights, so they also tell the sampling error.
    """
    rows = []
    spikes = net.encode(x)
    for name, layer in zip(net.names, net.layers, strict=True):
        if isinstance(layer, Spiking):
            current = layer.synapse(spikes)  # [T, B, C, ...]
            per_channel = current.square().transpose(0, 2).flatten(1).mean(1)
            q = spikes.square().sum(0)
            if isinstance(layer.synapse, Conv2d):
                ones = torch.ones_like(layer.synapse.weight[:1])
                q = F.conv2d(q, ones, padding=layer.synapse.padding) / ones.numel()
            rows.append((name, per_channel, q.mean().item()))
        out = layer(spikes)
        spikes = out if isinstance(out, Tensor) else out.spikes
    return rows


def network(spec: str, T: int, **norm: object) -> Network:
    net = build(
        spec,
        (2, 12, 12),
        T=T,
        encoding="latency",
        normalisation=Normalisation(kind="none", **norm),  # type: ignore[arg-type]
    )
    net.skip_last_frame = (
        False  # in training, so that every neuron fires, with the last frame there to be seen
    )
    return net


def assert_within_sampling_error(name: str, per_channel: Tensor, expected: float) -> None:
    error = (per_channel.std() / math.sqrt(len(per_channel))).item()
    assert error < 0.1 * expected, f"{name}: too few channels to tell"
    assert abs(per_channel.mean().item() - expected) < 4 * error, (
        f"{name}: {per_channel.mean():.3f}, not {expected:.3f}"
    )


@pytest.mark.parametrize("T", [1, 4, 8])
@pytest.mark.parametrize(
    ("norm", "target"),
    [
        ({"init": "ettfs"}, lambda T: 1.0),
        ({"init": "ettfs", "variance": 0.25}, lambda T: 0.25),
        ({"init": "kaiming"}, lambda T: 1 / (3 * T)),
    ],
    ids=["ettfs", "ettfs-quarter", "kaiming"],
)
@torch.no_grad()
def test_one_spike_inputs_give_the_target_variance_in_every_layer(norm: dict, target, T: int) -> None:
    """Kernels without padding and no pooling: the theory holds as it stands."""
    for name, per_channel, q in measure(network(EXACT, T, **norm), torch.rand(8, 2, 12, 12)):
        assert q == pytest.approx(1)
        assert_within_sampling_error(name, per_channel, target(T))


@pytest.mark.parametrize(
    ("norm", "target"),
    [({"init": "ettfs"}, 1.0), ({"init": "kaiming"}, 1 / 24)],
    ids=["ettfs", "kaiming"],
)
@torch.no_grad()
def test_pooling_and_padding_scale_it_by_the_mean_square_they_leave(norm: dict, target: float) -> None:
    rows = measure(network(POOLED, 8, **norm), torch.rand(8, 2, 12, 12))
    for name, per_channel, q in rows:
        assert_within_sampling_error(name, per_channel, target * q)
    assert rows[1][2] < 0.9  # the correction matters: a pooled spike is a quarter
    assert rows[3][2] == pytest.approx(1)  # and there is none for what is neither pooled nor padded
