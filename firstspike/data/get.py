"""Getting a named set onto this machine."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from pathlib import Path

from firstspike.data.download import Progress, fetch, silent
from firstspike.data.files import reading
from firstspike.data.names import named
from firstspike.data.presence import missing
from firstspike.data.root import data_root
from firstspike.data.sources import SOURCES, Download, Source
from firstspike.data.unpack import unpack
from firstspike.data.verify import verify
from firstspike.errors import FirstspikeError


def get(name: str, root: Path | str | None = None, progress: Progress = silent) -> Path:
    """Fetch, check and unpack the set `name` under `root`, unless it is there; the folder it lies in.

    A file that is there but wrong is not replaced, as it may be the user's: the error names it.
    """
    entry = named(name)
    if entry.format == "sample":
        return Path(__file__).parent / "sample"
    root = data_root() if root is None else Path(root)
    folder = root / entry.name
    try:
        if missing(name, root):
            folder.mkdir(parents=True, exist_ok=True)
            try:
                _get_missing(name, folder, progress)
            finally:
                if not any(folder.iterdir()):
                    folder.rmdir()
    except OSError as error:
        raise FirstspikeError(
            f"{folder}: it cannot be written ({error.strerror or error}); set FIRSTSPIKE_DATA to a folder that can."
        ) from error
    verify(name, root)
    return folder


def _get_missing(name: str, folder: Path, progress: Progress) -> None:
    for download in SOURCES[name].downloads:
        path = folder / download.file
        by_hand = path.is_file() or path.with_suffix("").is_file()
        if not by_hand:
            _fetch_one(name, download, folder, progress)
        if download.is_archive:
            _check_archive(path, download.md5)
            _unpack_into(folder, path)
            if not by_hand:
                path.unlink()


def _fetch_one(name: str, download: Download, folder: Path, progress: Progress) -> None:
    source = SOURCES[name]
    if not download.urls:
        place = folder / download.file
        raise FirstspikeError(
            f"{source.manual}, put it at {place}, and run `firstspike data get {name}` again."
        )
    try:
        fetch(download, folder, progress)
    except FirstspikeError as error:
        raise FirstspikeError(f"{error} {_by_hand(source, folder)}") from error


def _by_hand(source: Source, folder: Path) -> str:
    """Which files to put where, for a person without a network."""
    absent = [download for download in source.downloads if not (folder / download.file).is_file()]
    files = ", ".join(download.urls[0] for download in absent)
    return (
        f"Run it again to continue, or get {files} elsewhere and put it into {folder}, under the same name."
    )


def _check_archive(archive: Path, md5: str) -> None:
    with reading(archive), archive.open("rb") as file:
        found = hashlib.file_digest(file, "md5").hexdigest()
    if found != md5:
        raise FirstspikeError(
            f"{archive}: its md5 is {found}; expected {md5}, so it is refused: delete it and fetch it again."
        )


def _unpack_into(folder: Path, archive: Path) -> None:
    """Unpack beside, then rename each file into place: a reader never meets half of one."""
    staging = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=folder))
    try:
        unpack(archive, staging)
        for file in sorted(path for path in staging.rglob("*") if path.is_file()):
            target = folder / file.relative_to(staging)
            target.parent.mkdir(parents=True, exist_ok=True)
            file.replace(target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
