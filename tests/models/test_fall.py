"""A threshold of the output that falls over the steps."""

from pathlib import Path

import pytest
import torch

import firstspike
from firstspike.errors import FirstspikeError
from firstspike.functional import predict, spike_times
from firstspike.models import Network, build, load, save
from firstspike.nn import AMOS, Neuron, Normalisation
from tests.models.zoo import images


def falling(fall: float = 0.75, T: int = 4, **options: object) -> Network:
    torch.manual_seed(0)
    return build("C4K3-P2-FC10", (1, 8, 8), T, fall=fall, **options).eval()


def test_the_output_fires_where_the_membrane_first_meets_the_falling_threshold() -> None:
    net = falling()
    output = net(images(net, 64))
    ladder = torch.tensor([1.75, 1.25, 0.75, 0.25])[:, None, None]
    above = (output.membrane >= ladder).cumsum(0) > 0
    assert torch.equal(output.spikes.cumsum(0) > 0, above)
    assert output.spikes.sum(2).argmax(0).float().mean() > 0  # some wait


def test_stepping_and_saving_keep_the_fall(tmp_path: Path) -> None:
    net = falling()
    x = images(net, 16)
    wanted = net(x).spikes
    state, steps = net.start(x), []
    for _ in range(net.T):
        step, state = net.step(None, state)
        steps.append(step.spikes)
    assert torch.equal(torch.stack(steps), wanted)
    save(net, tmp_path / "model")
    assert torch.equal(load(tmp_path / "model")(x).spikes, wanted)
    answer = firstspike.infer(net, x, ties="strict")
    assert torch.equal(torch.as_tensor(answer.label), spike_times(wanted).argmin(1))


@pytest.mark.parametrize(("fall", "lift"), [(0.75, 0.0), (1.5, -0.5), (0.0, 0.4)])
@pytest.mark.parametrize("T", [2, 4, 8])
def test_fusing_folds_the_fall_into_weights_and_bias(T: int, fall: float, lift: float) -> None:
    net = falling(fall, T, lift=lift).double()
    for parameter in net.readout.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    fused, x = net.fuse(), images(net, 64)
    assert fused.config.fall == fused.config.lift == 0
    assert fused.readout.neuron.threshold == 1.0
    whole, plain = net(x), fused(x)
    assert torch.equal(plain.spikes, whole.spikes)
    for rule in ("strict", "potential"):
        answers = [predict(output.spike_times, output.membrane, rule).label for output in (whole, plain)]
        assert torch.equal(*answers)


@pytest.mark.parametrize(
    "options", [{"neuron": Neuron(threshold=0.1, tau=2.0)}, {"normalisation": Normalisation(bias=False)}]
)
def test_where_no_bias_can_stand_in_the_threshold_goes_on_falling(options: dict[str, object]) -> None:
    net = falling(**options)
    fused, x = net.fuse(), images(net, 32)
    assert fused.config.fall == net.config.fall
    assert torch.equal(fused(x).spikes, net(x).spikes)
    assert not torch.equal(fused(x).spikes, falling(0.0, **options)(x).spikes)


def test_the_order_of_near_answers_is_told_by_their_time() -> None:
    """Two membranes over V tie under a fixed threshold; a falling one gives the higher the first word."""
    membrane = torch.tensor([1.1, 1.4, 0.2]).expand(4, 1, 3)
    current = torch.cat([membrane[:1], torch.zeros(3, 1, 3)])
    fixed, falling = AMOS(), AMOS(Neuron(), channels=3, T=4, fall=0.75)
    assert predict(spike_times(fixed.eval()(current)), membrane).label == 0
    assert predict(spike_times(falling.eval()(current)), membrane).label == 1


def test_bad_falls_are_refused() -> None:
    with pytest.raises(FirstspikeError, match="falls by 0 or more, not -1"):
        falling(-1.0)
    with pytest.raises(FirstspikeError, match="either learned or falls"):
        falling(neuron=Neuron(learn_threshold="channel"))
    with pytest.raises(FirstspikeError, match="needs the number of channels and T"):
        AMOS(Neuron(), fall=0.5)
    with pytest.raises(FirstspikeError, match=r"begins at -0\.5 V: it must begin above 0"):
        falling(0.5, lift=-2.0)


def test_another_fall_is_what_a_network_built_with_it_has() -> None:
    net, x = falling(0.25), images(falling(), 32)
    membrane = net(x).membrane
    net.set_fall(1.5, -0.25)
    wanted = falling(1.5, lift=-0.25)
    assert net.config == wanted.config
    assert torch.equal(net(x).spikes, wanted(x).spikes)
    assert torch.equal(net(x).membrane, membrane)
    assert torch.equal(net.train()(x).spikes, wanted.train()(x).spikes)


@pytest.mark.parametrize("kind", ["weight", "batch", "none"])
def test_more_steps_leave_the_weights_and_the_first_membranes_as_they_are(kind: str, tmp_path: Path) -> None:
    net = falling(normalisation=Normalisation(kind=kind)).double()
    x = images(net, 64)
    before = net(x).membrane
    net.set_fall(1.0, -0.25, T=7)
    whole = net(x)
    assert net.T == len(whole.spikes) == 7
    assert torch.equal(whole.membrane[:4], before)
    levels = torch.linspace(1.75, -0.25, 7)[:, None, None]
    assert torch.equal(whole.spikes.cumsum(0) > 0, (whole.membrane >= levels).cumsum(0) > 0)
    assert torch.equal(net.fuse()(x).spikes, whole.spikes)
    save(net, tmp_path / "model")
    assert torch.equal(load(tmp_path / "model")(x).spikes, whole.spikes)
    state, steps = net.start(x), []
    for _ in range(net.T):
        step, state = net.step(None, state)
        steps.append(step.spikes)
    assert torch.equal(torch.stack(steps), whole.spikes)


def test_a_network_with_more_steps_goes_on_training_over_them() -> None:
    net = falling().train()
    net.set_fall(0.5, T=6)
    output = net(images(net, 8))
    assert (len(output.spikes), len(output.membrane)) == (6, 5)
    assert torch.equal(output.spikes.sum(0), torch.ones_like(output.spikes[0]))


@pytest.mark.parametrize(
    "options", [{"encoding": "latency"}, {"fall": 0.0, "neuron": Neuron(learn_threshold="channel-step")}]
)
def test_a_network_whose_input_or_thresholds_know_the_steps_keeps_them(options: dict[str, object]) -> None:
    net = falling(**options)
    with pytest.raises(FirstspikeError, match="other than its T = 4 steps"):
        net.set_fall(0.5, T=8)
    assert net.T == 4
