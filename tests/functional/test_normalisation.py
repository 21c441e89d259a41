"""Initialisation and weight normalisation."""

import math

import pytest
import torch

from firstspike.errors import FirstspikeError
from firstspike.functional import (
    ettfs_init_,
    ettfs_std,
    fan_in,
    kaiming_init_,
    normalise_weight,
    scale_channels,
)


def test_the_fan_in_of_linear_and_convolution() -> None:
    assert fan_in(torch.empty(7, 50)) == 50
    assert fan_in(torch.empty(7, 3, 5, 5)) == 75


@pytest.mark.parametrize(("T", "v"), [(1, 1.0), (8, 1.0), (8, 0.25)])
def test_ettfs_init_is_uniform_within_its_bound(T: int, v: float) -> None:
    weight = ettfs_init_(torch.empty(400, 10, 5, 5), T, v)
    bound = math.sqrt(3 * v * T / 250)
    assert weight.abs().max().item() <= bound
    assert weight.abs().max().item() > 0.999 * bound
    assert weight.mean().item() == pytest.approx(0, abs=4 * bound / math.sqrt(3 * weight.numel()))
    assert weight.var().item() == pytest.approx(v * T / 250, rel=0.02)
    # half of a uniform distribution lies in the inner half of its range
    assert (weight.abs() < bound / 2).float().mean().item() == pytest.approx(0.5, abs=0.01)


def test_kaiming_init_is_what_torch_does_by_default() -> None:
    ours = torch.empty(30, 4, 3, 3)
    torch.manual_seed(5)
    kaiming_init_(ours)
    torch.manual_seed(5)
    theirs = torch.nn.Conv2d(4, 30, 3).weight
    torch.testing.assert_close(ours, theirs.detach())


@pytest.mark.parametrize("shape", [(6, 40), (6, 4, 3, 3)])
def test_normalised_channels_have_mean_zero_and_the_deviation_asked_for(shape: tuple[int, ...]) -> None:
    weight = 3 + 5 * torch.randn(shape, dtype=torch.float64) * torch.arange(1, 7).view(
        -1, *[1] * (len(shape) - 1)
    )
    rows = normalise_weight(weight, 0.7).flatten(1)
    torch.testing.assert_close(rows.mean(1), torch.zeros(6).double(), atol=1e-12, rtol=0)
    torch.testing.assert_close(rows.std(1, correction=0), torch.full((6,), 0.7).double())


def test_normalised_layers_have_mean_zero_and_the_deviation_over_all_and_keep_the_channels_ratios() -> None:
    weight = 3 + torch.randn(6, 4, 3, 3, dtype=torch.float64) * torch.arange(1, 7).view(-1, 1, 1, 1)
    normalised = normalise_weight(weight, 0.7, "layer")
    assert normalised.mean().item() == pytest.approx(0, abs=1e-12)
    assert normalised.std(correction=0).item() == pytest.approx(0.7)
    before, after = weight.flatten(1).std(1), normalised.flatten(1).std(1)
    torch.testing.assert_close(after / after[0], before / before[0])


@pytest.mark.parametrize("per", ["channel", "layer"])
def test_normalisation_forgets_scale_and_offset_of_the_stored_weight(per: str) -> None:
    weight = torch.randn(5, 30, dtype=torch.float64)
    one, other = (normalise_weight(w, 0.5, per) for w in (weight, 40 * weight - 7))  # type: ignore[arg-type]
    torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)


def test_the_gain_scales_each_channel_after_normalising() -> None:
    weight, gain = torch.randn(3, 2, 3, 3), torch.tensor([2.0, 0.0, -1.0])
    plain, gained = normalise_weight(weight, 0.5), normalise_weight(weight, 0.5, gain=gain)
    for channel in range(3):
        torch.testing.assert_close(gained[channel], plain[channel] * gain[channel])
    assert torch.equal(scale_channels(weight, gain)[0], weight[0] * 2)


def test_gradients_pass_through_the_statistics() -> None:
    weight = torch.randn(3, 6, dtype=torch.float64, requires_grad=True)
    gain = torch.rand(3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda w, g: normalise_weight(w, 0.5, "channel", g), (weight, gain))
    assert torch.autograd.gradcheck(lambda w, g: normalise_weight(w, 0.5, "layer", g), (weight, gain))


def test_the_arithmetic_is_in_the_weights_own_dtype_and_only_the_result_is_cast() -> None:
    weight = torch.randn(3, 200)
    assert torch.equal(
        normalise_weight(weight, 0.5, dtype=torch.bfloat16), normalise_weight(weight, 0.5).bfloat16()
    )


def test_the_deviation_is_the_square_root_of_v_T_over_N() -> None:
    assert ettfs_std(inputs=50, T=8, variance=0.5) == pytest.approx(math.sqrt(0.08))


def test_an_unknown_scope_is_refused() -> None:
    with pytest.raises(FirstspikeError, match=r"'neuron'.*channel or layer"):
        normalise_weight(torch.rand(2, 2), 1.0, "neuron")  # type: ignore[arg-type]
