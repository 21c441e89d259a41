"""Training that begins with fewer time steps than the network has in the end."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from firstspike.errors import FirstspikeError
from firstspike.models import build, load
from firstspike.nn import Neuron, Normalisation
from firstspike.training import Options, fit
from firstspike.training.loss import Loss
from firstspike.training.optimizer import Schedule
from firstspike.training.recipe import NetConfig, Recipe
from tests.training.small import recipe, trainer

GROWING = Schedule(warmup=0.0, grow=(2, 3), grow_at=(0.25, 0.5))


def growing(**changes: Any) -> Recipe:
    return recipe(
        **{"epochs": 4, "T": 6, "schedule": GROWING, "loss": Loss(mse=0.0, threshold=1.0)} | changes
    )


def test_each_part_of_the_epochs_has_its_steps() -> None:
    assert [GROWING.steps(epoch, 4, 6) for epoch in range(5)] == [2, 3, 6, 6, 6]
    assert [GROWING.steps(epoch, 10, 6) for epoch in range(6)] == [2, 2, 2, 3, 3, 6]
    assert Schedule().steps(0, 1, 6) == 6


@pytest.mark.parametrize("kind", ["weight", "batch"])
def test_growing_changes_the_steps_and_not_the_weights(kind: str) -> None:
    normalisation = Normalisation(kind=kind, variance=2.0)
    one = trainer(growing(normalisation=normalisation))
    whole = build("FC16-FC4", (1, 8, 8), T=6, normalisation=normalisation)
    for epoch, T in enumerate([2, 3, 6]):
        one.epoch = epoch
        one.take_steps()
        assert one.network.T == T
        assert len(one.network.train()(torch.rand(2, 1, 8, 8)).membrane) == T - 1
        for layer, other in zip(one.network.layers, whole.layers, strict=True):
            assert layer.synapse.std == pytest.approx(other.synapse.std, rel=1e-12)


def test_learned_thresholds_go_on_being_learned() -> None:
    one = trainer(growing(neuron=Neuron(learn_threshold="channel")))
    before = list(one.network.parameters())
    with torch.no_grad():
        one.network.readout.neuron.threshold.add_(0.5)
    one.take_steps()
    assert one.network.T == 2
    assert all(now is then for now, then in zip(one.network.parameters(), before, strict=True))
    assert (one.network.readout.neuron.threshold == 1.5).all()


def test_it_learns_and_ends_with_all_its_steps(tmp_path: Path) -> None:
    run = fit(growing(), tmp_path / "run", options=Options(device="cpu", tensorboard=False))
    assert run.summary is not None
    assert run.summary["test"]["T"] == load(run.model).T == 6
    assert run.summary["test"]["strict"] > 80


def test_one_epoch_with_few_steps_is_tested_with_all(tmp_path: Path) -> None:
    run = fit(growing(epochs=1), tmp_path / "run", options=Options(device="cpu", tensorboard=False))
    assert run.summary is not None
    assert run.summary["test"]["T"] == load(run.model).T == 6


@pytest.mark.parametrize(
    ("grow", "at"), [((2,), ()), ((2, 3), (0.5,)), ((2, 3), (0.5, 0.5)), ((2,), (0.0,)), ((2,), (1.0,))]
)
def test_a_schedule_that_cannot_be_followed_is_refused(grow: tuple[int, ...], at: tuple[float, ...]) -> None:
    with pytest.raises(FirstspikeError, match="rising between 0 and 1"):
        Schedule(grow=grow, grow_at=at)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schedule": replace(GROWING, grow=(1, 3))}, "T = 1 leaves nothing to learn from"),
        ({"loss": Loss(mse=0.0, threshold=1.0, first_step=1)}, "looks at steps 0 to 0"),
        ({"encoding": "latency"}, "others know their number of steps"),
        ({"neuron": Neuron(learn_threshold="channel-step")}, "others know their number of steps"),
        ({"network": NetConfig("FC16-FC4", unit="relu")}, "others know their number of steps"),
    ],
)
def test_what_knows_its_steps_cannot_grow(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(FirstspikeError, match=message):
        growing(**changes)


def test_a_module_of_the_users_own_cannot_grow() -> None:
    with pytest.raises(FirstspikeError, match="which this model is not"):
        trainer(growing(), torch.nn.Linear(64, 4))
