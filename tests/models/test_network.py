"""Running a network: its state is a value, and bad input is refused."""

import pytest
import torch

from firstspike.errors import FirstspikeError
from firstspike.functional import direct, spike_times
from firstspike.models import Network, State, build
from firstspike.nn import Neuron, Normalisation
from tests.models.zoo import images, shrunk


def finish(net: Network, state: State) -> torch.Tensor:
    """Spikes `[steps left, B, classes]`."""
    spikes = []
    while state.t < net.T:
        step, state = net.step(None, state)
        spikes.append(step.spikes)
    return torch.stack(spikes)


@pytest.mark.parametrize("encoding", ["direct", "latency"])
def test_two_interleaved_runs_do_not_disturb_each_other(encoding: str) -> None:
    net = shrunk("SCNN5", encoding=encoding).eval()
    one, other = images(net), images(net, 3)
    states = [net.start(one), net.start(other)]
    seen: list[list[torch.Tensor]] = [[], []]
    for _ in range(net.T):
        for run in (0, 1):
            step, states[run] = net.step(None, states[run])
            seen[run].append(step.spikes)
    assert torch.equal(torch.stack(seen[0]), net(one).spikes)
    assert torch.equal(torch.stack(seen[1]), net(other).spikes)


def test_a_state_can_be_started_from_again() -> None:
    net = shrunk("SCNN5").eval()
    _, state = net.step(None, net.start(images(net)))
    assert state.t == 1
    first = finish(net, state)
    assert torch.equal(finish(net, state), first)


def test_running_whole_between_steps_changes_nothing() -> None:
    net = shrunk("SCNN5").eval()
    x = images(net)
    _, state = net.step(None, net.start(x))
    net(images(net))
    assert torch.equal(finish(net, state), net(x).spikes[1:])


@pytest.mark.parametrize("encoding", ["direct", "latency"])
@pytest.mark.parametrize(
    "chosen",
    [torch.tensor([4, 1]), torch.tensor([True, False, False, True, True, False])],
    ids=["indices", "mask"],
)
@pytest.mark.parametrize("after", [0, 2])
def test_keeping_some_samples_gives_their_own_spikes(encoding: str, chosen: torch.Tensor, after: int) -> None:
    net = build(
        "C6K3-P2-FC60-FC10", (1, 8, 8), T=4, encoding=encoding, normalisation=Normalisation(variance=9.0)
    )
    net.double().eval()
    x = images(net)
    state = net.start(x)
    for _ in range(after):
        _, state = net.step(None, state)
    alone, membrane = finish(net, state.keep(chosen)), net(x).membrane
    assert torch.equal(alone, net(x).spikes[after:, chosen])
    step, _ = net.step(None, state.keep(chosen))
    torch.testing.assert_close(step.membrane, membrane[after, chosen])
    assert len(membrane[-1].unique(dim=0)) == len(x)  # the samples do differ
    assert torch.equal(finish(net, state), net(x).spikes[after:])  # and keeping took nothing from the state


@pytest.mark.parametrize("encoding", ["direct", "latency", "frames"])
def test_some_steps_at_once_are_these_steps(encoding: str) -> None:
    net = shrunk("SCNN6", encoding=encoding).eval()
    x = images(net)
    events = encoding == "frames"
    expected, times = net.trace(x)
    state, spikes, membrane = net.start(x[0] if events else x), [], []
    counts = torch.zeros(len(times), net.T, x.shape[1] if events else len(x), dtype=torch.int32)
    for steps in (1, net.T - 1):
        here = slice(state.t, state.t + steps)
        output, state = net.advance(x[here] if events else None, state, steps, counts[:, here])
        spikes.append(output.spikes)
        membrane.append(output.membrane)
    assert torch.equal(torch.cat(spikes), expected.spikes)
    torch.testing.assert_close(torch.cat(membrane), expected.membrane)
    for found, layer in zip(counts, times.values(), strict=True):
        for t in range(net.T):
            assert torch.equal(found[t], (layer == t).flatten(1).sum(1).int())
    with pytest.raises(FirstspikeError, match=r"T = 4 steps, and all of them are done"):
        net.advance(x[:1] if events else None, state)
    with pytest.raises(FirstspikeError, match=r"T = 4 steps, and 0 of them are done"):
        net.advance(None, net.start(x[0] if events else x), 5)


def test_a_frame_given_at_a_step_is_what_enters() -> None:
    """The constant image given at each step is direct encoding; the first current is not taken from `start`."""
    net = shrunk("SCNN5").eval()
    x, other = images(net), images(net)
    state, spikes = net.start(other), []
    for _ in range(net.T):
        step, state = net.step(x, state)
        spikes.append(step.spikes)
    assert torch.equal(torch.stack(spikes), net(x).spikes)


