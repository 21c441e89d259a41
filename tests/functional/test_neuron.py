"""The AMOS neuron against the paper's recursion, and its limits."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from firstspike.errors import FirstspikeError
from firstspike.functional import Surrogate, amos, amos_step, charge, first_crossing, spike_times
from tests.functional.recursion import recursion

KINDS = ["atan", "sigmoid", "triangle", "rectangular"]


def draw_current(shape: tuple[int, ...], on_grid: bool) -> Tensor:
    """Random currents; on the grid of quarters a membrane often hits a threshold exactly."""
    if on_grid:
        return torch.randint(-3, 6, shape).double() / 4
    return 0.3 + torch.randn(shape, dtype=torch.float64)


def draw_threshold(form: str, T: int, channels: int, on_grid: bool) -> float | Tensor:
    shape = {"channel": (channels, 1), "channel-step": (T, 1, channels, 1)}.get(form)
    if shape is None:
        return 1.0
    return torch.randint(2, 6, shape).double() / 4 if on_grid else 0.5 + torch.rand(shape).double()


def gradients(spikes: Tensor, weight: Tensor, leaves: list[Tensor]) -> list[Tensor]:
    """Of a loss that weighs every spike differently; zero where a leaf has no part in it."""
    if not spikes.requires_grad:
        return [torch.zeros_like(leaf) for leaf in leaves]
    found = torch.autograd.grad((spikes * weight).sum(), leaves, allow_unused=True)
    return [torch.zeros_like(leaf) if g is None else g for g, leaf in zip(found, leaves, strict=True)]


@settings(max_examples=500, derandomize=True, deadline=None)
@given(
    T=st.sampled_from([1, 2, 3, 8]),
    force_last=st.booleans(),
    tau=st.sampled_from([None, None, 1.0, 2.0, 3.7]),
    kind=st.sampled_from(KINDS),
    alpha=st.sampled_from([0.7, 1.0, 2.0, 5.0]),
    threshold_form=st.sampled_from(["number", "channel", "channel-step"]),
    with_bias=st.booleans(),
    on_grid=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_spikes_and_gradients_are_those_of_autograd_through_the_recursion(
    T: int,
    force_last: bool,
    tau: float | None,
    kind: str,
    alpha: float,
    threshold_form: str,
    with_bias: bool,
    on_grid: bool,
    seed: int,
) -> None:
    torch.manual_seed(seed)
    channels = 3
    current = draw_current((T, 5, channels, 2), on_grid).requires_grad_()
    threshold = draw_threshold(threshold_form, T, channels, on_grid)
    leaves = [current]
    if isinstance(threshold, Tensor):
        leaves.append(threshold.requires_grad_())
    bias = None
    if with_bias:
        bias = draw_current((channels,), on_grid).requires_grad_()
        leaves.append(bias)
    weight = torch.randn(current.shape, dtype=torch.float64)

    spikes = amos(current, threshold, force_last, tau, Surrogate(kind, alpha), bias)  # type: ignore[arg-type]
    expected = recursion(current, threshold, force_last, tau, kind, alpha, bias)

    assert torch.equal(spikes, expected)
    for ours, theirs in zip(
        gradients(spikes, weight, leaves), gradients(expected, weight, leaves), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


def test_exact_threshold_hits_occur_on_the_grid() -> None:
    """Or the gradient test's hits would be hits in name only."""
    membrane = draw_current((8, 50, 3, 2), on_grid=True).cumsum(0)
    assert (membrane == 1).double().mean() > 0.02


def test_a_membrane_at_the_threshold_fires() -> None:
    assert amos(torch.tensor([[0.5], [0.5], [0.5]])).flatten().tolist() == [0, 1, 0]


def test_there_is_no_second_spike_after_the_membrane_falls_and_rises_again() -> None:
    current = torch.tensor([2.0, -3.0, 5.0, 1.0])[:, None]
    assert amos(current).flatten().tolist() == [1, 0, 0, 0]


def test_forced_neurons_all_fire_once_and_the_others_keep_their_time() -> None:
    current = 0.3 * torch.randn(6, 200, 4)
    free, forced = spike_times(amos(current)), spike_times(amos(current, force_last=True))
    assert (free == 6).any()
    assert (free < 6).any()
    assert torch.equal(forced, free.clamp(max=5))
    assert torch.equal(amos(current, force_last=True).sum(0), torch.ones(200, 4))


def test_the_last_current_has_no_gradient_when_forced() -> None:
    current = torch.randn(5, 30, 4, dtype=torch.float64, requires_grad=True)
    (amos(current, force_last=True) * torch.randn(5, 30, 4)).sum().backward()
    assert current.grad is not None
    assert not current.grad[-1].any()
    assert current.grad[:-1].any()


