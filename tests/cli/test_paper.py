"""`firstspike paper` as a user types it."""

import json
from pathlib import Path

import pytest

from firstspike.cli import main
from firstspike.cli.show import STOPPED_STATUS


def test_list_names_all_entries(capsys: pytest.CaptureFixture[str]) -> None:
    main(["paper", "list"])
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 15
    assert any(line.startswith("energy ") for line in said)


def test_an_unknown_name_is_refused_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["paper", "make", "abblation", "--quick"])
    assert ended.value.code == 2
    assert "did you mean ablation or" in capsys.readouterr().err


def test_a_figure_without_runs_is_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["paper", "make", "latency", "--quick", "--out", str(tmp_path), "--device", "cpu"])
    assert capsys.readouterr().out.strip() == str(tmp_path / "quick")
    assert {path.suffix for path in (tmp_path / "quick").iterdir()} == {".md", ".json", ".svg", ".png"}


def test_results_are_written(tmp_path: Path) -> None:
    results = Path(__file__).parents[2] / "results"
    main(["paper", "results", "--folder", str(results), "--out", str(tmp_path / "R.md")])
    page = (tmp_path / "R.md").read_text()
    test = json.loads((results / "runs/cifar10-scnn6-seed0/summary.json").read_text())["test"]
    assert f"{test['strict']:.2f}" in page
    assert "NVIDIA H200" in page


def test_the_time_limit_stops_runs_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = ["--out", str(tmp_path / "out"), "--runs", str(tmp_path / "runs"), "--library", str(tmp_path)]
    with pytest.raises(SystemExit) as ended:
        main(["paper", "make", "all", "--quick", "--jobs", "2", "--max-minutes", "0", *folders])
    assert ended.value.code == STOPPED_STATUS
    said = capsys.readouterr().err
    assert "Stopped by the time limit; resumable." in said
    assert "Continue with: " in said
    assert not (tmp_path / "out").exists()
