"""Pooling and the one-spike property."""

import pytest
import torch

from firstspike.errors import FirstspikeError
from firstspike.functional import spikes_at
from firstspike.nn import AvgPool2d, Linear, MaxPool2d, Normalisation


def random_spikes(T: int = 5, silent: bool = False) -> torch.Tensor:
    """One spike a neuron (or at most one), `[T, 2, 3, 6, 6]`."""
    return spikes_at(torch.randint(0, T + silent, (2, 3, 6, 6)).to(torch.uint8), T)


@pytest.mark.parametrize("size", [2, 3])
def test_average_pooling_keeps_the_sum_over_time_at_one(size: int) -> None:
    pooled = AvgPool2d(size)(random_spikes())
    assert pooled.shape == (5, 2, 3, 6 // size, 6 // size)
    torch.testing.assert_close(pooled.sum(0), torch.ones(2, 3, 6 // size, 6 // size))


def test_average_pooling_of_silent_neurons_sums_to_the_share_that_fired() -> None:
    spikes = random_spikes(silent=True)
    shares = spikes.sum(0).unfold(2, 2, 2).unfold(3, 2, 2).mean((-1, -2))
    torch.testing.assert_close(AvgPool2d(2)(spikes).sum(0), shares)


def test_max_pooling_breaks_it_where_a_window_fires_at_different_steps() -> None:
    spikes = random_spikes()
    total = MaxPool2d(2)(spikes).sum(0)
    windows = spikes.unfold(3, 2, 2).unfold(4, 2, 2).flatten(-2)  # [T, B, C, H/2, W/2, 4]
    assert torch.equal(total, windows.any(-1).sum(0))
    assert total.max() > 1


def test_a_pooled_spike_is_a_spike_at_the_coarser_position_with_a_quarter_of_the_weight() -> None:
    """The fusion of pooling with the next linear layer."""
    spikes = random_spikes().double()
    linear = Linear(27, 4, 5, Normalisation(kind="none")).double()
    fine = linear.weight.view(4, 3, 3, 3).repeat_interleave(2, 2).repeat_interleave(2, 3) / 4
    torch.testing.assert_close(linear(AvgPool2d(2)(spikes)), spikes.flatten(2) @ fine.flatten(1).T)


def test_a_remainder_at_the_border_is_left_out() -> None:
    spikes = torch.rand(2, 1, 1, 7, 5)
    assert torch.equal(AvgPool2d(2)(spikes), AvgPool2d(2)(spikes[..., :6, :4]))


@pytest.mark.parametrize("pool", [AvgPool2d(4), MaxPool2d(4)])
@pytest.mark.parametrize("shape", [(2, 1, 3, 8), (2, 1, 3, 3, 8)])
def test_what_cannot_be_pooled_is_refused(pool: AvgPool2d, shape: tuple[int, ...]) -> None:
    with pytest.raises(FirstspikeError, match=r"\[T, B, C, H, W\] with H and W at least 4.*given \[2, 1, 3"):
        pool(torch.rand(shape))
