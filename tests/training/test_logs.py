"""JSON lines always, TensorBoard where it is installed."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from firstspike.training import Options, Run, fit
from firstspike.training.logs import Logs
from tests.training.small import recipe, trainer, watched

LAYERS = {"1.FC4": {"gradient": 0.5, "weight": 1.0, "fired": [0.5, 0.25, 0.0], "silent": 0.25}}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run.create(recipe(), tmp_path / "run")


def board(run: Run) -> Any:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    return EventAccumulator(str(run.folder / "tensorboard"), size_guidance={"histograms": 0}).Reload()


def test_numbers_arrive_in_both(run: Run) -> None:
    logs = Logs(run)
    logs.log("epoch", 24, epoch=1, lr=0.1, train_loss=0.5, validation_strict=90.0)
    logs.log("layers", 24, epoch=1, layers=LAYERS)
    logs.log("collapse", 24, collapse="silent", layer="1.FC4", sentence="Layer 1.FC4 is silent.")
    logs.close()
    assert run.metrics("epoch")[0]["train_loss"] == 0.5
    assert run.metrics("layers")[0]["layers"] == LAYERS
    shown = board(run)
    assert {"train/loss", "validation/strict", "run/lr", "gradient norm/1.FC4", "silent share/1.FC4"} <= set(
        shown.Tags()["scalars"]
    )
    assert [(event.step, event.value) for event in shown.Scalars("train/loss")] == [(24, 0.5)]
    histogram = shown.Histograms("firing times/1.FC4")[0].histogram_value
    assert list(histogram.bucket) == [0.5, 0.25, 0.0]
    assert list(histogram.bucket_limit) == [0.5, 1.5, 2.5]


def test_a_resumed_run_continues_the_same_log_without_the_steps_done_again(run: Run) -> None:
    first = Logs(run)
    for epoch in (1, 2, 3):
        first.log("epoch", 24 * epoch, epoch=epoch, train_loss=1.0)
    first.close()
    second = Logs(run, resumed_at=24)
    second.log("epoch", 48, epoch=2, train_loss=2.0)
    second.close()
    events = [(event.step, event.value) for event in board(run).Scalars("train/loss")]
    assert events == [(24, 1.0), (48, 2.0)]


@pytest.mark.parametrize("missing", [True, False])
def test_nothing_breaks_where_tensorboard_is_missing_or_unwanted(
    missing: bool, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    if missing:
        monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    logs = Logs(run, tensorboard=missing)
    logs.log("epoch", 24, epoch=1, train_loss=0.5)
    logs.close()
    assert run.metrics("epoch")
    assert not (run.folder / "tensorboard").exists()


def test_only_the_leading_process_writes(run: Run) -> None:
    logs = Logs(run, writes=False)
    logs.log("epoch", 24, epoch=1)
    logs.close()
    assert not run.metrics("epoch")
    assert not (run.folder / "tensorboard").exists()


def test_a_board_that_cannot_be_written_does_not_cost_the_run(run: Run) -> None:
    class Full:
        def add_scalar(self, *_: object) -> None:
            raise OSError(28, "No space left on device")

    logs = Logs(run, tensorboard=False)
    logs._board = Full()
    for epoch in (1, 2):
        logs.log("epoch", epoch, epoch=epoch, train_loss=0.5)
    assert len(run.metrics("epoch")) == 2


def test_a_run_is_shown_by_default(tmp_path: Path) -> None:
    run = fit(recipe(epochs=1), tmp_path / "run", options=Options(device="cpu"))
    tags = board(run).Tags()
    assert "train/accuracy" in tags["scalars"]
    assert "gradient norm/1.FC16" in tags["scalars"]
    assert "firing times/2.FC4" in tags["histograms"]


def test_every_line_is_json_for_others_too(tmp_path: Path) -> None:
    one = trainer(recipe(epochs=2))
    run = Run.create(one.recipe, tmp_path / "run")
    watched(one, run, steps=48)

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    for line in (run.folder / "metrics.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=refuse)
