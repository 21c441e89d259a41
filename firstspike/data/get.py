"""Getting a named set onto this machine."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from pathlib import Path

from firstspike.data.download import Progress, fetch, silent
from firstspike.data.files import reading
from firstspike.data.gestures import find_recordings
from firstspike.data.names import named
from firstspike.data.root import data_root
from firstspike.data.sources import GESTURE_ARCHIVE_MD5, SOURCES, Source
from firstspike.data.unpack import unpack
from firstspike.data.verify import verify
from firstspike.errors import FirstspikeError


def get(name: str, root: Path | None = None, progress: Progress = silent) -> Path:
    """Fetch, check and unpack the set `name` under `root`, unless it is there; the folder it lies in."""
    entry = named(name)
    root = data_root() if root is None else root
    folder = root / entry.name
    if entry.format == "sample":
        return Path(__file__).parent / "sample"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if entry.format == "gestures":
            _get_gestures(folder, SOURCES[name])
        else:
            _get_files(folder, SOURCES[name], progress)
    except OSError as error:
        raise FirstspikeError(
            f"{folder}: it cannot be written ({error.strerror or error}); set FIRSTSPIKE_DATA to a "
            "folder that can."
        ) from error
    verify(name, root)
    return folder


def _get_files(folder: Path, source: Source, progress: Progress) -> None:
    """Fetch what is not there. A file that is there but wrong is left for `verify` to name: it may be the
    user's."""
    if all((folder / file).is_file() or (folder / f"{file}.gz").is_file() for file in source.contents):
        return
    for download in source.downloads:
        stem = download.file.removesuffix(".gz")
        if download.is_archive:
            archive = folder / download.file
            if not archive.is_file():
                fetch(download, folder, progress)
            _check_archive(archive, download.md5)
            _unpack_into(folder, archive)
            archive.unlink()
        elif not (folder / stem).is_file() and not (folder / download.file).is_file():
            fetch(download, folder, progress)


def _get_gestures(folder: Path, source: Source) -> None:
    if find_recordings(folder) or (folder / "train.npz").is_file():
        return
    archive = folder / "DvsGesture.tar.gz"
    if not archive.is_file():
        raise FirstspikeError(
            f"{source.manual}, put it at {archive}, and run `firstspike data get dvs-gesture` again."
        )
    _check_archive(archive, GESTURE_ARCHIVE_MD5)
    _unpack_into(folder, archive)


def _check_archive(archive: Path, md5: str) -> None:
    with reading(archive), archive.open("rb") as file:
        found = hashlib.file_digest(file, "md5").hexdigest()
    if found != md5:
        raise FirstspikeError(
            f"{archive}: its md5 is {found}; expected {md5}, so it is refused: delete it and fetch it again."
        )


def _unpack_into(folder: Path, archive: Path) -> None:
    """Unpack beside, then rename each entry into place: a reader never meets half a set."""
    staging = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=folder))
    try:
        unpack(archive, staging)
        for entry in staging.iterdir():
            target = folder / entry.name
            if target.is_dir():
                shutil.rmtree(
                    target
                )  # what is left of it was incomplete, or this would not have been reached
            entry.replace(target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
