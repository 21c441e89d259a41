"""A neuron that is put at the reset of an export stays silent, whatever comes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstspike.errors import FirstspikeError
from firstspike.export.plain import Neurons
from firstspike.export.reset import SPIKES, can_fire_again, input_range, largest_current, once_only_reset
from firstspike.models import NetworkConfig


def layer(weight: np.ndarray, bias: np.ndarray, threshold: float = 1.0, tau: float | None = None) -> Neurons:
    levels = np.full(len(weight), threshold, np.float32)
    return Neurons(
        "1.FC", weight.shape[1:2], weight.shape[:1], weight.astype("f4"), bias.astype("f4"), 0, levels, tau
    )


def membrane_after(part: Neurons, reset: float, spikes: np.ndarray) -> np.ndarray:
    """The highest membrane of neurons that fired at step 0, in float32, under `spikes [T - 1, in]`."""
    v, highest = np.full(part.shape, reset, np.float32), np.full(part.shape, -np.inf, np.float32)
    for frame in spikes.astype(np.float32):
        current = part.weight @ frame + part.bias
        v = v + current if part.tau is None else v + (current - v) / np.float32(part.tau)
        highest = np.maximum(highest, v)
    return highest


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    T=st.integers(2, 255),
    scale=st.sampled_from([1e-3, 1.0, 50.0]),
    threshold=st.sampled_from([0.01, 1.0, 30.0, -0.5]),
    tau=st.sampled_from([None, 1.5, 2.0, 20.0]),
)
def test_no_input_makes_a_neuron_fire_twice(
    seed: int, T: int, scale: float, threshold: float, tau: float | None
) -> None:
    if tau is not None:
        T = min(T, 40)
    chance = np.random.default_rng(seed)
    part = layer(chance.normal(0, scale, (3, 20)), chance.normal(0, scale, 3), threshold, tau)
    reset = once_only_reset(part, SPIKES, T)
    assert not can_fire_again(part, np.full(3, reset), SPIKES, T).any()
    worst = (part.weight > 0).astype(np.float32)
    for channel in range(3):
        assert membrane_after(part, reset, np.tile(worst[channel], (T - 1, 1)))[channel] < threshold
    assert (membrane_after(part, reset, chance.random((T - 1, 20))) < threshold).all()


def test_the_reset_is_a_power_of_two_and_not_lower_than_it_need_be() -> None:
    part = layer(np.array([[2.0, -1.0, 0.5]]), np.array([0.25]))
    assert largest_current(part, SPIKES).tolist() == [2.75]
    assert once_only_reset(part, SPIKES, 8) == -64.0  # 2 * 7 * 2.75 = 38.5
    assert can_fire_again(part, np.zeros(1), SPIKES, 8).all()


def test_the_first_layer_reckons_with_the_range_of_its_input() -> None:
    mean, std = (0.5,), (0.25,)
    low, high = input_range(NetworkConfig("FC2", (1, 2, 2), input_mean=mean, input_std=std))
    assert (low.tolist(), high.tolist()) == ([-2.0], [2.0])
    part = layer(np.array([[1.0, -3.0, 0.5, 0.0]]), np.zeros(1))
    part = Neurons(**{**part.__dict__, "inputs": (1, 2, 2)})
    assert largest_current(part, (low, high)).tolist() == [9.0]
    assert input_range(NetworkConfig("FC2", (1, 2, 2), encoding="frames"))[1].tolist() == [32767.0]


@pytest.mark.parametrize(("tau", "T"), [(1.0, 3), (1.05, 100)])
def test_a_neuron_that_forgets_its_reset_is_refused(tau: float, T: int) -> None:
    part = layer(np.ones((1, 3)), np.zeros(1), tau=tau)
    with pytest.raises(FirstspikeError, match="leaks too fast"):
        once_only_reset(part, SPIKES, T)
