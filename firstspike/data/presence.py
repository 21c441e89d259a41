"""Which files of a named set are on this machine."""

from __future__ import annotations

from pathlib import Path

from firstspike.data.gestures import find_recordings
from firstspike.data.names import named
from firstspike.data.root import data_root
from firstspike.data.sources import SOURCES


def missing(name: str, root: Path | str | None = None) -> list[Path]:
    """The files of the set `name` that are not there, by the names they should have; none for a set that is."""
    entry = named(name)
    folder = (data_root() if root is None else Path(root)) / name
    if entry.format == "sample":
        return []
    if entry.format == "gestures":
        frames = all((folder / f"{split}.npz").is_file() for split in ("train", "test"))
        return [] if frames or find_recordings(folder) else [folder / "DvsGesture.tar.gz"]
    files = [folder / file for file in SOURCES[name].contents]
    return [file for file in files if not file.is_file() and not file.with_name(f"{file.name}.gz").is_file()]
