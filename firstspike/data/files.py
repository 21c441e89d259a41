"""Opening files so that whatever goes wrong is one sentence that names the file, and writing them whole or
not at all."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from firstspike.errors import FirstspikeError


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn what the system and the decoders raise about `path` into the package's own error."""
    try:
        yield
    except FileNotFoundError as error:
        raise FirstspikeError(f"{path}: there is no such file; expected it there.") from error
    except PermissionError as error:
        raise FirstspikeError(f"{path}: it may not be read by this user; change its permissions.") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise FirstspikeError(
            f"{path}: the gzip data is cut short or damaged ({error}); fetch the file again."
        ) from error
    except OSError as error:
        raise FirstspikeError(f"{path}: it cannot be read ({error.strerror or error}).") from error


def read_bytes(path: Path) -> bytes:
    """The content of `path`, decompressed where its name ends in `.gz`."""
    with reading(path):
        if path.suffix == ".gz":
            with gzip.open(path) as packed:
                return packed.read()
        return path.read_bytes()


@contextmanager
def written_whole(path: Path) -> Iterator[IO[bytes]]:
    """Write beside `path` and rename into place at the end, so that no reader ever meets half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # The process number keeps two processes that fill the same cache from writing into one file.
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as out:
            yield out
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def check_labels(path: Path, labels: np.ndarray[Any, Any], classes: int) -> None:
    """Refuse labels outside 0 to `classes - 1`, naming the first one and its place."""
    wrong = np.flatnonzero((labels < 0) | (labels >= classes))
    if len(wrong):
        raise FirstspikeError(
            f"{path}: sample {wrong[0]} has the label {labels[wrong[0]]}; expected 0 to {classes - 1}."
        )
