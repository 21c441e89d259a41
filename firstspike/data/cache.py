"""Keeping on disk what takes long to compute from files that seldom change."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from firstspike.data.files import reading, written_whole
from firstspike.data.frames import Counts
from firstspike.data.npz import read_npz
from firstspike.errors import FirstspikeError


def fingerprint(sources: Iterable[Path]) -> str:
    """Twelve characters that change with the name, the size or the date of any source."""
    digest = hashlib.sha256()
    for path in sources:
        with reading(path):
            state = path.stat()
        digest.update(f"{path.name}\0{state.st_size}\0{state.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:12]


def cached(path: Path, make: Callable[[], dict[str, Counts]]) -> dict[str, Counts]:
    """The arrays in `path`, or else those that `make` makes, left there for the next time."""
    if path.is_file():
        try:
            return read_npz(path)
        except FirstspikeError:
            pass  # a damaged cache is made again, not reported: nothing of the user's is lost
    arrays = make()
    try:
        with written_whole(path) as out:
            np.savez_compressed(out, **arrays)  # type: ignore[arg-type]
    except OSError:
        pass  # a read-only data folder still works, only slower
    return arrays
