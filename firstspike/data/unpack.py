"""Unpacking a downloaded archive without letting it write anywhere else."""

from __future__ import annotations

import tarfile
import zlib
from pathlib import Path

from firstspike.errors import FirstspikeError


def unpack(archive: Path, folder: Path) -> None:
    """Unpack the files and folders of a `.tar.gz` into `folder`; anything else in it is refused before a byte
    is written.

    Links and devices are refused with paths that lead out: no data set needs them, and a link is a way out
    too.
    """
    try:
        with tarfile.open(archive, "r:gz") as tar:
            members = tar.getmembers()
            for member in members:
                _check(archive, folder, member)
            tar.extractall(folder, members, filter="data")
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise FirstspikeError(
            f"{archive}: it is cut short or damaged ({error}); delete it and fetch it again."
        ) from error


def _check(archive: Path, folder: Path, member: tarfile.TarInfo) -> None:
    if not (member.isreg() or member.isdir()):
        raise FirstspikeError(
            f"{archive}: it holds {member.name!r}, which is no plain file or folder; refused."
        )
    if not (folder / member.name).resolve().is_relative_to(folder.resolve()):
        raise FirstspikeError(f"{archive}: it holds {member.name!r}, which leads out of {folder}; refused.")
