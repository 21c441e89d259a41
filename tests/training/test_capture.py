"""A step on memory that stays where it is trains as a plain one does, with a graph and without."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from firstspike.data import Augment
from firstspike.training import Recipe, Run
from firstspike.training.capture import StaticStep, can_capture
from firstspike.training.distributed import find_place
from firstspike.training.logs import Logs
from firstspike.training.optimizer import OptimizerConfig, Schedule
from firstspike.training.recipe import NetConfig
from firstspike.training.trainer import Trainer
from firstspike.training.watch import Watch
from tests.training.small import recipe

AUGMENT = Augment(crop=1, flip=True, mixup=0.2)
RECIPES = {
    "sgd": recipe("C6K3-P2-FC8-FC4", optimizer=OptimizerConfig("sgd", clip=1.0, ema=0.9), augment=AUGMENT),
    "adamw": recipe("FC16-FC4", optimizer=OptimizerConfig("adamw", lr=1e-2, weight_decay=1e-2)),
    "muon": recipe("C6K3-C6K3-P2-FC4", optimizer=OptimizerConfig("muon", lr=1e-2, weight_decay=1e-2)),
    "dropout": recipe(network=NetConfig("FC16-FC4", dropout=0.3)),
    "grow": recipe("C6K3-P2-FC8-FC4", schedule=Schedule(grow=(2,), grow_at=(0.5,))),
}


@pytest.fixture(params=list(RECIPES))
def each(request: pytest.FixtureRequest) -> Iterator[Recipe]:
    benchmark = torch.backends.cudnn.benchmark
    yield RECIPES[request.param]
    torch.backends.cudnn.benchmark = benchmark


def make(of: Recipe, device: str, **options: bool) -> Trainer:
    trainer = Trainer(of, find_place(device))
    for name, value in options.items():
        setattr(trainer, name, value)
    return trainer


def two_epochs(trainer: Trainer, static: bool = False, from_step: int = 0) -> dict[str, torch.Tensor]:
    """Train, and return all that came of it."""
    static_step = StaticStep(trainer, graph=False)
    meters = []
    trainer.step = from_step
    while trainer.epoch < 2:
        trainer.take_steps()
        if static:
            static_step.begin()
            while trainer.step < len(trainer.batches):
                static_step()
        else:
            for _ in trainer.rest_of_epoch():
                pass
        meters.append(trainer.meter.sums.clone())
        trainer.meter.reset()
        trainer.epoch, trainer.step = trainer.epoch + 1, 0
    return outcome(trainer) | {"meters": torch.stack(meters)}


def outcome(trainer: Trainer) -> dict[str, torch.Tensor]:
    values = {name: value.clone() for name, value in trainer.model.state_dict().items()}
    if trainer.average:
        values |= {f"average {index}": value for index, value in enumerate(trainer.average.values)}
    rates = [group["lr"] for optimizer in trainer.optimizers for group in optimizer.param_groups]
    assert all(isinstance(rate, float) for rate in rates)
    return values | {"rates": torch.tensor(rates)}


def same(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor], tolerance: float) -> None:
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=tolerance, atol=tolerance, msg=name)


@pytest.mark.parametrize("from_step", [0, 7])
def test_a_static_step_trains_as_a_plain_one(each: Recipe, from_step: int) -> None:
    results = []
    for static in (False, True):
        trainer = make(each, "cpu")
        if trainer.average:
            trainer.average.updates = from_step
        results.append(two_epochs(trainer, static, from_step))
        assert not trainer.average or trainer.average.updates == 2 * len(trainer.batches)
    same(results[1], results[0], 1e-4)


def test_exchanging_the_average_leaves_tensors_where_they_are() -> None:
    trainer = make(RECIPES["sgd"], "cpu")
    assert trainer.average is not None
    before = [value.data_ptr() for value in trainer.average.values]
    next(trainer.rest_of_epoch())
    average = [value.clone() for value in trainer.average.values]
    trainer.average.swap(trainer.model)
    assert all(map(torch.equal, average, trainer.model.parameters()))
    trainer.average.swap(trainer.model)
    assert all(map(torch.equal, average, trainer.average.values))
    assert [value.data_ptr() for value in trainer.average.values] == before


def test_the_cpu_takes_plain_steps() -> None:
    assert not can_capture(make(RECIPES["adamw"], "cpu"))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_replayed_step_trains_as_a_plain_one(each: Recipe) -> None:
    each = replace(each, precision="float32")
    expected = two_epochs(make(each, "cuda", capture=False))
    trainer = make(each, "cuda")
    found = two_epochs(trainer)
    assert trainer.static_step is not None
    assert trainer.static_step.graph is not None, trainer.static_step.failure
    assert all(parameter.grad is not None for parameter in trainer.model.parameters())
    # Muon's products are in bfloat16, and cuDNN may add in another order: a flipped spike moves weights a little
    same(found, expected, 2e-2)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_run_restored_in_the_middle_goes_on_as_before(each: Recipe) -> None:
    each = replace(each, precision="float32")
    whole = make(each, "cuda")
    state = {}
    for _ in whole.rest_of_epoch():
        if whole.step == 9:
            state = whole.state()
    again = make(each, "cuda")
    again.restore(state)
    for _ in again.rest_of_epoch():
        pass
    assert again.steps_taken == whole.steps_taken
    same(outcome(again), outcome(whole), 2e-2)


def test_a_step_that_could_not_be_captured_is_told_of_once(tmp_path: Path) -> None:
    trainer = make(RECIPES["adamw"], "cpu")
    run = Run.create(trainer.recipe, tmp_path / "run")
    watch = Watch(trainer, Logs(run, tensorboard=False))
    trainer.static_step = StaticStep(trainer, graph=False)
    trainer.step = len(trainer.batches)
    assert watch.after_step() == []
    trainer.static_step.failure = "operation not permitted\nwhen capturing"
    (message,) = watch.after_step()
    assert message.endswith("several times slower: operation not permitted")
    assert watch.after_step() == []
    assert run.metrics("no-graph")[0]["reason"] == trainer.static_step.failure
