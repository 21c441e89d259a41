"""Dropout in time."""

import pytest
import torch

from firstspike.errors import FirstspikeError
from firstspike.nn import Dropout


def test_one_mask_holds_for_all_steps_and_differs_between_samples() -> None:
    dropped = Dropout(0.5)(torch.ones(6, 4, 200))
    assert torch.equal(dropped, dropped[:1].expand_as(dropped))
    assert not torch.equal(dropped[0, 0], dropped[0, 1])


def test_the_share_dropped_is_the_rate_and_the_rest_makes_up_for_it() -> None:
    dropped = Dropout(0.25)(torch.ones(2, 10, 2000))
    assert (dropped == 0).float().mean().item() == pytest.approx(0.25, abs=0.01)
    assert dropped.unique().tolist() == pytest.approx([0, 4 / 3])


def test_it_is_inactive_in_evaluation_and_at_rate_zero() -> None:
    spikes = torch.rand(3, 2, 50)
    assert torch.equal(Dropout(0.9).eval()(spikes), spikes)
    assert torch.equal(Dropout(0.0)(spikes), spikes)


def test_gradients_pass_through_the_same_mask() -> None:
    spikes = torch.ones(3, 2, 50, requires_grad=True)
    dropped = Dropout(0.5)(spikes)
    dropped.sum().backward()
    assert torch.equal(spikes.grad, dropped)


@pytest.mark.parametrize("rate", [-0.1, 1.0, float("nan")])
def test_a_rate_that_is_none_is_refused(rate: float) -> None:
    with pytest.raises(FirstspikeError, match=r"rate lies in \[0, 1\)"):
        Dropout(rate)
