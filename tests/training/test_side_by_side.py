"""Runs in processes of their own, side by side, are the runs that would have been trained one after the other."""

import json
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from firstspike.cli import main
from firstspike.cli.show import STOPPED_STATUS
from firstspike.config import to_dict
from firstspike.errors import FirstspikeError
from firstspike.training import Options, Run
from firstspike.training.side_by_side import Job, check_jobs, environment, refuse_broken, side_by_side
from firstspike.training.worker import Caller, train_one
from tests.training.processes import ONE_THREAD, outcome, start, stop, write_recipe
from tests.training.small import recipe

SMALL = recipe("FC16-FC4", epochs=1)
EPOCHS = 12
"""Enough to be stopped on the way."""
OPTIONS = Options(device="cpu", tensorboard=False)
CPU = ["--device", "cpu", "--no-tensorboard"]


@pytest.fixture(autouse=True)
def _one_thread_in_children(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firstspike.training.side_by_side.environment", lambda _: os.environ | ONE_THREAD)


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--jobs", "0"], "--jobs is 0: give 1 or more"),
        (["--jobs", "2", "--ray"], "--jobs and --ray both train runs side by side"),
    ],
)
def test_jobs_that_make_no_sense_are_refused(
    flags: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    for command in (
        ["train", write_recipe(SMALL, tmp_path), "--seeds", "2", "--out", str(out)],
        ["resume", str(out)],
    ):
        with pytest.raises(SystemExit) as ended:
            main([*command, *CPU, *flags])
        assert ended.value.code == 2
        assert sentence in capsys.readouterr().err
    assert not out.exists()


def test_jobs_under_torchrun_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    check_jobs(1)
    with pytest.raises(FirstspikeError, match="without torchrun"):
        check_jobs(2)


def test_the_cores_are_shared_out_unless_the_user_has_done_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("NUMBA_NUM_THREADS", "5")
    assert [environment(at_once)["OMP_NUM_THREADS"] for at_once in (1, 3, 20)] == ["8", "2", "1"]
    assert environment(3)["NUMBA_NUM_THREADS"] == "5"


def test_a_sweep_comes_out_as_one_after_the_other_failures_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = write_recipe(SMALL, tmp_path)
    swept = ["--sweep", "optimizer.lr", "1e38", "0.1", "--normalisation.kind", "none", *CPU]
    main(["train", given, *swept, "--out", str(tmp_path / "local")])
    capsys.readouterr()
    main(["train", given, *swept, "--out", str(tmp_path / "jobs"), "--jobs", "2"])
    said = capsys.readouterr()

    local, jobs = (json.loads((tmp_path / name / "results.json").read_text()) for name in ("local", "jobs"))
    assert jobs["rows"] == local["rows"]
    good, bad = "02-optimizer.lr=0.1", "01-optimizer.lr=1e38"
    assert outcome(tmp_path / "jobs" / good) == outcome(tmp_path / "local" / good)
    assert Run(tmp_path / "jobs" / good).recipe == Run(tmp_path / "local" / good).recipe
    lines = said.err.splitlines()
    assert lines[:2] == [f"[1/2] {bad}: training", f"[2/2] {good}: training"]
    test = jobs["runs"][1]["test"]
    measures = f"{good}: strict {test['strict']:.2f} %, potential {test['potential']:.2f} %, "
    assert any(line.startswith(measures) for line in lines)
    assert any(line.startswith(f"{bad} failed, ") and "NaN" in line for line in lines)
    assert "failed: " in said.out


def test_processes_that_break_off_are_named_and_the_others_go_on(tmp_path: Path) -> None:
    jobs = [Job(name, Run(tmp_path / name), SMALL) for name in ("one", "two")]
    lines: list[str] = []
    ends = side_by_side(jobs, 1, OPTIONS, lines.append, worker="nosuch")
    assert ends == {"one": "broken", "two": "broken"}
    assert [line.partition(",")[0] for line in lines] == [
        *("[1/2] one: training", "one broken"),
        *("[2/2] two: training", "two broken"),
    ]
    assert lines[1].endswith("No module named nosuch")
    with pytest.raises(FirstspikeError, match=r"^one, two broke off: see output.log .* go on with `this`\.$"):
        refuse_broken(ends, "`this`")


def test_what_cannot_start_is_no_failure_of_the_run(tmp_path: Path) -> None:
    """Data that are not there say nothing about the run: it is to be tried again."""
    lost = replace(SMALL, data=replace(SMALL.data, name=str(tmp_path / "lost.npz")))
    given = (str(tmp_path / "run"), to_dict(lost), to_dict(OPTIONS))
    ended = train_one(Caller(os.getcwd(), sys.argv), *given)
    assert ended.startswith("not started: ")
    assert "lost.npz" in ended
    assert not (tmp_path / "run").exists()


def test_a_signal_stops_all_with_a_checkpoint_and_they_go_on(tmp_path: Path) -> None:
    given, out = write_recipe(replace(SMALL, epochs=EPOCHS), tmp_path), tmp_path / "out"
    command = ["train", given, "--seeds", "2", "--jobs", "2", "--out", str(out), *CPU]
    parent = start(command, tmp_path / "log")
    first, second = (Run(out / f"seed{seed}") for seed in (0, 1))
    until = time.monotonic() + 60
    while not first.metrics("epoch") and time.monotonic() < until:
        time.sleep(0.01)
    assert stop(parent, signal.SIGTERM) == STOPPED_STATUS
    said = (tmp_path / "log").read_text()
    assert "Stopped by SIGTERM; resumable." in said
    assert f"Continue with: firstspike resume {out}" in said
    assert len(list(first.checkpoints.iterdir())) == 1

    main(["resume", str(out), *CPU])
    assert first.metrics("resumed")
    for run in (first, second):
        assert [line["epoch"] for line in run.metrics("epoch")] == list(range(1, EPOCHS + 1))
        assert run.summary is not None


def test_the_time_limit_is_that_of_all_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    for command in (
        ["train", write_recipe(SMALL, tmp_path), "--seeds", "2", "--out", str(out)],
        ["resume", str(out)],
    ):
        with pytest.raises(SystemExit) as ended:
            main([*command, "--jobs", "2", "--max-minutes", "0", *CPU])
        assert ended.value.code == STOPPED_STATUS
        assert "Stopped by the time limit; resumable." in capsys.readouterr().err
