"""A reset that an integrate-and-fire neuron never comes back from: once-only firing for tools without a mask.

A neuron that has fired is put at v_reset. Over the T - 1 steps that may follow, its membrane rises by at most

    IF     (T - 1) * D          LIF    D + v_reset * (1 - 1/tau)^(T-1)  is where it can get to at best

where D = max over channels of sum_i max(0, W[i] * low[i], W[i] * high[i]) + bias is the largest current that inputs
between low and high can make in one step. v_reset is taken so low that the membrane stays under the threshold.
"""

import math

import numpy as np
from numpy.typing import NDArray

from firstspike.errors import FirstspikeError
from firstspike.export.plain import Neurons
from firstspike.models import NetworkConfig

Range = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Lowest and highest value of each input channel (or one for all of them)."""

MOST_EVENTS = float(np.iinfo(np.int16).max)
"""The largest event count that `firstspike.data` hands out."""

SPIKES: Range = (np.zeros(1), np.ones(1))
"""What a layer of neurons sends on, pooled or not."""


def input_range(config: NetworkConfig) -> Range:
    """What reaches the first layer: pixels in [0, 1] or event counts, standardised."""
    highest = MOST_EVENTS if config.encoding == "frames" else 1.0
    mean, std = np.array(config.input_mean), np.array(config.input_std)
    return (0 - mean) / std, (highest - mean) / std


def largest_current(layer: Neurons, inputs: Range) -> NDArray[np.float64]:
    """D for each channel of a layer `[out]`, in float64."""
    weight = layer.weight.astype(np.float64).reshape(len(layer.weight), -1)
    channels = layer.inputs[0]
    low, high = (
        np.broadcast_to(values, channels).repeat(weight.shape[1] // channels).clip(least, most)
        for values, least, most in zip(inputs, (-np.inf, 0), (0, np.inf), strict=True)
    )  # 0 is always possible: no spike, or the padding
    largest: NDArray[np.float64] = np.maximum(weight * low, weight * high).sum(1) + layer.bias
    return np.maximum(largest, 0)


def can_fire_again(layer: Neurons, reset: NDArray[np.float64], inputs: Range, T: int) -> NDArray[np.bool_]:
    """Whether neurons `[out]` put at `reset` `[out]` can reach the threshold once more within T steps."""
    current = largest_current(layer, inputs)
    after = np.arange(1, T)[:, None]
    if layer.tau is None:
        highest = reset + after * current
    else:
        kept = (1 - 1 / layer.tau) ** after
        highest = reset * kept + current * (1 - kept)
    return np.any(highest >= layer.threshold, axis=0)  # type: ignore[no-any-return]


def once_only_reset(layer: Neurons, inputs: Range, T: int) -> float:
    """v_reset for a layer: minus the smallest power of two that is at least twice what the bound asks for.

    Twice: float32 rounding of a sum of N currents is at most N * 2^-24 of it, far less than the sum once more. A
    power of two: exact in every number format. One value for the layer: some tools take no more.
    """
    current = float(largest_current(layer, inputs).max())
    below = max(-float(layer.threshold.min()), 0.0)  # only a learned threshold can lie under 0
    if layer.tau is None:
        needed = (T - 1) * current + below
    else:
        kept = (1 - 1 / layer.tau) ** (T - 1)
        needed = (current + below) / kept if kept else math.inf
    needed = 2 * max(needed, 0.5)
    if not needed < 2.0**126:
        raise FirstspikeError(
            f"Layer {layer.name} leaks too fast (tau = {layer.tau}) for an ordinary neuron to stay silent after its "
            f"spike for T = {T} steps: NIR has no once-only neuron, and no reset would last."
        )
    return -(2.0 ** math.ceil(math.log2(needed)))
