"""How the files of a data set travel: cut into pieces of some MiB, each without loss and as small as is sensible.

A piece is an `.npz`, or its content where there is nothing to gain:

plain       part of the file as it is: what is compressed already
pictures    records of labels and 3 x 32 x 32 pixels (the binary CIFAR files): one WebP of all pictures, and labels
sparse      part of a member of an `.npz` that is mostly zeros (event frames): the bytes that are not zero, and how
            far it is from each to the next, under xz
"""

import hashlib
import io
import itertools
import lzma
import operator
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from PIL import Image

Kind = Literal["plain", "pictures", "sparse"]
Bytes = npt.NDArray[np.uint8]

MANIFEST = "manifest.json"
"""In every carried folder: all sets, their files and pieces, and which folder has which pieces."""
PACKAGES = "site.zip"
PLAIN_BYTES = 2**21
SPARSE_BYTES = 2**26
PICTURES, COLUMNS, SIDE = 1250, 50, 32
PIXELS = 3 * SIDE * SIDE
# Quality 100 gains 0.4 % more, for twenty times the time.
WEBP: dict[str, Any] = {"lossless": True, "exact": True, "quality": 80, "method": 6}
XZ = [{"id": lzma.FILTER_LZMA2, "preset": 6, "lc": 4, "pb": 0, "lp": 0}]


def kind_of(path: Path) -> Kind:
    """How a file is cut."""
    if path.suffix == ".npz":
        return "sparse"
    return "pictures" if path.suffix == ".bin" and label_bytes(path) else "plain"


def label_bytes(path: Path) -> int:
    """How many label bytes a record of a binary CIFAR file has: 1, 2, or 0 where the file is none."""
    size = path.stat().st_size
    return next((count for count in (1, 2) if size and size % (count + PIXELS) == 0), 0)


def cut(path: Path, kind: Kind) -> Iterator[bytes]:
    """The pieces of a file, in order."""
    if kind == "plain":
        with path.open("rb") as file:
            while part := file.read(PLAIN_BYTES):
                yield part
    elif kind == "pictures":
        records = np.fromfile(path, np.uint8).reshape(-1, label_bytes(path) + PIXELS)
        for first in range(0, len(records), PICTURES):
            yield pack_pictures(records[first : first + PICTURES])
    else:
        for member, part in members(path):
            yield pack_sparse(member, np.frombuffer(part, np.uint8))


def join(pieces: Iterable[bytes], kind: Kind, path: Path) -> None:
    """The file that `pieces` were cut from. An `.npz` is put together without compression: it is read faster."""
    if kind == "sparse":
        join_sparse(pieces, path)
        return
    with path.open("wb") as file:
        for piece in pieces:
            file.write(piece if kind == "plain" else unpack_pictures(piece))


def digest(path: Path) -> str:
    """The sha256 of a file; of an `.npz` that of its members' content, however they are compressed."""
    found = hashlib.sha256()
    if path.suffix == ".npz":
        for member, part in members(path):
            found.update(member.encode() + b"\0" + part)
    else:
        with path.open("rb") as file:
            while part := file.read(SPARSE_BYTES):
                found.update(part)
    return found.hexdigest()


def members(path: Path) -> Iterator[tuple[str, bytes]]:
    """The members of a zip archive in parts of at most SPARSE_BYTES, each with its member's name."""
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            with archive.open(name) as member:
                while part := member.read(SPARSE_BYTES):
                    yield name, part


def pack_pictures(records: Bytes) -> bytes:
    """Records `[N, labels + 3072]` as one picture of N tiles, and their labels."""
    labels, tiles = records[:, :-PIXELS], np.zeros((-len(records) % COLUMNS + len(records), PIXELS), np.uint8)
    tiles[: len(records)] = records[:, -PIXELS:]
    rows = tiles.reshape(-1, COLUMNS, 3, SIDE, SIDE).transpose(0, 3, 1, 4, 2)
    mosaic = np.ascontiguousarray(rows).reshape(-1, COLUMNS * SIDE, 3)
    webp = io.BytesIO()
    Image.fromarray(mosaic).save(webp, "WEBP", **WEBP)
    return saved(labels=labels, webp=np.frombuffer(webp.getvalue(), np.uint8))


def unpack_pictures(piece: bytes) -> bytes:
    """The records that `pack_pictures` was given."""
    parts = np.load(io.BytesIO(piece))
    labels = parts["labels"]
    with Image.open(io.BytesIO(parts["webp"].tobytes())) as picture:
        mosaic = np.asarray(picture.convert("RGB"))
    rows = mosaic.reshape(-1, SIDE, COLUMNS, SIDE, 3).transpose(0, 2, 4, 1, 3)
    return np.concatenate([labels, rows.reshape(-1, PIXELS)[: len(labels)]], 1).tobytes()


def pack_sparse(member: str, values: Bytes) -> bytes:
    """Bytes that are mostly zero: the gaps between the others, byte by byte of their numbers, and the others."""
    places = np.flatnonzero(values)
    gaps = np.diff(places, prepend=-1).astype("<u4").view(np.uint8).reshape(-1, 4)
    parts = {"member": np.array(member), "size": np.array(len(values)), "gaps": np.ascontiguousarray(gaps.T)}
    return lzma.compress(saved(**parts, values=values[places]), lzma.FORMAT_XZ, filters=XZ)


def unpack_sparse(piece: bytes) -> tuple[str, bytes]:
    """The member and the bytes that `pack_sparse` was given."""
    parts = np.load(io.BytesIO(lzma.decompress(piece)))
    gaps = np.ascontiguousarray(parts["gaps"].T).view("<u4").ravel()
    values = np.zeros(int(parts["size"]), np.uint8)
    values[np.cumsum(gaps, dtype=np.int64) - 1] = parts["values"]
    return str(parts["member"]), values.tobytes()


def join_sparse(pieces: Iterable[bytes], path: Path) -> None:
    """A zip archive of the members that `pieces` are of."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, parts in itertools.groupby(map(unpack_sparse, pieces), key=operator.itemgetter(0)):
            with archive.open(name, "w", force_zip64=True) as member:
                for _, part in parts:
                    member.write(part)


def saved(**arrays: Any) -> bytes:
    """Arrays as the bytes of an `.npz`."""
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()
