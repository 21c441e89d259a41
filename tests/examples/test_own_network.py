"""The examples run as they are."""

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_a_network_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["own_network.py", "--epochs", "1", "--out", str(tmp_path / "run")])
    runpy.run_path(str(EXAMPLES / "own_network.py"), run_name="__main__")
    shown = capsys.readouterr().out
    assert "epoch 1: loss" in shown
    assert "coarse" in shown
    assert str(tmp_path / "run") in shown
