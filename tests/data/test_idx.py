"""idx files: read gzipped or raw, and every way they go wrong is one sentence that names the file."""

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from firstspike.data import load
from firstspike.errors import FirstspikeError

Write = Callable[[Path, np.ndarray], None]


def test_gzipped_and_raw_files_load_alike(mnist: Path) -> None:
    train, test = load("mnist", "train", root=mnist), load("mnist", "test", root=mnist)
    assert (len(train), len(test)) == (20, 10)
    assert train.input_shape == (1, 28, 28)
    assert train.labels.tolist() == [n % 10 for n in range(20)]
    packed = mnist / "mnist/train-images-idx3-ubyte.gz"
    (mnist / "mnist/train-images-idx3-ubyte").write_bytes(gzip.decompress(packed.read_bytes()))
    packed.unlink()
    assert load("mnist", "train", root=mnist).images.equal(train.images)


@pytest.mark.parametrize("keep", [0, 2, 9, 200])
def test_a_truncated_file_is_refused(mnist: Path, keep: int) -> None:
    path = mnist / "mnist/t10k-images-idx3-ubyte"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(FirstspikeError, match="t10k-images-idx3-ubyte: it"):
        load("mnist", "test", root=mnist)


def test_a_wrong_magic_number_is_quoted(mnist: Path) -> None:
    path = mnist / "mnist/t10k-images-idx3-ubyte"
    path.write_bytes(b"\0\0\x0d\x03" + path.read_bytes()[4:])
    with pytest.raises(FirstspikeError, match=r"t10k-images-idx3-ubyte.*0x00000d03.*expected 0x00000803"):
        load("mnist", "test", root=mnist)


def test_gzip_cut_in_the_middle_is_refused(mnist: Path) -> None:
    path = mnist / "mnist/train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(FirstspikeError, match=r"train-images-idx3-ubyte\.gz.*cut short"):
        load("mnist", "train", root=mnist)


def test_a_label_out_of_range_is_named(mnist: Path, write_idx: Write) -> None:
    write_idx(mnist / "mnist/t10k-labels-idx1-ubyte", np.array([0, 1, 2, 3, 11, 5, 6, 7, 8, 9]))
    with pytest.raises(
        FirstspikeError, match=r"t10k-labels-idx1-ubyte: sample 4 has the label 11; expected 0 to 9"
    ):
        load("mnist", "test", root=mnist)


def test_too_few_labels_are_refused(mnist: Path, write_idx: Write) -> None:
    write_idx(mnist / "mnist/t10k-labels-idx1-ubyte", np.arange(9))
    with pytest.raises(FirstspikeError, match="9 labels; expected 10"):
        load("mnist", "test", root=mnist)


def test_a_missing_file_is_named(mnist: Path) -> None:
    (mnist / "mnist/t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(FirstspikeError, match=r"mnist/t10k-labels-idx1-ubyte: there is no such file"):
        load("mnist", "test", root=mnist)
