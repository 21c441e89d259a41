"""Make the sample that ships inside the package, from Fashion-MNIST's own files.

    python -m firstspike.data.sample.make FOLDER_WITH_THE_IDX_FILES

The first 500 training and the first 100 test images of each class, in the publisher's order: nothing is
drawn, so anybody gets the same arrays again.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from firstspike.data.files import written_whole
from firstspike.data.idx import Bytes, read_pair

TARGET = Path(__file__).parent / "fashion-mnist-sample.npz"


def make(folder: Path, target: Path = TARGET) -> None:
    """Write `x, y, x_test, y_test` (uint8 `[5000, 1, 28, 28]` and `[1000, 1, 28, 28]`) to `target`."""
    arrays: dict[str, Bytes] = {}
    for split, suffix, each in (("train", "", 500), ("test", "_test", 100)):
        images, labels = read_pair(folder, split)
        chosen = np.sort(np.concatenate([np.flatnonzero(labels == label)[:each] for label in range(10)]))
        arrays["x" + suffix], arrays["y" + suffix] = images[chosen], labels[chosen]
    with written_whole(target) as out:
        np.savez_compressed(out, **arrays)  # type: ignore[arg-type]


if __name__ == "__main__":
    make(Path(sys.argv[1]))
