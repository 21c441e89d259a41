"""The fall of the output's threshold, chosen when training is over."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from firstspike.errors import FirstspikeError
from firstspike.models import build, load
from firstspike.nn import Neuron
from firstspike.training import Options, fit
from firstspike.training.fall import best_fall, try_fall
from firstspike.training.loss import Loss
from firstspike.training.recipe import NetConfig
from tests.training.small import recipe


def unsure(classes: int = 10, count: int = 2000) -> tuple[torch.Tensor, torch.Tensor]:
    """Membranes `[4, N, C]` that know the label but hardly ever reach V."""
    torch.manual_seed(0)
    labels = torch.randint(0, classes, (count,))
    membrane = 0.3 * torch.randn(count, classes) - 0.8
    membrane[torch.arange(count), labels] += 1.2
    return membrane.expand(4, -1, -1), labels


def test_a_fall_is_tried_as_a_network_with_it_answers() -> None:
    torch.manual_seed(0)
    net = build("FC16-FC10", (1, 4, 4), T=4, fall=1.25, lift=-0.5).eval()
    x, labels = torch.rand(256, 1, 4, 4), torch.randint(0, 10, (256,))
    with torch.no_grad():
        output = net(x)
    found = try_fall(output.membrane, labels, 1.0, 1.25, -0.5)
    times = output.spike_times
    assert found.strict == pytest.approx(100 * float((times.argmin(1) == labels).float().mean()))
    assert found.steps == pytest.approx(float(times.amin(1).clamp(max=3).float().mean()) + 1)
    assert len(times.amin(1).unique()) > 1


def test_membranes_below_the_threshold_get_one_that_reaches_them() -> None:
    membrane, labels = unsure()
    net = build("FC16-FC10", (1, 4, 4), T=4, fall=0.75)
    before = try_fall(membrane, labels, 1.0, 0.75, 0.0)
    found = best_fall(membrane, labels, net)
    assert before.strict < 75 < 90 < found.strict
    assert try_fall(membrane, labels, 1.0, found.fall, found.lift) == found
    best = 100 * float((membrane[0].argmax(1) == labels).float().mean())
    assert found.strict > best - 5


def test_of_falls_that_are_as_good_the_fastest_is_taken() -> None:
    labels = torch.arange(10).repeat(100)
    membrane = torch.nn.functional.one_hot(labels, 10).float().mul(9.0).expand(4, -1, -1)
    found = best_fall(membrane, labels, build("FC16-FC10", (1, 4, 4), T=4, fall=0.75))
    assert (found.strict, found.steps) == (100, 1)


def test_steps_beyond_those_of_training_part_answers_that_tie() -> None:
    torch.manual_seed(0)
    labels = torch.randint(0, 10, (2000,))
    membrane = 0.7 * torch.randn(2000, 10)
    membrane[torch.arange(2000), labels] += 1.2
    net = build("FC16-FC10", (1, 4, 4), T=3, fall=0.75)
    few, many = (best_fall(membrane.expand(T, -1, -1), labels, net) for T in (3, 8))
    assert few.T == 3 < many.T
    assert few.strict + 1 < many.strict <= 100 * float((membrane.argmax(1) == labels).float().mean())


def test_a_limit_on_the_mean_steps_is_kept_at_the_least_cost() -> None:
    membrane, labels = unsure()
    net = build("FC16-FC10", (1, 4, 4), T=4, fall=0.75)
    free, fast = best_fall(membrane, labels, net), best_fall(membrane, labels, net, mean_steps=1.35)
    assert fast.steps <= 1.35 < free.steps
    assert fast.strict < free.strict
    silent = membrane - 100  # never answers: takes the fastest there is
    assert best_fall(silent, labels, net, mean_steps=1.35).steps == 4


def test_a_run_may_answer_within_more_steps_than_it_was_trained_for(tmp_path: Path) -> None:
    network = NetConfig("FC16-FC4", choose_fall=True, answer_steps=6)
    of = recipe(network=network, loss=Loss(mse=0.0, threshold=1.0), epochs=1)
    run = fit(of, tmp_path / "run", options=Options(device="cpu", tensorboard=False))
    assert run.summary is not None
    assert load(run.model).T == run.summary["fall"]["T"] == run.summary["test"]["T"]


@pytest.mark.parametrize(
    ("network", "changes", "message"),
    [
        ({"answer_steps": 8}, {}, "set network.choose_fall as well"),
        ({"choose_fall": True, "answer_steps": 300}, {}, "between 0 and 255, not 300"),
        ({"choose_fall": True, "mean_steps": 0.5}, {}, "takes at least 1 step"),
        ({"choose_fall": True, "answer_steps": 8}, {"encoding": "latency"}, "not encoding=latency"),
        ({"choose_fall": True}, {"neuron": Neuron(learn_threshold="channel")}, "either learned or chosen"),
    ],
)
def test_a_choice_that_could_not_be_made_is_refused_at_the_start(
    network: dict[str, Any], changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(FirstspikeError, match=message):
        recipe(network=NetConfig("FC16-FC4", **network), **changes)


@pytest.mark.parametrize("held_out", [0.0, 0.25])
def test_a_run_chooses_saves_and_tells_its_fall(tmp_path: Path, held_out: float) -> None:
    network = NetConfig("FC16-FC4", fall=3.0, choose_fall=True)
    of = recipe(network=network, loss=Loss(mse=0.0, threshold=1.0), epochs=2)
    of = replace(of, data=replace(of.data, validation=held_out))
    run = fit(of, tmp_path / "run", options=Options(device="cpu", tensorboard=False))
    assert run.summary is not None
    chosen = run.summary["fall"]
    net = load(run.model)
    assert (net.config.fall, net.config.lift) == (chosen["fall"], chosen["lift"]) != (3.0, 0.0)
    assert ("validation" in chosen["chosen_on"]) == bool(held_out)
    assert "samples" in chosen["chosen_on"]