def test_direct_input_equals_event_frames_that_all_are_the_image() -> None:
    net = shrunk("SCNN5", input_mean=(0.3,), input_std=(0.5,)).eval()
    events = shrunk("SCNN5", input_mean=(0.3,), input_std=(0.5,), encoding="frames").eval()
    events.load_state_dict(net.state_dict())
    x = images(net)
    assert torch.equal(events(direct(x, net.T).contiguous()).spikes, net(x).spikes)


def test_standardisation_is_per_channel() -> None:
    net = build("FC3", (2, 2, 2), T=2, input_mean=(1.0, 2.0), input_std=(0.5, 4.0))
    prepared = net.prepare(torch.full((1, 2, 2, 2), 3.0), events=False)
    assert prepared[0, :, 0, 0].tolist() == [4.0, 0.25]


def test_stepping_past_the_end_is_refused() -> None:
    net = shrunk("FC1").eval()
    state = net.start(images(net))
    for _ in range(net.T):
        _, state = net.step(None, state)
    with pytest.raises(FirstspikeError, match=r"runs for T = 4 steps, and all of them are done"):
        net.step(None, state)


def test_stepping_while_training_is_refused() -> None:
    net = shrunk("FC1")
    with pytest.raises(FirstspikeError, match=r"Stepping is for inference: call net\.eval\(\)"):
        net.start(images(net))
    state = net.eval().start(images(net))
    net.train()
    with pytest.raises(FirstspikeError, match=r"Stepping is for inference: call net\.eval\(\)"):
        net.step(None, state)


def test_event_frames_have_to_be_given_at_each_step() -> None:
    net = shrunk("FC1", encoding="frames").eval()
    with pytest.raises(FirstspikeError, match=r"needs the frame of every step.*net\.step\(frame, state\)"):
        net.step(None, net.start(images(net)[0]))


IMAGE, EVENTS = r"takes input of shape \[B, 1, 6, 6\]", r"takes input of shape \[4, B, 1, 6, 6\]"


@pytest.mark.parametrize(
    ("encoding", "x", "message"),
    [
        ("direct", torch.rand(1, 6, 6), IMAGE + r", but was given \[1, 6, 6\]"),
        ("direct", torch.rand(6), IMAGE),
        ("direct", torch.tensor(1.0), IMAGE),
        ("direct", torch.rand(4, 2, 1, 6, 6), IMAGE),
        ("direct", torch.rand(2, 3, 6, 6), IMAGE + ".*number of channels"),
        ("direct", torch.rand(2, 1, 6, 7), IMAGE + ".*image size"),
        ("latency", torch.rand(2, 3, 6, 6), IMAGE),
        ("frames", torch.rand(2, 1, 6, 6), EVENTS),
        ("frames", torch.rand(3, 2, 1, 6, 6), EVENTS + r", but was given \[3,"),
        (
            "direct",
            torch.ones(2, 1, 6, 6, dtype=torch.uint8),
            r"floating point, not torch\.uint8.*\.float\(\) / 255",
        ),
        ("frames", torch.ones(4, 2, 1, 6, 6, dtype=torch.int64), r"floating point, not torch\.int64"),
        ("latency", torch.full((2, 1, 6, 6), 3.0), r"Latency coding takes pixels in \[0, 1\]"),
        ("direct", torch.full((2, 1, 6, 6), float("nan")), r"NaN or infinite"),
        ("frames", torch.full((4, 2, 1, 6, 6), float("inf")), r"NaN or infinite"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(encoding: str, x: torch.Tensor, message: str) -> None:
    net = build("FC5-FC3", (1, 6, 6), T=4, encoding=encoding)
    for training in (True, False):
        with pytest.raises(FirstspikeError, match=message):
            net.train(training)(x)


def test_bad_input_is_refused_when_stepping_too() -> None:
    net = build("FC5-FC3", (1, 6, 6), T=4).eval()
    with pytest.raises(FirstspikeError, match=IMAGE):
        net.start(torch.rand(2, 3, 6, 6))
    state = net.start(torch.rand(2, 1, 6, 6))
    with pytest.raises(FirstspikeError, match=IMAGE):
        net.step(torch.rand(2, 1, 5, 6), state)
    with pytest.raises(FirstspikeError, match=r"NaN or infinite"):
        net.step(torch.full((2, 1, 6, 6), float("nan")), state)


def test_weights_that_diverged_are_noticed_at_the_layer_they_first_meet() -> None:
    net = build("FC5-FC3", (4,), T=3, neuron=Neuron(tau=2.0))
    net.layers[1].synapse.bias.data[1] = float("inf")
    with pytest.raises(FirstspikeError, match=r"NaN or infinite.*weights for divergence"):
        net(torch.rand(2, 4))


@pytest.mark.parametrize("name", ["FC1", "SCNN5"])
def test_an_empty_batch_gives_an_empty_answer(name: str) -> None:
    net = shrunk(name).eval()
    output = net(images(net, 0))
    assert output.spikes.shape == (net.T, 0, 10)
    assert spike_times(output.spikes).shape == (0, 10)
