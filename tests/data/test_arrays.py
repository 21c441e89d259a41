"""The user's own .npz."""

import io
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from firstspike.data import load, npz
from firstspike.errors import FirstspikeError

X = np.random.default_rng(0).integers(0, 256, (50, 3, 8, 8), np.uint8)
Y = np.arange(50) % 5


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "mine.npz"


def test_a_given_test_split_is_kept(path: Path) -> None:
    np.savez(path, x=X, y=Y, x_test=X[:7], y_test=Y[:7], classes=np.array(["a", "b", "c", "d", "e"]))
    train, test = load(path, "train"), load(str(path), "test")
    assert (len(train), len(test)) == (50, 7)
    assert test.classes == ("a", "b", "c", "d", "e")
    assert test.images.numpy().tolist() == X[:7].tolist()
    assert (train.name, test.split) == ("mine", "test, 7 images")


def test_without_one_a_fifth_of_each_class_is_the_test_split(path: Path) -> None:
    np.savez_compressed(path, x=X, y=Y)
    train, test = load(path, "train"), load(path, "test")
    assert train.labels.bincount().tolist() == [8] * 5
    assert test.labels.bincount().tolist() == [2] * 5
    everything = torch.cat([train.images, test.images]).flatten(1)
    assert sorted(everything.tolist()) == sorted(X.reshape(50, -1).tolist())
    assert test.split == "test, 10 of 50, divided by seed 0"


def test_grey_images_get_their_channel(path: Path) -> None:
    np.savez(path, x=X[:, 0], y=Y)
    assert load(path).input_shape == (1, 8, 8)


def test_event_frames_are_summed_to_T(path: Path) -> None:
    frames = np.random.default_rng(0).integers(0, 200, (10, 6, 2, 4, 4))
    np.savez(path, x=frames, y=Y[:10], x_test=frames, y_test=Y[:10])
    assert load(path).images.numpy().tolist() == frames.tolist()
    summed = load(path, T=2)
    assert summed.is_events
    assert summed.images.dtype == torch.int16
    assert summed.images.numpy().tolist() == frames.reshape(10, 2, 3, 2, 4, 4).sum(2).tolist()
    assert load(path, T=3, size=2).input_shape == (2, 2, 2)


def test_a_large_uncompressed_array_is_mapped_not_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez(path, x=X, y=Y, x_test=X, y_test=Y)
    monkeypatch.setattr(npz, "_MAPPED_FROM", 0)
    assert isinstance(npz.map_npz(path, "x"), np.memmap)
    assert load(path, "test").images.numpy().tolist() == X.tolist()


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": X}, "it holds x; expected an array named y too"),
        ({"x": X, "y": Y, "x_test": X}, "expected an array named y_test"),
        ({"x": X / 255, "y": Y}, "x is float64; expected uint8"),
        ({"x": X, "y": Y / 2}, "y is float64 of shape .*expected whole numbers"),
        ({"x": X, "y": Y[:-1]}, "x has 50 samples and y 49"),
        ({"x": X, "y": Y - 1}, r"sample 0 has the label -1; expected 0 to 3"),
        ({"x": X, "y": Y, "classes": np.array(["a", "b"])}, r"sample 2 has the label 2; expected 0 to 1"),
        ({"x": X[0], "y": Y}, "x has 3 samples and y 50"),
        ({"x": X[0, 0], "y": Y}, r"shape \[8, 8\]; expected images"),
        ({"x": X.transpose(0, 2, 3, 1), "y": Y}, "colours last"),
        ({"x": X[:2], "y": Y[:2]}, "too few to divide"),
        ({"x": X[:, None].astype(np.int32) - 9, "y": Y}, r"mine\.npz: in x, there is an event count of -9"),
        ({"x": X[:, None].astype(np.int32) * 200, "y": Y}, "expected at most 32767"),
        ({"x": X, "y": Y[:, None]}, r"y is int64 of shape \[50, 1\]"),
        ({"x": X, "y": Y * 2**40}, "expected classes counted from 0"),
        (
            {"x": X, "y": Y, "x_test": X[:, :, 1:], "y_test": Y},
            r"x are \[3, 8, 8\] and of x_test \[3, 7, 8\]",
        ),
    ],
)
def test_wrong_arrays_are_refused(path: Path, arrays: dict[str, np.ndarray], message: str) -> None:
    np.savez(path, **arrays)
    with pytest.raises(FirstspikeError, match=message):
        load(path)


def test_an_npz_that_asks_for_pickle_is_refused(path: Path) -> None:
    np.savez(path, x=np.array([{"a": 1}], dtype=object), y=Y[:1])
    with pytest.raises(FirstspikeError, match=r"mine\.npz.*pickle, which can run code"):
        load(path)


@pytest.mark.parametrize("raw", [b"", b"PK\x03\x04 cut", pickle.dumps([1, 2])])
def test_what_is_no_npz_is_refused(path: Path, raw: bytes) -> None:
    path.write_bytes(raw)
    with pytest.raises(FirstspikeError, match=r"mine\.npz: it is no \.npz"):
        load(path)


def test_a_cut_npz_is_refused(path: Path) -> None:
    whole = io.BytesIO()
    np.savez(whole, x=X, y=Y)
    path.write_bytes(whole.getvalue()[:-300])
    with pytest.raises(FirstspikeError, match=r"mine\.npz"):
        load(path)
