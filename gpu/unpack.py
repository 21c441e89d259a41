"""Put what a call carried into a working folder on the lent machine: data sets in TO/data, packages in TO/site.

    PYTHONPATH=. python3 gpu/unpack.py carry-1 carry-2 /tmp/gpu

A set appears once all its pieces are there, whole and verified. To repeat a call does no harm.
"""

import json
import shutil
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from carried import MANIFEST, PACKAGES, digest, join


def unpack(folders: Sequence[Path], to: Path) -> None:
    """Keep the pieces in `folders`, make the sets that have all of theirs, and say which those are."""
    pieces, wrong = to / "pieces", list[str]()
    for folder in folders:
        if not (folder / MANIFEST).is_file():
            raise SystemExit(f"unpack: {folder} has no {MANIFEST}: was it packed, and named in `carry`?")
        shutil.copytree(folder, pieces, dirs_exist_ok=True)
    with zipfile.ZipFile(pieces / PACKAGES) as archive:
        archive.extractall(to / "site")
    for name, files in json.loads((pieces / MANIFEST).read_text())["sets"].items():
        try:
            if told := obtain(name, files, pieces, to / "data"):
                print(f"{name}: {told}", flush=True)
        except Exception as error:  # whatever it is, the other sets are wanted all the same
            wrong.append(f"unpack: {name} is not as it was packed: carry it again ({error})")
    if wrong:
        raise SystemExit("\n".join(wrong))


def obtain(name: str, files: list[dict[str, Any]], pieces: Path, root: Path) -> str:
    """Make a set if all its pieces are there; returns how it stands, or nothing where it was not carried at all."""
    wanted = [piece for file in files for piece in file["pieces"]]
    there = sum((pieces / piece).is_file() for piece in wanted)
    if (root / name).is_dir():
        return "there already"
    if there < len(wanted):
        return f"{there} of {len(wanted)} pieces so far" if there else ""
    return make(name, files, pieces, root)


def make(name: str, files: list[dict[str, Any]], pieces: Path, root: Path) -> str:
    """Put a set together beside its place, and rename it once it is verified; returns what was."""
    staging = root / ".unpacking"
    shutil.rmtree(staging, ignore_errors=True)
    for file in files:
        path = staging / name / file["file"]
        path.parent.mkdir(parents=True, exist_ok=True)
        join(((pieces / piece).read_bytes() for piece in file["pieces"]), file["kind"], path)
        if digest(path) != file["digest"]:
            raise ValueError(f"{file['file']} has another digest")
    notes = published(name, staging)
    (staging / name).rename(root / name)
    return f"complete, {len(files)} files as they were packed{notes}"


def published(name: str, root: Path) -> str:
    """What the project's own check says of a set that it knows."""
    from firstspike.data import catalogue, verify

    if name not in catalogue:
        return ""
    return ", verified: " + "; ".join(dict.fromkeys(checked.note for checked in verify(name, root)))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    *given, last = map(Path, sys.argv[1:])
    unpack(given, last)
