"""The real sets, where they are on this machine: the counts and class balances of their publishers."""

from pathlib import Path

import numpy as np
import pytest

from firstspike.data import catalogue, load, standardisation, verify
from firstspike.data.sample.make import make

MNIST_TRAIN = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
MNIST_TEST = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


@pytest.mark.parametrize(
    ("name", "shape", "train", "test"),
    [
        ("mnist", (1, 28, 28), MNIST_TRAIN, MNIST_TEST),
        ("fashion-mnist", (1, 28, 28), [6000] * 10, [1000] * 10),
        ("cifar10", (3, 32, 32), [5000] * 10, [1000] * 10),
        ("cifar100", (3, 32, 32), [500] * 100, [100] * 100),
    ],
)
def test_counts_and_class_balance(published: Path, name: str, shape: tuple[int, ...], train, test) -> None:
    if not (published / name).is_dir():
        pytest.skip(f"{name} is not in {published}")
    for split, balance in (("train", train), ("test", test)):
        dataset = load(name, split, root=published)
        assert dataset.input_shape == shape
        assert dataset.labels.bincount().tolist() == balance
        assert len(dataset) == catalogue[name].counts[split == "test"]


@pytest.mark.parametrize(
    ("name", "mean", "std"),
    [
        ("mnist", [0.1307], [0.3081]),
        ("fashion-mnist", [0.2860], [0.3530]),
        ("cifar10", [0.4914, 0.4822, 0.4465], [0.2470, 0.2435, 0.2616]),
        ("cifar100", [0.5071, 0.4865, 0.4409], [0.2673, 0.2564, 0.2762]),
    ],
)
def test_the_statistics_are_the_well_known_ones(published: Path, name: str, mean, std) -> None:
    if not (published / name).is_dir():
        pytest.skip(f"{name} is not in {published}")
    found = standardisation(load(name, root=published))
    np.testing.assert_allclose(found, (mean, std), atol=2e-4)


@pytest.mark.slow
def test_gestures_of_every_class_in_the_split_that_is_named(published: Path) -> None:
    if not (published / "dvs-gesture").is_dir():
        pytest.skip(f"dvs-gesture is not in {published}")
    for split in ("train", "test"):
        by_time, by_count = (
            load("dvs-gesture", split, root=published, T=4, integrate=how) for how in ("duration", "count")
        )
        assert by_time.split.startswith(f"{split} of the ")
        assert len(by_time.labels.unique()) == 11
        assert by_time.images.long().sum() == by_count.images.long().sum()
        if "1077/264" in by_time.split:
            assert len(by_time) == {"train": 1077, "test": 264}[split]


@pytest.mark.slow
@pytest.mark.parametrize("name", catalogue)
def test_the_files_are_the_ones_they_should_be(published: Path, name: str) -> None:
    if name != "fashion-mnist-sample" and not (published / name).is_dir():
        pytest.skip(f"{name} is not in {published}")
    assert verify(name, published)


def test_the_sample_can_be_made_again(published: Path, tmp_path: Path) -> None:
    if not (published / "fashion-mnist").is_dir():
        pytest.skip(f"fashion-mnist is not in {published}")
    make(published / "fashion-mnist", tmp_path / "sample.npz")
    with np.load(tmp_path / "sample.npz") as again:
        for split, suffix in (("train", ""), ("test", "_test")):
            shipped = load("fashion-mnist-sample", split)
            assert np.array_equal(again["x" + suffix], shipped.images.numpy())
            assert np.array_equal(again["y" + suffix], shipped.labels.numpy())
