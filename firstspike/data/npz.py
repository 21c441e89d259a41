"""Reading `.npz` archives: plain arrays only, and large ones without reading them."""

from __future__ import annotations

import os
import struct
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from firstspike.data.files import reading
from firstspike.errors import FirstspikeError

Array = np.ndarray[Any, Any]
_MAPPED_FROM = 2**30


def npz_names(path: Path) -> list[str]:
    """The names of the arrays in an `.npz`."""
    with _reading_npz(path), zipfile.ZipFile(path) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist()]


def read_npz(path: Path, *names: str) -> dict[str, Array]:
    """The arrays of an `.npz` (only `names` when given); one that asks for pickle is refused: it could run code."""
    # Opened here, as numpy leaves the file open when it turns out to be damaged.
    with _reading_npz(path), path.open("rb") as file:
        if file.read(2) != b"PK":
            raise ValueError("it does not begin as a zip archive does")
        file.seek(0)
        with np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in (names or archive.files)}
    for name, array in arrays.items():
        # What is no array in numpy's format comes back as its bytes.
        if not isinstance(array, np.ndarray):
            raise FirstspikeError(f"{path}: its member {name} is no array; write it with numpy.savez.")
    return arrays


def npz_shape(path: Path, name: str) -> tuple[int, ...]:
    """The shape of one array, without reading it."""
    with _reading_npz(path), zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as member:
        return _header(member)[0]


def map_npz(path: Path, name: str) -> Array:
    """One array, memory-mapped where it is large and was saved uncompressed, else read."""
    if path.stat().st_size <= _MAPPED_FROM:
        return read_npz(path, name)[name]
    with _reading_npz(path), zipfile.ZipFile(path) as archive, path.open("rb") as raw:
        member = archive.getinfo(f"{name}.npy")
        if member.compress_type == zipfile.ZIP_STORED:
            # A member's own header repeats its name and has an extra field of its own length.
            raw.seek(member.header_offset + 26)
            raw.seek(sum(struct.unpack("<HH", raw.read(4))), os.SEEK_CUR)
            shape, fortran, dtype = _header(raw)
            if not dtype.hasobject and not fortran:
                # Copy-on-write, since a tensor over read-only memory cannot be had; nobody writes to it.
                return np.memmap(path, dtype, "c", raw.tell(), shape)
    return read_npz(path, name)[name]


def _header(member: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order and type of the array that begins here."""
    version = np.lib.format.read_magic(member)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(member)
    return np.lib.format.read_array_header_2_0(member)


@contextmanager
def _reading_npz(path: Path) -> Iterator[None]:
    """Turn what goes wrong in an archive into one sentence that names it."""
    try:
        with reading(path):
            yield
    except KeyError as error:
        raise FirstspikeError(f"{path}: it holds no array of that name ({error.args[0]}).") from error
    except zipfile.BadZipFile as error:
        raise FirstspikeError(
            f"{path}: it is no .npz, or cut short or damaged ({error}); write it again."
        ) from error
    except MemoryError as error:
        raise FirstspikeError(f"{path}: its arrays do not fit into memory ({error}).") from error
    except (ValueError, SyntaxError, NotImplementedError, RuntimeError) as error:
        if "pickle" in str(error) or "Object arrays" in str(error):
            raise FirstspikeError(
                f"{path}: it is not a plain .npz of numbers and would need pickle, which can run code and is never "
                "loaded; save numeric arrays with numpy.savez."
            ) from error
        raise FirstspikeError(f"{path}: it is no readable .npz ({error}); write it again.") from error
