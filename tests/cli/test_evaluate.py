"""`firstspike evaluate` as a user types it."""

import json
from pathlib import Path

import pytest

from firstspike.cli import main
from firstspike.models import build, save
from firstspike.training import Options, fit
from firstspike.training.recipe import NetConfig
from tests.training.small import blobs, recipe

CPU = ["--device", "cpu"]


def test_a_network_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    main(["evaluate", "fashion-mnist-scnn5", "--data", "fashion-mnist-sample", "--samples", "20", *CPU])
    said = capsys.readouterr().out
    for words in ("strict ties", "mean steps", "synaptic operations", "E3", "5.FC1000", "answered at step"):
        assert words in said


def test_the_numbers_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    main(
        [
            "evaluate",
            "fashion-mnist-scnn5",
            "--data",
            "fashion-mnist-sample",
            "--samples",
            "20",
            "--json",
            *CPU,
        ]
    )
    found = json.loads(capsys.readouterr().out)
    assert found["samples"] == 20
    assert found["energy"]["e3"] == pytest.approx(13.574 * found["steps"], rel=1e-4)
    assert found["sops"] == pytest.approx(sum(found["layer_sops"].values()))


def test_other_hardware_costs_other_energy(capsys: pytest.CaptureFixture[str]) -> None:
    command = [
        "evaluate",
        "fashion-mnist-scnn5",
        "--data",
        "fashion-mnist-sample",
        "--samples",
        "5",
        "--json",
        *CPU,
    ]
    energies = []
    for flags in ([], ["--hardware.accumulate", "1.8", "--hardware.name", "mine"]):
        main([*command, *flags])
        energies.append(json.loads(capsys.readouterr().out)["energy"])
    assert energies[1]["e1"] == pytest.approx(2 * energies[0]["e1"])
    assert energies[1]["hardware"] == "mine"


@pytest.mark.parametrize("unit", ["spike", "relu", "rate-soft"])
def test_a_run_is_measured_as_at_its_end(
    unit: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = recipe(epochs=1, network=NetConfig("FC16-FC4", unit=unit))  # type: ignore[arg-type]
    run = fit(small, tmp_path / "run", options=Options(device="cpu", tensorboard=False))
    main(["evaluate", str(run.folder), "--json", *CPU])
    found = json.loads(capsys.readouterr().out)
    assert run.summary is not None
    for name, value in run.summary["test"].items():
        assert found[name] == value


def test_what_is_not_there_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(build("FC16-FC4", (1, 8, 8)), tmp_path / "model")
    for args, words in (
        (["nothing"], "fashion-mnist-scnn5"),
        ([str(tmp_path / "model"), "--data", blobs(), "--samples", "0"], "1 or more"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(["evaluate", *args, *CPU])
        assert ended.value.code == 2
        assert words in capsys.readouterr().err
