"""Several processes train as one does, stop together, and do not wait for each other for ever."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from firstspike.cli.show import STOPPED_STATUS
from firstspike.data import Augment
from firstspike.nn import Neuron, Normalisation
from firstspike.training import Options, Recipe, Run, fit, resume
from firstspike.training.distributed import REASONS, Lockstep, Place
from firstspike.training.loss import Loss
from firstspike.training.optimizer import OptimizerConfig
from firstspike.training.recipe import DataConfig, NetConfig
from tests.training.processes import ONE_THREAD, end, everything_random, start_many, stop, write_recipe
from tests.training.small import blobs

CPU = Options(device="cpu", tensorboard=False)


def recipe(epochs: int = 1, **changes: Any) -> Recipe:
    """Nothing random but what each sample brings along. AdamW would turn rounding into sign flips; SGD does not."""
    fixed: dict[str, Any] = {
        "data": DataConfig(blobs()),
        "augment": Augment(crop=1, mixup=0.5),
        "network": NetConfig("C4K3-P2-FC16-FC4"),
        "optimizer": OptimizerConfig("sgd", lr=0.02, ema=0.9),
    }
    return everything_random(epochs, **(fixed | changes))


def train_as_two(given: Recipe, folder: Path, *flags: str) -> Path:
    out = folder / "two"
    args = [
        "train",
        write_recipe(given, folder),
        "--out",
        str(out),
        "--device",
        "cpu",
        "--no-tensorboard",
        *flags,
    ]
    statuses = [end(process) for process in start_many([args, args], folder / "log")]
    assert statuses == [0, 0], (folder / "log.0").read_text() + (folder / "log.1").read_text()
    return out


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model" / "model.safetensors")


def assert_alike(one: Path, other: Path) -> None:
    for name, value in weights(one).items():
        torch.testing.assert_close(
            weights(other)[name],
            value,
            rtol=1e-3,
            atol=1e-4,
            msg=lambda m: f"{name}: {m}",  # noqa: B023
        )
    for first, second in zip(Run(one).metrics("epoch"), Run(other).metrics("epoch"), strict=True):
        for name in ("train_loss", "train_accuracy", "train_steps"):
            # The same samples, mixed with the same partners: the sums over the epoch agree.
            assert second[name] == pytest.approx(first[name], rel=1e-3)


VARIANTS = {
    "weight normalisation": recipe(),
    "batch normalisation": recipe(normalisation=Normalisation("batch")),
    "a relu twin with idle thresholds": recipe(
        network=NetConfig("C4K3-P2-FC16-FC4", unit="relu"), neuron=Neuron(learn_threshold="channel")
    ),
    "a loss that leaves the output's thresholds idle": recipe(
        loss=Loss(mse=0.0, membrane=1.0), neuron=Neuron(learn_threshold="channel-step")
    ),
}


@pytest.mark.parametrize("given", VARIANTS.values(), ids=VARIANTS.keys())
def test_two_processes_train_as_one_does(given: Recipe, tmp_path: Path) -> None:
    two = train_as_two(given, tmp_path)
    one = fit(given, tmp_path / "one", options=CPU)
    assert_alike(one.folder, two)
    assert one.summary is not None


def test_a_signal_to_one_process_stops_both_at_one_step_and_any_number_may_go_on(tmp_path: Path) -> None:
    given, out = recipe(40), tmp_path / "run"
    args = ["train", write_recipe(given, tmp_path), "--out", str(out), "--device", "cpu", "--no-tensorboard"]
    first, second = start_many([args, args], tmp_path / "log")
    until = time.monotonic() + 60
    while not Run(out).metrics("epoch") and time.monotonic() < until:
        time.sleep(0.01)
    assert stop(second, signal.SIGTERM) == STOPPED_STATUS
    assert end(first) == STOPPED_STATUS
    assert "Stopped by SIGTERM" in (tmp_path / "log.0").read_text()
    (checkpoint,) = (out / "checkpoints").iterdir()
    assert int(checkpoint.name) < 40 * 24

    assert resume(out, options=Options(device="cpu", max_minutes=0.05)).metrics("resumed")


def test_another_number_of_processes_may_go_on(tmp_path: Path) -> None:
    given, flags = recipe(), ["--device", "cpu", "--no-tensorboard"]
    begun = fit(given, tmp_path / "run", options=Options(device="cpu", max_minutes=0)).folder
    args = ["resume", str(begun), *flags, "--max-minutes", "0"]
    processes = start_many([args, args], tmp_path / "log")
    assert [end(process) for process in processes] == [STOPPED_STATUS] * 2, (tmp_path / "log.0").read_text()
    assert resume(begun, options=CPU).summary
    assert len(Run(begun).metrics("resumed")) == 2
    assert_alike(fit(given, tmp_path / "one", options=CPU).folder, begun)


def test_a_process_that_fails_takes_the_others_with_it(tmp_path: Path) -> None:
    good = ["train", write_recipe(recipe(), tmp_path), "--out", str(tmp_path / "run"), "--device", "cpu"]
    bad = [*good, "--data.name", "nosuch.npz"]
    first, second = start_many([good, bad], tmp_path / "log")
    assert end(second, 30) == 2
    assert end(first, 30) == 2
    assert "nosuch.npz" in (tmp_path / "log.1").read_text()
    assert "stopped because another one did" in (tmp_path / "log.0").read_text()
    assert not (tmp_path / "run").exists()


def test_a_folder_that_is_taken_is_refused_by_all(tmp_path: Path) -> None:
    fit(recipe(), tmp_path / "run", options=Options(device="cpu", max_minutes=0))
    args = ["train", write_recipe(recipe(), tmp_path), "--out", str(tmp_path / "run"), "--device", "cpu"]
    assert [end(process, 30) for process in start_many([args, args], tmp_path / "log")] == [2, 2]
    assert "already holds a run" in (tmp_path / "log.0").read_text()


def test_one_process_alone_decides_at_every_step() -> None:
    lockstep = Lockstep(Place(0, 1, torch.device("cpu")))
    for reason in REASONS:
        assert lockstep.due()
        assert lockstep.agree(reason, True, False) == (reason, [True, False])


def test_torchrun(tmp_path: Path) -> None:
    given = recipe()
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += ["-m", "firstspike", "train", write_recipe(given, tmp_path), "--out", str(tmp_path / "two")]
    command += ["--device", "cpu", "--no-tensorboard"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | ONE_THREAD, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Run folder:") == 1, "only one process prints"
    assert_alike(fit(given, tmp_path / "one", options=CPU).folder, tmp_path / "two")
