"""Surrogate derivatives."""

import pytest
import torch

from firstspike.errors import FirstspikeError
from firstspike.functional import ATAN, Surrogate
from tests.functional.recursion import smooth_step

KINDS = ["atan", "sigmoid", "triangle", "rectangular"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("alpha", [0.5, 2.0, 7.0])
def test_the_derivative_is_that_of_a_step_smoothed(kind: str, alpha: float) -> None:
    u = torch.linspace(-4, 4, 1001, dtype=torch.float64, requires_grad=True)
    (expected,) = torch.autograd.grad(smooth_step(kind, alpha, u).sum(), u)
    torch.testing.assert_close(Surrogate(kind, alpha).derivative(u.detach()), expected)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("alpha", [1.0, 4.0])
def test_the_bump_integrates_to_one_and_is_even(kind: str, alpha: float) -> None:
    u = torch.linspace(-2000, 2000, 4_000_001, dtype=torch.float64)
    bump = Surrogate(kind, alpha).derivative(u)  # type: ignore[arg-type]
    assert torch.trapezoid(bump, u).item() == pytest.approx(1, abs=5e-3)
    torch.testing.assert_close(bump, bump.flip(0))


def test_the_default_is_atan_with_alpha_two() -> None:
    """alpha / 2 / (1 + (pi/2 * alpha * u)^2): 1 at the threshold, 1 / (1 + pi^2) one away from it."""
    assert Surrogate() == ATAN
    values = ATAN.derivative(torch.tensor([0.0, 1.0, -1.0]))
    assert values.tolist() == pytest.approx([1.0, 1 / (1 + torch.pi**2), 1 / (1 + torch.pi**2)])


def test_an_unknown_kind_is_refused_with_the_known_ones() -> None:
    with pytest.raises(FirstspikeError, match=r"'atn'.*atan, sigmoid, triangle, rectangular"):
        Surrogate("atn")  # type: ignore[arg-type]


@pytest.mark.parametrize("alpha", [0.0, -1.0, float("nan")])
def test_alpha_must_be_positive(alpha: float) -> None:
    with pytest.raises(FirstspikeError, match="alpha must be positive"):
        Surrogate(alpha=alpha)
