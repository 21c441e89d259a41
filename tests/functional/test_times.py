"""Spike times and back."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from firstspike.errors import FirstspikeError
from firstspike.functional import amos, spike_times, spikes_at


@settings(max_examples=60, derandomize=True, deadline=None)
@given(T=st.sampled_from([1, 2, 3, 8, 100, 255]), seed=st.integers(0, 1000))
def test_times_and_spikes_are_inverse(T: int, seed: int) -> None:
    torch.manual_seed(seed)
    times = torch.randint(0, T + 1, (4, 3, 2)).to(torch.uint8)
    spikes = spikes_at(times, T)
    assert spikes.shape == (T, 4, 3, 2)
    assert torch.equal(spikes.sum(0), (times < T).float())
    assert spike_times(spikes).dtype == torch.uint8
    assert torch.equal(spike_times(spikes), times)


@pytest.mark.parametrize("force_last", [False, True])
def test_the_times_of_neurons_give_back_their_spikes(force_last: bool) -> None:
    spikes = amos(0.3 * torch.randn(8, 50, 4), force_last=force_last)
    assert torch.equal(spikes_at(spike_times(spikes), 8), spikes)


def test_by_hand() -> None:
    spikes = torch.tensor([[0, 1, 0, 0], [0, 0, 1, 0], [1, 0, 1, 0]])[:, None].bool()
    assert spike_times(spikes).tolist() == [[2, 0, 1, 3]]  # the first of two spikes; silent is T
    assert spikes_at(torch.tensor([1, 3], dtype=torch.uint8), 3, torch.float64).tolist() == [
        [0, 0],
        [1, 0],
        [0, 0],
    ]


@pytest.mark.parametrize("T", [0, -1, 256])
def test_a_number_of_steps_that_no_byte_holds_is_refused(T: int) -> None:
    with pytest.raises(FirstspikeError, match=f"between 1 and 255.*not {T}"):
        spikes_at(torch.zeros(2, dtype=torch.uint8), T)


def test_spikes_without_steps_are_refused() -> None:
    with pytest.raises(FirstspikeError, match=r"between 1 and 255.*not 0"):
        spike_times(torch.zeros(0, 2, 3))


def test_a_time_beyond_the_end_is_refused() -> None:
    with pytest.raises(FirstspikeError, match=r"spike time of 5 lies beyond T = 4"):
        spikes_at(torch.tensor([0, 5], dtype=torch.uint8), 4)
