"""`firstspike data ...`, as a new user types it."""

from pathlib import Path

import pytest
from PIL import Image

from firstspike.cli.data import app
from firstspike.data import catalogue
from firstspike.errors import FirstspikeError


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FIRSTSPIKE_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "data"


def test_list_names_every_set_and_the_root(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    app.cli(args=["list"])
    printed = capsys.readouterr().out
    assert all(name in printed for name in catalogue)
    assert str(root) in printed


def test_where_prints_the_root_alone(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    app.cli(args=["where"])
    assert capsys.readouterr().out == f"{root}\n"


def test_show_writes_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    app.cli(args=["show", "fashion-mnist-sample", "--split", "test"])
    assert "fashion-mnist-sample-test.png" in capsys.readouterr().out
    with Image.open(tmp_path / "fashion-mnist-sample-test.png") as sheet:
        assert sheet.width > 500


def test_get_and_verify_the_sample(capsys: pytest.CaptureFixture[str]) -> None:
    app.cli(args=["get", "fashion-mnist-sample"])
    app.cli(args=["verify", "fashion-mnist-sample"])
    assert "fashion-mnist-sample: ready in" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["verify", "show"])
def test_a_set_that_is_not_there_says_how_to_get_it(command: str) -> None:
    with pytest.raises(FirstspikeError, match="firstspike data get mnist"):
        app.cli(args=[command, "mnist"])
