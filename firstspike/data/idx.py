"""The idx format of MNIST and Fashion-MNIST, gzipped or raw.

A big-endian header (0, 0, type code, number of axes, then one uint32 an axis) and the values. Only unsigned
bytes (type code 8) occur in these sets.
"""

from __future__ import annotations

import math
import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt

from firstspike.data.files import check_labels, read_bytes
from firstspike.errors import FirstspikeError

_PREFIX = {"train": "train", "test": "t10k"}
Bytes = npt.NDArray[np.uint8]


def read_idx(path: Path, axes: int) -> Bytes:
    """The array in one idx file, which must have `axes` axes."""
    raw = read_bytes(path)
    magic = int.from_bytes(raw[:4], "big")
    expected = 0x0800 + axes
    if magic != expected:
        raise FirstspikeError(
            f"{path}: it begins with the magic number {magic:#010x}; expected {expected:#010x} (unsigned bytes, "
            f"{axes} axes), so this is not the idx file it should be."
        )
    header = 4 + 4 * axes
    if len(raw) < header:
        raise FirstspikeError(f"{path}: it ends inside its header of {header} bytes; fetch it again.")
    shape = struct.unpack_from(f">{axes}I", raw, 4)
    need = header + math.prod(shape)
    if len(raw) != need:
        raise FirstspikeError(
            f"{path}: it is {len(raw):,} bytes long (uncompressed), but its header of shape {shape} asks for "
            f"{need:,}; it was cut or extended, so fetch it again."
        )
    return np.frombuffer(raw, np.uint8, offset=header).reshape(shape)


def find(folder: Path, stem: str) -> Path:
    """`stem.gz` or `stem` in `folder`, whichever is there."""
    for path in (folder / f"{stem}.gz", folder / stem):
        if path.is_file():
            return path
    raise FirstspikeError(
        f"{folder / stem}: there is no such file, nor one ending in .gz; expected one of the two there."
    )


def read_pair(folder: Path, split: str, classes: int = 10) -> tuple[Bytes, Bytes]:
    """Images `[N, 1, H, W]` and labels `[N]` of one split."""
    images = read_idx(find(folder, f"{_PREFIX[split]}-images-idx3-ubyte"), axes=3)
    label_path = find(folder, f"{_PREFIX[split]}-labels-idx1-ubyte")
    labels = read_idx(label_path, axes=1)
    if len(images) != len(labels):
        raise FirstspikeError(
            f"{label_path}: it holds {len(labels)} labels; expected {len(images)}, one for each image."
        )
    check_labels(label_path, labels, classes)
    return images[:, None], labels
