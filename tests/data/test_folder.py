"""A folder of images by class."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from firstspike.data import folder as folder_module
from firstspike.data import load
from firstspike.errors import FirstspikeError


def draw(path: Path, mode: str = "RGB", size: tuple[int, int] = (6, 4), colour: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, colour if mode == "L" else (colour, 0, 255)).save(path)


@pytest.fixture
def undivided(tmp_path: Path) -> Path:
    for kind, colour in (("cat", 10), ("dog", 20)):
        for number in range(10):
            draw(tmp_path / "pets" / kind / f"{number}.png", colour=colour)
    return tmp_path / "pets"


def test_a_divided_folder_keeps_its_splits(tmp_path: Path) -> None:
    for split, count in (("train", 3), ("test", 2)):
        for number in range(count):
            draw(tmp_path / split / "b" / f"{number}.png", colour=7)
            draw(tmp_path / split / "a" / "deeper" / f"{number}.JPG")
    test = load(tmp_path, "test", root=tmp_path / "root")
    assert test.classes == ("a", "b")
    assert test.input_shape == (3, 4, 6)
    assert test.labels.tolist() == [0, 0, 1, 1]
    assert test.images[2, :, 0, 0].tolist() == [7, 0, 255]
    assert len(load(tmp_path, "train")) == 6


def test_an_undivided_folder_is_divided_class_by_class(undivided: Path) -> None:
    train, test = load(undivided, "train"), load(undivided, "test")
    assert train.labels.bincount().tolist() == [8, 8]
    assert test.labels.bincount().tolist() == [2, 2]
    assert (test.images[:, 0, 0, 0] == (test.labels + 1) * 10).all()
    assert "divided by seed 0" in test.split


def test_grey_pictures_stay_grey_unless_one_is_not(tmp_path: Path) -> None:
    for number in range(5):
        draw(tmp_path / "a" / f"{number}.png", mode="L", colour=number)
    assert load(tmp_path).input_shape == (1, 4, 6)
    draw(tmp_path / "a" / "9.png")
    assert load(tmp_path).input_shape == (3, 4, 6)


def test_sizes_that_differ_need_a_size(undivided: Path) -> None:
    draw(undivided / "dog" / "large.png", size=(30, 20))
    with pytest.raises(
        FirstspikeError, match=r"large\.png: it is 30 x 20, but 0\.png is 6 x 4; expected one size"
    ):
        load(undivided)
    assert load(undivided, size=5).input_shape == (3, 5, 5)


def test_both_splits_take_one_form(tmp_path: Path) -> None:
    draw(tmp_path / "train/a/1.png")
    draw(tmp_path / "test/a/1.png", mode="L", colour=9)
    assert load(tmp_path, "test").input_shape == load(tmp_path, "train").input_shape == (3, 4, 6)
    draw(tmp_path / "test/a/2.png", size=(5, 5))
    with pytest.raises(FirstspikeError, match=r"test/a/2\.png: it is 5 x 5"):
        load(tmp_path, "train")


def test_a_large_folder_is_decoded_once_and_mapped(
    undivided: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = load(undivided, root=tmp_path / "root")
    monkeypatch.setattr(folder_module, "_IN_MEMORY", 0)
    assert load(undivided, root=tmp_path / "root").images.equal(small.images)
    (cache,) = (tmp_path / "root/cache").iterdir()
    assert np.load(cache, mmap_mode="r").shape == (20, 3, 4, 6)
    monkeypatch.setattr(folder_module, "_pixels", None)
    assert load(undivided, root=tmp_path / "root").images.equal(small.images)


def test_a_picture_that_is_none_is_named_and_leaves_nothing_behind(
    undivided: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = (undivided / "cat/3.png").read_bytes()
    (undivided / "cat/3.png").write_bytes(whole[:-30])
    monkeypatch.setattr(folder_module, "_IN_MEMORY", 0)
    with pytest.raises(FirstspikeError, match=r"cat/3\.png"):
        load(undivided, root=tmp_path / "root")
    assert not list((tmp_path / "root/cache").iterdir())
    (undivided / "cat/3.png").write_text("no picture")
    with pytest.raises(FirstspikeError, match=r"cat/3\.png: it cannot be read"):
        load(undivided, root=tmp_path / "root")


def test_a_picture_too_large_to_be_safe_is_named(undivided: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 5)
    with pytest.raises(FirstspikeError, match=r"0\.png: it is too large"):
        load(undivided)


def test_empty_and_strange_folders_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(FirstspikeError, match=r"/a: it holds no folders"):
        load(tmp_path / "a")
    with pytest.raises(FirstspikeError, match="hold no images"):
        load(tmp_path)
    draw(tmp_path / "set/train/a/1.png")
    (tmp_path / "set/test/a").mkdir(parents=True)
    with pytest.raises(FirstspikeError, match=r"set/test: its class folders hold no images"):
        load(tmp_path / "set", "train")
    draw(tmp_path / "set/test/b/1.png")
    with pytest.raises(FirstspikeError, match=r"test/b: there is no such class in train; expected a"):
        load(tmp_path / "set", "test")