def test_a_leaky_membrane_settles_at_the_current() -> None:
    """H = X (1 - (1 - 1/tau)^(t+1)) for a constant current."""
    steps = torch.arange(1, 9, dtype=torch.float64)
    membrane = charge(torch.full((8, 1), 3.0, dtype=torch.float64), tau=2.5)
    torch.testing.assert_close(membrane[:, 0], 3 * (1 - (1 - 1 / 2.5) ** steps))


def test_a_time_constant_of_one_forgets_everything() -> None:
    current = torch.randn(6, 10, dtype=torch.float64)
    torch.testing.assert_close(charge(current, tau=1.0), current)


def test_the_bias_is_added_at_every_step() -> None:
    membrane = charge(torch.zeros(4, 2, 3, 5, 5), bias=torch.tensor([1.0, 2.0, -1.0]))
    assert membrane[:, 0, :, 0, 0].tolist() == [[1, 2, -1], [2, 4, -2], [3, 6, -3], [4, 8, -4]]


@pytest.mark.parametrize("tau", [None, 1.7])
def test_stepping_fires_at_the_times_of_the_whole_run(tau: float | None) -> None:
    current, bias = 0.4 * torch.randn(7, 20, 3, 2), 0.1 * torch.randn(3)
    threshold = 0.5 + torch.rand(7, 1, 3, 1)
    whole, membrane = amos(current, threshold, tau=tau, bias=bias), charge(current, tau, bias)
    state = None
    for t in range(7):
        spikes, state = amos_step(current[t], state, threshold[t], tau, bias)
        assert torch.equal(spikes, whole[t])
        assert torch.equal(state.membrane, membrane[t])


def test_the_membrane_of_bfloat16_currents_accumulates_in_float32() -> None:
    """1 + 1/256 is 1 in bfloat16: a membrane kept there would never reach 1.25."""
    current = torch.full((80, 1), 2.0**-8, dtype=torch.bfloat16)
    current[0] = 1
    assert charge(current).dtype == torch.float32
    spikes = amos(current, threshold=1.25)
    assert spikes.dtype == torch.bfloat16
    assert spike_times(spikes).tolist() == [64]
    state = None
    for frame in current:
        _, state = amos_step(frame, state, threshold=1.25)
    assert state is not None
    assert state.membrane.dtype == torch.float32
    assert state.membrane.item() == 1 + 79 / 256


def test_float64_stays_float64() -> None:
    assert amos(torch.rand(2, 3, dtype=torch.float64)).dtype == torch.float64


def test_forward_and_backward_leave_the_current_as_it_was() -> None:
    current = torch.randn(4, 6, requires_grad=True)
    before = current.detach().clone()
    amos(current, force_last=True).sum().backward()
    assert torch.equal(current.detach(), before)


def test_an_empty_batch_is_no_error() -> None:
    assert amos(torch.empty(3, 0, 4), force_last=True).shape == (3, 0, 4)


def test_a_gradient_of_the_gradient_is_refused() -> None:
    """The closed form is the first derivative only; a silent wrong second one would be worse than none."""
    overdrive = torch.randn(3, 4, requires_grad=True)
    (slope,) = torch.autograd.grad(first_crossing(overdrive).square().sum(), overdrive, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        slope.sum().backward()


@pytest.mark.parametrize(
    ("current", "message"),
    [
        (torch.rand(3), r"\[T, B, \.\.\.\].*shape \[3\].*first axis"),
        (torch.rand(0, 2, 4), r"at least one step.*\[0, 2, 4\]"),
        (torch.ones(3, 2, dtype=torch.int64), r"floating point, not torch\.int64.*\.float\(\)"),
        (torch.tensor([[0.0], [float("nan")], [0.0]]), "NaN or infinite.*check the input"),
        (torch.tensor([[0.0], [float("inf")], [-float("inf")]]), "NaN or infinite"),
    ],
)
def test_a_current_that_is_none_is_refused_in_words(current: Tensor, message: str) -> None:
    with pytest.raises(FirstspikeError, match=message):
        amos(current)


@pytest.mark.parametrize("tau", [None, 2.0, 1.0])
def test_a_current_that_is_not_a_number_is_refused_when_stepping_too(tau: float | None) -> None:
    with pytest.raises(FirstspikeError, match="NaN or infinite"):
        amos_step(torch.tensor([[1.0, float("nan")]]), None, tau=tau)


@pytest.mark.parametrize("tau", [0.5, 0.0, -1.0, float("nan")])
def test_a_time_constant_below_one_is_refused(tau: float) -> None:
    with pytest.raises(FirstspikeError, match=r"tau must be at least 1.*None for IF"):
        amos(torch.rand(2, 3), tau=tau)
    with pytest.raises(FirstspikeError, match=r"tau must be at least 1"):
        amos_step(torch.rand(2, 3), None, tau=tau)
