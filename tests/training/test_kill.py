"""Runs that are killed or stopped, and resumed, end as if nothing had happened."""

import os
import random
import signal
import time
from pathlib import Path

import pytest

import firstspike.training.finish as finish_module
from firstspike.cli.show import STOPPED_STATUS
from firstspike.errors import FirstspikeError
from firstspike.nn import Neuron
from firstspike.training import Options, Recipe, Run, fit, resume
from firstspike.training.optimizer import Schedule
from tests.training.processes import end, everything_random, outcome, start, stop, write_recipe

ALWAYS = ["--device", "cpu", "--checkpoint-minutes", "0"]
CPU = Options(device="cpu")
STEPS = 57
"""Steps of the run that all of them are compared with."""


def everything_changing() -> Recipe:
    """A recipe with all that draws random numbers or keeps state, and with more time steps after the first epoch."""
    return everything_random(schedule=Schedule(grow=(2,), grow_at=(0.3,)))


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nobody disturbed."""
    folder = tmp_path_factory.mktemp("unbroken")
    args = ["train", write_recipe(everything_changing(), folder), "--out", str(folder / "run"), *ALWAYS]
    assert end(start(args, folder / "log")) == 0, (folder / "log").read_text()
    return folder / "run"


def newest(out: Path) -> int:
    """The step of the newest checkpoint."""
    return max((int(path.name) for path in (out / "checkpoints").glob("[0-9]*")), default=0)


def killed_until_done(folder: Path, chance: random.Random) -> int:
    """Run and kill at random moments until the run is finished; how often it was killed."""
    recipe, out = write_recipe(everything_changing(), folder), folder / "run"
    for kills in range(100):
        begun = (out / "recipe.json").exists()
        args = ["resume", str(out), *ALWAYS] if begun else ["train", recipe, "--out", str(out), *ALWAYS]
        step = min(newest(out) + chance.randint(0, 30), STEPS)
        process = start(args, folder / "log")
        while newest(out) < step and process.exitcode is None:
            time.sleep(0.001)
        # Anywhere in a step or in the writing of its checkpoint; in the end, anywhere in what follows the last, with
        # ever more patience, because a busy machine may not get that far in any fixed time.
        process.join(chance.uniform(0, 0.05 if step < STEPS else 0.5 + 0.5 * kills))
        status = process.exitcode if process.exitcode is not None else stop(process, signal.SIGKILL)
        if status != -signal.SIGKILL:
            assert status == 0, (folder / "log").read_text()
            return kills
    raise AssertionError("it never comes to an end")


@pytest.mark.parametrize(
    "runs", [3, pytest.param(20, marks=pytest.mark.slow)], ids=["three runs", "twenty runs"]
)
def test_runs_killed_at_random_moments_end_bit_identical(runs: int, unbroken: Path, tmp_path: Path) -> None:
    expected, kills = outcome(unbroken), 0
    for number in range(runs):
        folder = tmp_path / str(number)
        folder.mkdir()
        kills += killed_until_done(folder, random.Random(number))
        assert outcome(folder / "run") == expected
        assert not list(folder.rglob("*.part*")), "something half-written is left"
    assert kills >= runs


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_leaves_a_checkpoint_of_that_moment_and_status_3(
    number: signal.Signals, unbroken: Path, tmp_path: Path
) -> None:
    out, recipe = tmp_path / "run", write_recipe(everything_changing(), tmp_path)
    process = start(["train", recipe, "--out", str(out), "--device", "cpu"], tmp_path / "log")
    until = time.monotonic() + 60
    while not Run(out).metrics("epoch") and time.monotonic() < until:
        time.sleep(0.001)
    assert stop(process, number) == STOPPED_STATUS
    said = (tmp_path / "log").read_text()
    assert f"Stopped by {number.name}" in said
    assert f"firstspike resume {out}" in said
    # The interval is far from over: the only checkpoint is the signal's, of a step after the first epoch's 19.
    (checkpoint,) = (out / "checkpoints").iterdir()
    assert int(checkpoint.name) >= 19
    assert Run(resume(out, options=CPU).folder).summary
    assert outcome(out) == outcome(unbroken)


def test_a_run_stopped_by_the_clock_goes_on_along_the_same_schedule(unbroken: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    run = fit(everything_changing(), out, options=Options(device="cpu", max_minutes=0))
    stops = 1
    while run.summary is None:
        resume(out, options=Options(device="cpu", max_minutes=0.05 / 60))
        stops += 1
    assert stops > 2, "it was not stopped on the way"
    assert outcome(out) == outcome(unbroken)


@pytest.mark.parametrize("where", ["score", "draw"])
def test_a_run_killed_while_it_finishes_can_be_resumed(
    where: str, unbroken: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(finish_module, where, killed)
    with pytest.raises(KeyboardInterrupt):
        fit(everything_changing(), tmp_path / "run", options=CPU)
    assert Run(tmp_path / "run").summary is None
    monkeypatch.undo()
    resume(tmp_path / "run", options=CPU)
    assert outcome(tmp_path / "run") == outcome(unbroken)


def test_a_damaged_checkpoint_costs_only_the_way_from_the_one_before(unbroken: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    fit(everything_changing(), out, options=Options(device="cpu", max_minutes=0))
    for _ in range(2):
        resume(out, options=Options(device="cpu", max_minutes=0))
    _, last = sorted((out / "checkpoints").iterdir())
    os.truncate(last / "state.safetensors", 1000)
    with (out / "metrics.jsonl").open("a") as log:
        log.write('{"kind": "epoch", "epo')  # a line that the kill cut short
    process = start(["resume", str(out), *ALWAYS], tmp_path / "log")
    assert end(process) == 0
    assert f"The checkpoint {last} is damaged" in (tmp_path / "log").read_text()
    assert outcome(out) == outcome(unbroken)


def test_a_full_disk_ends_the_run_with_a_sentence_and_keeps_the_last_checkpoint(
    unbroken: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    fit(everything_changing(), out, options=Options(device="cpu", max_minutes=0))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("firstspike.training.checkpoint.save_file", full)
    with pytest.raises(FirstspikeError, match=r"No space left on device.*The one before it is kept"):
        resume(out, options=Options(device="cpu", checkpoint_minutes=0))
    monkeypatch.undo()
    assert [path.name for path in (out / "checkpoints").iterdir()] == ["000000001"]
    resume(out, options=CPU)
    assert outcome(out) == outcome(unbroken)


def test_a_collapse_is_told_of_once_in_a_run_that_is_stopped_after_every_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("firstspike.training.watch.PATIENCE", 20)
    given = everything_random(neuron=Neuron(threshold=30.0))
    unbroken = fit(given, tmp_path / "unbroken", options=CPU)
    assert unbroken.metrics("collapse")
    at_once = Options(device="cpu", max_minutes=0, tensorboard=False)
    stopped, stops = fit(given, tmp_path / "run", options=at_once), 1
    while stopped.summary is None:
        resume(stopped.folder, options=at_once)
        stops += 1
    assert stops == STEPS + 1  # and once more, to finish
    assert outcome(stopped.folder) == outcome(unbroken.folder)


def test_two_processes_do_not_train_in_one_folder(tmp_path: Path) -> None:
    run = fit(everything_random(1), tmp_path / "run", options=Options(device="cpu", max_minutes=0))
    with run.held(), pytest.raises(FirstspikeError, match="Another process is training in"):
        resume(run.folder, options=CPU)
    assert resume(run.folder, options=CPU).summary
