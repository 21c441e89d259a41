"""The binary version of CIFAR-10 and CIFAR-100: records of one or two label bytes and 3 x 32 x 32 pixels.

The pickled version is not read: unpickling a downloaded file can run whatever it says.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from firstspike.data.files import check_labels, read_bytes
from firstspike.errors import FirstspikeError

Bytes = npt.NDArray[np.uint8]
_PIXELS = 3 * 32 * 32
# Where the archive unpacks to, the label bytes of a record (the last is the class), and the files.
_LAYOUT = {
    "cifar10": ("cifar-10-batches-bin", 1, [f"data_batch_{n}.bin" for n in range(1, 6)], ["test_batch.bin"]),
    "cifar100": ("cifar-100-binary", 2, ["train.bin"], ["test.bin"]),
}


def read_cifar(folder: Path, name: str, split: str, classes: int) -> tuple[Bytes, Bytes]:
    """Images `[N, 3, 32, 32]` and labels `[N]` of one split of `cifar10` or `cifar100`."""
    inner, label_bytes, train, test = _LAYOUT[name]
    if (folder / inner).is_dir():
        folder = folder / inner
    elif any(folder.glob("*-py*")) or any(folder.glob("*-python*")):
        raise FirstspikeError(
            f"{folder}: this is the pickled version of the set, which is never loaded because unpickling can run "
            f"code; expected {inner}/ of the binary version, which `firstspike data get {name}` fetches."
        )
    elif not (folder / test[0]).is_file():
        folder = folder / inner  # so that an error names the place where the files belong
    parts = [_records(folder / file, label_bytes, classes) for file in (train if split == "train" else test)]
    records = np.concatenate(parts)
    return records[:, label_bytes:].reshape(-1, 3, 32, 32), records[:, label_bytes - 1]


def _records(path: Path, label_bytes: int, classes: int) -> Bytes:
    """The records of one file, `[N, label_bytes + 3072]`."""
    raw = np.frombuffer(read_bytes(path), np.uint8)
    length = label_bytes + _PIXELS
    if len(raw) == 0 or len(raw) % length:
        raise FirstspikeError(
            f"{path}: it is {len(raw):,} bytes long; expected a whole number of records of {length:,} bytes, so it "
            "was cut; fetch it again."
        )
    records = raw.reshape(-1, length)
    check_labels(path, records[:, label_bytes - 1], classes)
    return records
