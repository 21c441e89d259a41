"""The binary CIFAR files."""

from pathlib import Path

import numpy as np
import pytest

from firstspike.data import load
from firstspike.errors import FirstspikeError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Tiny CIFAR-10 and CIFAR-100: three records a file."""
    draw = np.random.default_rng(0)
    for folder, files, label_bytes in (
        ("cifar10/cifar-10-batches-bin", [f"data_batch_{n}" for n in range(1, 6)] + ["test_batch"], 1),
        ("cifar100/cifar-100-binary", ["train", "test"], 2),
    ):
        (tmp_path / folder).mkdir(parents=True)
        for number, file in enumerate(files):
            records = draw.integers(0, 256, (3, label_bytes + 3072), np.uint8)
            records[:, :label_bytes] = number
            records[:, label_bytes - 1] = [number, 1, 2]
            records.tofile(tmp_path / folder / f"{file}.bin")
    return tmp_path


def test_batches_are_joined_in_order(root: Path) -> None:
    train = load("cifar10", "train", root=root)
    assert train.input_shape == (3, 32, 32)
    assert train.labels.tolist() == [0, 1, 2, 1, 1, 2, 2, 1, 2, 3, 1, 2, 4, 1, 2]
    raw = np.fromfile(root / "cifar10/cifar-10-batches-bin/data_batch_2.bin", np.uint8)
    assert train.images[3].flatten().tolist() == raw[1:3073].tolist()


def test_the_fine_label_is_the_class(root: Path) -> None:
    assert load("cifar100", "test", root=root).labels.tolist() == [1, 1, 2]


def test_a_cut_file_is_refused(root: Path) -> None:
    path = root / "cifar10/cifar-10-batches-bin/data_batch_4.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(FirstspikeError, match=r"data_batch_4\.bin.*9,218 bytes.*records of 3,073"):
        load("cifar10", "train", root=root)


def test_a_missing_batch_is_named(root: Path) -> None:
    (root / "cifar10/cifar-10-batches-bin/data_batch_3.bin").unlink()
    with pytest.raises(FirstspikeError, match=r"data_batch_3\.bin: there is no such file"):
        load("cifar10", "train", root=root)


def test_a_label_out_of_range_is_named(root: Path) -> None:
    path = root / "cifar100/cifar-100-binary/test.bin"
    raw = bytearray(path.read_bytes())
    raw[1] = 100
    path.write_bytes(raw)
    with pytest.raises(FirstspikeError, match=r"test\.bin: sample 0 has the label 100; expected 0 to 99"):
        load("cifar100", "test", root=root)


def test_the_pickled_version_is_never_opened(tmp_path: Path) -> None:
    (tmp_path / "cifar10/cifar-10-batches-py").mkdir(parents=True)
    with pytest.raises(FirstspikeError, match="pickled version"):
        load("cifar10", root=tmp_path)
