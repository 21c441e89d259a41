"""Many runs of one recipe: planned, checked, trained, resumed, and told in one table."""

import json
import shutil
import sys
import types
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from firstspike.cli import main
from firstspike.cli.show import STOPPED_STATUS
from firstspike.errors import FirstspikeError
from firstspike.training import Run
from firstspike.training.override import override
from firstspike.training.recipe import DataConfig
from firstspike.training.sweep import Axis, Sweep
from tests.training.processes import write_recipe
from tests.training.small import blobs, recipe

SMALL = recipe("FC16-FC4", epochs=1)
CPU = ["--device", "cpu", "--no-tensorboard"]


@pytest.mark.parametrize(
    ("field", "text", "value"),
    [
        ("T", "5", 5),
        ("optimizer.lr", "1e-3", 1e-3),
        ("optimizer.lr", "1", 1.0),
        ("neuron.tau", "none", None),
        ("neuron.tau", "2", 2.0),
        ("neuron.surrogate.kind", "sigmoid", "sigmoid"),
        ("augment.flip", "true", True),
        ("data.name", "5", "5"),
        ("network.start_from", "none", None),
    ],
)
def test_a_value_is_read_by_the_type_of_its_field(field: str, text: str, value: object) -> None:
    found: Any = override(SMALL, field, text)
    for name in field.split("."):
        found = getattr(found, name)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("field", "text", "sentence"),
    [
        ("neuron.tua", "2", r"Unknown field 'neuron.tua': did you mean neuron.tau"),
        ("optimiser.lr", "2", r"did you mean .*optimizer.lr"),
        ("neuron", "2", r"Unknown field 'neuron': did you mean neuron.tau, neuron.threshold"),
        ("T", "4.5", r"T is 4.5, but should be int"),
        ("T", "x", r"T is 'x', but should be int"),
        ("T", "true", r"T is True, but should be int|T is 'true', but should be int"),
        ("optimizer.lr", "fast", r"optimizer.lr is 'fast', but should be float"),
        ("optimizer.kind", "adam", r"optimizer.kind is 'adam': choose one of sgd, adamw, muon"),
        ("augment.flip", "2", r"augment.flip is '2', but should be bool"),
        ("neuron.tau", "0.5", r"at least 1"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(field: str, text: str, sentence: str) -> None:
    with pytest.raises(FirstspikeError, match=sentence):
        override(SMALL, field, text)


def test_a_grid_has_a_run_for_each_combination_and_seed() -> None:
    plan = Sweep(replace(SMALL, seed=7), (Axis("neuron.tau", ("none", "2")), Axis("T", ("2", "4"))), seeds=2)
    made = [(v.recipe.neuron.tau, v.recipe.T, v.recipe.seed) for v in plan.variants]
    assert made == [(tau, T, seed) for tau in (None, 2.0) for T in (2, 4) for seed in (7, 8)]
    assert len({variant.folder for variant in plan.variants}) == 8
    assert plan.variants[-1].folder == "04-neuron.tau=2,T=4/seed8"


def test_folder_names_stay_inside_the_sweep() -> None:
    (variant,) = Sweep(SMALL, (Axis("data.name", ("../../a b/c.npz",)),)).variants
    assert variant.folder == "01-data.name=.._.._a_b_c.npz"


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--sweep", "neuron.tua", "1"], "did you mean neuron.tau"),
        (["--sweep", "neuron.tau"], "has no values"),
        (["--sweep", "T", "2", "1"], "T = 1 leaves nothing to learn from"),
        (["--sweep", "network.architecture", "FC16-FC4", "FC8-C4K9"], "network.architecture = FC8-C4K9: "),
        (["--sweep", "data.name", blobs(), "nosuch"], "data.name = nosuch: "),
        (["--sweep", "T", "2", "--sweep", "T", "4"], "swept twice"),
        (["--seeds", "0"], "give 1 or more"),
        (["--seeds", "2", "--sweep", "seed", "1"], "not both"),
    ],
)
def test_all_runs_are_checked_before_the_first_one_starts(
    flags: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = write_recipe(SMALL, tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["train", given, "--out", str(tmp_path / "out"), *CPU, *flags])
    assert ended.value.code == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_seeds_end_in_a_table_of_mean_and_deviation_and_are_not_trained_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "seeds"
    command = ["train", write_recipe(SMALL, tmp_path), "--seeds", "3", "--out", str(out), *CPU]
    main(command)
    results = json.loads((out / "results.json").read_text())
    assert [line["seed"] for line in results["runs"]] == [0, 1, 2]
    values = [Run(out / f"seed{seed}").summary["test"]["strict"] for seed in range(3)]  # type: ignore[index]
    (row,) = results["rows"]
    mean = sum(values) / 3
    assert row["strict"]["mean"] == pytest.approx(mean)
    assert row["strict"]["deviation"] == pytest.approx((sum((v - mean) ** 2 for v in values) / 2) ** 0.5)
    assert {"strict", "potential", "steps"} <= set(row)
    assert f"{mean:.2f} ±" in capsys.readouterr().out
    assert f"{mean:.2f} ±" in (out / "results.md").read_text()

    # Take one away and stop another half way: only these two are trained when it goes on.
    kept = (out / "seed0" / "summary.json").stat().st_mtime_ns
    shutil.rmtree(out / "seed1")
    before = (out / "seed2" / "model" / "model.safetensors").read_bytes()
    shutil.rmtree(out / "seed2")
    with pytest.raises(SystemExit) as ended:
        main([*command, "--max-minutes", "0"])
    assert ended.value.code == STOPPED_STATUS
    assert f"firstspike resume {out}" in capsys.readouterr().err
    assert Run(out / "seed1").summary is None
    main(["resume", str(out), *CPU])
    assert (out / "seed0" / "summary.json").stat().st_mtime_ns == kept
    assert (out / "seed2" / "model" / "model.safetensors").read_bytes() == before
    assert json.loads((out / "results.json").read_text())["rows"] == results["rows"]


def test_a_folder_holds_one_sweep(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = Sweep(SMALL, seeds=2)
    plan._write(tmp_path)
    plan._write(tmp_path)
    with pytest.raises(FirstspikeError, match="already holds something else"):
        Sweep(SMALL, seeds=3)._write(tmp_path)
    assert Sweep.read(tmp_path) == plan


def test_settings_are_chosen_on_the_validation_split(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = replace(SMALL, epochs=2, data=DataConfig(blobs(), validation=0.25))
    out = tmp_path / "sweep"
    main(
        [
            "train",
            write_recipe(given, tmp_path),
            "--sweep",
            "optimizer.lr",
            "1e-6",
            "0.1",
            "--out",
            str(out),
            *CPU,
        ]
    )
    results = json.loads((out / "results.json").read_text())
    assert results["on"] == "validation"
    assert results["chosen"]["settings"] == {"optimizer.lr": "0.1"}
    run = Run(out / "02-optimizer.lr=0.1")
    assert run.summary is not None
    assert results["rows"][1]["strict"]["mean"] == run.summary["last_epoch"]["validation_strict"]
    assert results["chosen"]["strict"]["mean"] == run.summary["test"]["strict"]
    assert "Chosen on the validation split: optimizer.lr = 0.1" in capsys.readouterr().out


def test_without_a_validation_split_it_says_that_these_are_test_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "sweep"
    main(
        [
            "train",
            write_recipe(SMALL, tmp_path),
            "--sweep",
            "neuron.tau",
            "none",
            "2",
            "--out",
            str(out),
            *CPU,
        ]
    )
    assert "There is no validation split" in capsys.readouterr().out
    text = (out / "results.md").read_text()
    assert "| neuron.tau | runs | strict % | potential % | steps |" in text
    assert "There is no validation split" in text


def test_a_run_that_fails_is_told_of_and_passed_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "sweep"
    args = ["--sweep", "optimizer.lr", "1e38", "0.1", "--normalisation.kind", "none", "--out", str(out), *CPU]
    main(["train", write_recipe(SMALL, tmp_path), *args])
    results = json.loads((out / "results.json").read_text())
    assert "failed" in results["runs"][0]
    assert results["rows"][0]["finished"] == 0
    assert results["rows"][1]["finished"] == 1
    assert "failed: " in capsys.readouterr().out


def test_without_ray_it_says_how_to_get_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(SystemExit) as ended:
        main(
            [
                "train",
                write_recipe(SMALL, tmp_path),
                "--seeds",
                "2",
                "--ray",
                "--out",
                str(tmp_path / "o"),
                *CPU,
            ]
        )
    assert ended.value.code == 2
    assert "pip install 'firstspike[ray]'" in capsys.readouterr().err


def test_on_ray_the_same_runs_are_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for Ray that runs each task where it is waited for."""
    stand_in: Any = types.ModuleType("ray")
    stand_in.init = lambda **_: None
    stand_in.shutdown = lambda: None
    stand_in.cluster_resources = lambda: {"CPU": 2.0}
    stand_in.remote = lambda **_: (
        lambda task: types.SimpleNamespace(remote=lambda *given: partial(task, *given))
    )
    stand_in.wait = lambda waiting: (waiting[:1], waiting[1:])
    stand_in.get = lambda reference: reference()
    monkeypatch.setitem(sys.modules, "ray", stand_in)
    given = write_recipe(SMALL, tmp_path)
    main(["train", given, "--seeds", "2", "--ray", "--out", str(tmp_path / "ray"), *CPU])
    assert "seed1: finished" in capsys.readouterr().out
    main(["train", given, "--seeds", "2", "--out", str(tmp_path / "local"), *CPU])
    rows = [json.loads((tmp_path / name / "results.json").read_text())["rows"] for name in ("ray", "local")]
    assert rows[0] == rows[1]
