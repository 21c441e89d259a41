"""The one door: names, paths, and what is said about those that are none."""

from pathlib import Path

import numpy as np
import pytest
import torch

from firstspike.data import Batches, catalogue, data_root, load
from firstspike.errors import FirstspikeError


def test_the_sample_needs_no_data_folder(tmp_path: Path) -> None:
    for split, count in (("train", 5000), ("test", 1000)):
        sample = load("fashion-mnist-sample", split, root=tmp_path / "none")
        assert tuple(sample.images.shape) == (count, 1, 28, 28)
        assert sample.labels.bincount().tolist() == [count // 10] * 10
        assert sample.split == f"{split}, {count:,} images"


@pytest.mark.parametrize(
    ("given", "meant"), [("cifar", "cifar10"), ("MNIST-", "mnist"), ("dvsgesture", "dvs-gesture")]
)
def test_an_unknown_name_is_quoted_with_the_nearest_ones(given: str, meant: str) -> None:
    with pytest.raises(FirstspikeError, match=f"no data set '{given}'; did you mean .*{meant}"):
        load(given)


def test_a_set_that_is_not_there_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(FirstspikeError, match=r"mnist is not at .*firstspike data get mnist"):
        load("mnist", root=tmp_path)


def test_event_counts_are_clipped_and_pictures_are_not(tmp_path: Path) -> None:
    counts = np.arange(2 * 4 * 1 * 2 * 2, dtype=np.uint8).reshape(2, 4, 1, 2, 2)
    np.savez(tmp_path / "events.npz", x=counts, y=np.array([0, 1]), x_test=counts, y_test=np.array([0, 1]))
    whole, cut = (load(tmp_path / "events.npz", T=4, clip=clip) for clip in (0, 3))
    assert torch.equal(cut.images, whole.images.clamp(max=3))
    assert "counts up to 3" in cut.split
    pictures = load("fashion-mnist-sample", clip=1)
    assert pictures.images.max() == 255


def test_parts_of_a_step_sum_up_to_it(tmp_path: Path) -> None:
    x = np.random.default_rng(0).integers(0, 9, (6, 30, 2, 8, 8)).astype(np.uint8)
    np.savez(tmp_path / "events.npz", x=x, y=np.zeros(6, np.uint8))
    for integrate in ("duration", "count"):
        whole = load(tmp_path / "events.npz", T=4, integrate=integrate)
        fine = load(tmp_path / "events.npz", T=4, integrate=integrate, parts=3)
        assert fine.images.shape[1] == 12
        assert fine.steps == whole.steps == 4
        sums, expected = (next(Batches(each, 4, seed=0).epoch(0)) for each in (fine, whole))
        assert sums.images.equal(expected.images)


def test_frames_that_fade_have_each_channel_twice_everywhere(tmp_path: Path) -> None:
    x = np.random.default_rng(0).integers(0, 9, (6, 80, 2, 8, 8)).astype(np.uint8)
    np.savez(tmp_path / "events.npz", x=x, y=np.zeros(6, np.uint8))
    plain, faded = (load(tmp_path / "events.npz", T=3, fade=fade) for fade in (0.0, 0.2))
    assert faded.input_shape == (4, 8, 8)
    assert faded.split == f"{plain.split}, fading by 0.2"
    assert faded.subset(torch.tensor([1, 2])).input_shape == (4, 8, 8)
    batch = next(Batches(faded, 4, seed=0, shuffle=False).epoch(0)).images
    assert batch.shape == (3, 4, 4, 8, 8)
    for number in range(4):
        assert faded.sample(number).equal(batch[:, number : number + 1])
        assert batch[:, number : number + 1, :2].equal(plain.sample(number))
    assert not batch[:, :, 2:].allclose(batch[:, :, :2])
    with pytest.raises(FirstspikeError, match="100 frames were asked for, but the events are stored in 80"):
        load(tmp_path / "events.npz", T=4, fade=0.2)


def test_a_sample_is_what_a_network_takes(tmp_path: Path) -> None:
    pictures = load("fashion-mnist-sample")
    assert pictures.sample(3).equal(pictures.images[3:4].float() / 255)


@pytest.mark.parametrize(
    "wrong",
    [
        {"fade": -0.1},
        {"fade": float("nan")},
        {"fade": 0.1, "clip": 1},
        {"split": "validation"},
        {"integrate": "frames"},
        {"T": 0},
        {"clip": -1},
        {"parts": 0},
        {"parts": 2, "clip": 1},
    ],
)
def test_wrong_options_are_refused(wrong) -> None:
    with pytest.raises(FirstspikeError, match="expected"):
        load("fashion-mnist-sample", **wrong)


@pytest.mark.parametrize("name", ["mnist", "cifar10", "cifar100", "dvs-gesture"])
def test_an_unreadable_folder_is_one_clear_error(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, *args: object, **options: object) -> bool:
        raise PermissionError(13, "Permission denied", str(self))

    (tmp_path / name).mkdir()
    # Tests may run as root, whom no permission stops.
    for method in ("is_file", "is_dir", "glob", "stat", "open"):
        monkeypatch.setattr(Path, method, refuse)
    with pytest.raises(FirstspikeError, match=f"{name}: it may not be read"):
        load(name, root=tmp_path, T=2)


def test_the_root_is_the_variable_or_a_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FIRSTSPIKE_DATA", str(tmp_path))
    assert data_root() == tmp_path
    monkeypatch.delenv("FIRSTSPIKE_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("sys.platform", "linux")
    assert data_root() == tmp_path / "cache/firstspike"
    monkeypatch.setattr("sys.platform", "darwin")
    assert data_root().parts[-3:] == ("Library", "Caches", "firstspike")


def test_every_class_has_a_name_of_its_own() -> None:
    assert {name: len(set(entry.classes)) for name, entry in catalogue.items()} == {
        "mnist": 10,
        "fashion-mnist": 10,
        "cifar10": 10,
        "cifar100": 100,
        "dvs-gesture": 11,
        "fashion-mnist-sample": 10,
    }
