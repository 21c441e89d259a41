"""AMOS as a module: thresholds, forcing and stepping."""

import pytest
import torch
from torch import Tensor

from firstspike.errors import FirstspikeError
from firstspike.functional import amos, spike_times
from firstspike.nn import AMOS, Neuron

KINDS = ["fixed", "channel", "channel-step"]


def test_the_last_step_is_forced_while_training_only_unless_told_otherwise() -> None:
    neuron, current = AMOS(), 0.3 * torch.randn(4, 100, 3)
    free, forced = amos(current), amos(current, force_last=True)
    assert not torch.equal(free, forced)
    assert torch.equal(neuron.train()(current), forced)
    assert torch.equal(neuron.eval()(current), free)
    neuron.force_last = True
    assert torch.equal(neuron(current), forced)
    neuron.force_last = False
    assert torch.equal(neuron.train()(current), free)


def test_nothing_is_remembered_between_calls() -> None:
    neuron, current = AMOS().eval(), 0.4 * torch.randn(4, 10, 3)
    first = neuron(current)
    neuron(torch.rand(4, 7, 3))
    assert torch.equal(neuron(current), first)


def test_a_learned_threshold_per_channel_acts_on_its_channel() -> None:
    neuron = AMOS(Neuron(learn_threshold="channel"), channels=3).eval()
    assert isinstance(neuron.threshold, Tensor)
    neuron.threshold.data = torch.tensor([1.0, 2.0, 9.0])
    times = spike_times(neuron(torch.full((4, 1, 3, 2, 2), 0.5)))
    assert times[0, :, 0, 0].tolist() == [1, 3, 4]
    assert torch.equal(times[0, :, 0, 0, None].expand(3, 4), times[0].flatten(1))


def test_a_learned_threshold_per_channel_and_step_acts_at_its_step() -> None:
    neuron = AMOS(Neuron(learn_threshold="channel-step"), channels=2, T=3).eval()
    assert isinstance(neuron.threshold, Tensor)
    neuron.threshold.data = torch.tensor([[9.0, 0.4], [9.0, 9.0], [1.5, 9.0]])
    assert spike_times(neuron(torch.full((3, 1, 2), 0.5))).tolist() == [[2, 0]]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tau", [None, 2.0])
@pytest.mark.parametrize("shape", [(3,), (3, 4, 4)])
def test_stepping_fires_at_the_times_of_the_whole_run(
    kind: str, tau: float | None, shape: tuple[int, ...]
) -> None:
    neuron = AMOS(Neuron(tau=tau, learn_threshold=kind), channels=3, T=5).double().eval()  # type: ignore[arg-type]
    if isinstance(neuron.threshold, Tensor):
        neuron.threshold.data.uniform_(0.3, 1.5)
    current = 0.7 * torch.randn(5, 20, *shape, dtype=torch.float64)
    bias = 0.2 * torch.randn(3, dtype=torch.float64)
    whole, membrane = neuron(current, bias), neuron.membrane(current, bias)
    assert 0 < whole.mean() < 1 / 5
    state = None
    for t in range(5):
        spikes, state = neuron.step(current[t], state, t, bias)
        assert torch.equal(spikes, whole[t])
        assert torch.equal(state.membrane, membrane[t])


@pytest.mark.parametrize("kind", ["channel", "channel-step"])
def test_learned_thresholds_start_at_the_value_given_and_are_learned(kind: str) -> None:
    neuron = AMOS(Neuron(threshold=2, learn_threshold=kind), channels=3, T=4)  # type: ignore[arg-type]
    threshold = neuron.threshold
    assert isinstance(threshold, torch.nn.Parameter)
    assert threshold.dtype == torch.float32
    assert (threshold == 2).all()
    (neuron(0.5 + torch.randn(4, 50, 3)) * torch.randn(4, 50, 3)).sum().backward()
    assert threshold.grad is not None
    assert threshold.grad.flatten()[:3].all()


def test_a_higher_threshold_never_makes_a_neuron_fire_earlier() -> None:
    current = 0.3 + 0.5 * torch.randn(6, 200, 2)
    low, high = (spike_times(AMOS(Neuron(threshold=v)).eval()(current)) for v in (0.8, 1.2))
    assert (low <= high).all()
    assert (low < high).any()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"tau": 0.5}, r"tau must be at least 1"),
        ({"threshold": 0.0}, r"threshold must be positive, not 0\.0"),
        ({"threshold": float("nan")}, r"threshold must be positive"),
        ({"learn_threshold": "neuron"}, r"'neuron'.*fixed, channel, channel-step"),
    ],
)
def test_a_bad_neuron_is_refused(fields: dict, message: str) -> None:
    with pytest.raises(FirstspikeError, match=message):
        Neuron(**fields)


@pytest.mark.parametrize(
    ("kind", "channels"), [("channel", None), ("channel-step", None), ("channel-step", 3)]
)
def test_learned_thresholds_need_to_know_their_shape(kind: str, channels: int | None) -> None:
    with pytest.raises(FirstspikeError, match=r"needs the number of channels.*AMOS\(neuron, channels="):
        AMOS(Neuron(learn_threshold=kind), channels=channels)  # type: ignore[arg-type]
