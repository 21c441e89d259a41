"""Neurons that are reset, against the recursion written out for one neuron."""

import pytest
import torch

from firstspike.errors import FirstspikeError
from firstspike.functional.rate import integrate_and_fire, mean_rate


def by_hand(currents: list[float], reset: str, tau: float | None) -> list[int]:
    membrane, spikes = 0.0, []
    for current in currents:
        membrane = membrane + current if tau is None else membrane + (current - membrane) / tau
        fired = membrane >= 1.0
        spikes.append(int(fired))
        if fired:
            membrane = 0.0 if reset == "hard" else membrane - 1.0
    return spikes


@pytest.mark.parametrize("reset", ["hard", "soft"])
@pytest.mark.parametrize("tau", [None, 2.0])
def test_each_neuron_follows_the_recursion(reset: str, tau: float | None) -> None:
    current = 1.5 * torch.randn(12, 5, 3, dtype=torch.float64)
    spikes = integrate_and_fire(current, 1.0, reset, tau)  # type: ignore[arg-type]
    for sample in range(5):
        for neuron in range(3):
            expected = by_hand(current[:, sample, neuron].tolist(), reset, tau)
            assert spikes[:, sample, neuron].tolist() == expected


def test_a_soft_reset_keeps_the_rate_of_a_constant_current() -> None:
    current = torch.tensor([0.1, 0.25, 0.7]).expand(100, 1, 3)
    assert mean_rate(integrate_and_fire(current, reset="soft"))[0].tolist() == pytest.approx(
        [0.1, 0.25, 0.7], abs=0.011
    )
    assert mean_rate(integrate_and_fire(current, reset="hard"))[0, 2].item() == pytest.approx(0.5)


def test_gradients_reach_every_step() -> None:
    current = torch.randn(6, 4, 3, requires_grad=True)
    integrate_and_fire(current).sum().backward()  # type: ignore[no-untyped-call]
    assert current.grad is not None
    assert bool((current.grad[0] != 0).all())


def test_an_unknown_reset_is_refused() -> None:
    with pytest.raises(FirstspikeError, match="hard or soft"):
        integrate_and_fire(torch.ones(2, 1, 1), reset="none")  # type: ignore[arg-type]
