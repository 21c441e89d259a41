"""Opening files so that whatever goes wrong is one sentence that names the file, and writing them whole or
not at all."""

from __future__ import annotations

import gzip
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from firstspike.errors import FirstspikeError

_MAPPED_FROM = 2**30


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


def read_npz(path: Path, *names: str) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of an `.npz` (only `names` when given). An array that asks for pickle is refused: it could
    run code."""
    try:
        # Opened here, as numpy leaves the file open when it turns out to be damaged.
        with reading(path), path.open("rb") as file, _archive(file) as archive:
            return {name: archive[name] for name in (names or archive.files)}
    except ValueError as error:
        if "pickle" in str(error):
            raise FirstspikeError(
                f"{path}: it is not a plain .npz of numbers and would need pickle, which can run code "
                "and is never loaded; save numeric arrays with numpy.savez."
            ) from error
        raise FirstspikeError(f"{path}: it is not a readable .npz ({error}).") from error
    except KeyError as error:
        raise FirstspikeError(
            f"{path}: it holds no array named {error}; expected {', '.join(names)}."
        ) from error
    except (zipfile.BadZipFile, NotImplementedError) as error:
        raise FirstspikeError(
            f"{path}: the .npz is cut short or damaged ({error}); write it again."
        ) from error


def _archive(file: IO[bytes]) -> np.lib.npyio.NpzFile:
    if not file.read(2) == b"PK":
        raise ValueError("it does not begin as a zip archive does")
    file.seek(0)
    return np.load(file, allow_pickle=False)  # type: ignore[no-any-return]


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


def map_npz(path: Path, name: str) -> np.ndarray[Any, Any]:
    """One array of an `.npz`, memory-mapped where it is large and was saved uncompressed, else read."""
    if path.stat().st_size > _MAPPED_FROM:
        with zipfile.ZipFile(path) as archive, path.open("rb") as raw:
            member = archive.getinfo(f"{name}.npy")
            if member.compress_type == zipfile.ZIP_STORED:
                # A member's own header repeats its name and has an extra field of its own length.
                raw.seek(member.header_offset + 26)
                raw.seek(sum(struct.unpack("<HH", raw.read(4))), os.SEEK_CUR)
                version = np.lib.format.read_magic(raw)
                read = (
                    np.lib.format.read_array_header_1_0
                    if version == (1, 0)
                    else np.lib.format.read_array_header_2_0
                )
                shape, fortran, dtype = read(raw)
                if not dtype.hasobject and not fortran:
                    # Copy-on-write, since a tensor over read-only memory cannot be had; nobody writes to it.
                    return np.memmap(path, dtype, "c", raw.tell(), shape)
    return read_npz(path, name)[name]
