"""`firstspike classify`, as a user types it."""

from pathlib import Path

import pytest
from PIL import Image

from firstspike.cli import main
from firstspike.data import load
from firstspike.inference import available, native

MODEL = "fashion-mnist-scnn5"


def run(*words: str) -> None:
    main(["classify", *words])


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as exit_:
        run(*words)
    assert exit_.value.code == 2
    return capsys.readouterr().err


def test_samples_of_a_data_set_are_classified(capsys: pytest.CaptureFixture[str]) -> None:
    run(MODEL, "fashion-mnist-sample:test:3", "fashion-mnist-sample:5")
    printed = capsys.readouterr().out
    assert "Trouser" in printed
    assert "of 4" in printed
    assert ("avx" in printed or "portable" in printed) if available() else "PyTorch" in printed


def test_an_image_file_gives_the_answer_of_its_pixels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pixels = load("fashion-mnist-sample", "test").images[3, 0].numpy()
    Image.fromarray(pixels).save(tmp_path / "three.png")
    run(MODEL, str(tmp_path / "three.png"))
    from_file = capsys.readouterr().out
    run(MODEL, "fashion-mnist-sample:test:3")
    row = next(line for line in from_file.splitlines() if "three.png" in line)
    assert row.split()[1:6] == capsys.readouterr().out.splitlines()[1].split()[1:6]


def test_the_raster_is_drawn(tmp_path: Path) -> None:
    run(MODEL, "fashion-mnist-sample:3", "--raster", str(tmp_path / "wave.png"))
    with Image.open(tmp_path / "wave.png") as drawn:
        assert drawn.width > 400


def test_without_the_core_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(native, "find", lambda: (None, "the native engine is not installed"))
    run(MODEL, "fashion-mnist-sample:3")
    assert "is not built" in capsys.readouterr().out
    assert "There is no Engine here" in refused(capsys, MODEL, "fashion-mnist-sample:3", "--weights", "int8")


def test_mistakes_are_answered_in_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wide = tmp_path / "wide.png"
    Image.new("RGB", (40, 30)).save(wide)
    (tmp_path / "broken.png").write_bytes(b"no picture")
    assert "40 x 30 pixels, but the network takes 28 x 28" in refused(capsys, MODEL, str(wide))
    assert "cannot be read as a picture" in refused(capsys, MODEL, str(tmp_path / "broken.png"))
    assert "There is no file nowhere.png" in refused(capsys, MODEL, "nowhere.png")
    assert "numbered from 0" in refused(capsys, MODEL, "fashion-mnist-sample:test:1000")
    assert "neither a file nor DATASET:INDEX" in refused(capsys, MODEL, "fashion-mnist-sample:half:1")
    assert "at least one image" in refused(capsys, MODEL)
    assert "no-such-model" in refused(capsys, "no-such-model", str(wide))
    run(MODEL, str(wide), "--resize")
