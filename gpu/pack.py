"""Pack data sets for the lent machine: folders DEST/carry-1, carry-2, ..., small enough to travel beside the tree.

    PYTHONPATH=. python gpu/pack.py . cifar100 cifar10    # in the order they are wanted in; all, if none is named

A set lies in one folder or in several. Each folder has the manifest, and the packages that the lent machine lacks.
"""

import argparse
import importlib.util
import io
import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from carried import MANIFEST, PACKAGES, cut, digest, kind_of

from firstspike.data import catalogue, data_root, missing
from firstspike.errors import FirstspikeError

ROOT = Path(__file__).resolve().parents[1]
NEEDED = ("tyro", "docstring_parser", "typeguard", "typing_extensions", "rich")
"""What the command line imports beside PyTorch, NumPy, Pillow and safetensors; all of it plain Python."""
MIB = 2**20
CALL_MIB = 64.0
SPARE_MIB = 0.5
FILE_BYTES = 1024
"""What a file takes in an archive beside its bytes, at most."""
MANIFEST_BYTES = 2**16
"""Kept free for the manifest, which is known when all is packed: some 50 bytes a piece."""


@dataclass
class Folders:
    """Carried folders, filled one after the other: what is packed first is there first."""

    parent: Path
    room: float
    """Bytes that a folder may have."""
    packages: bytes
    """An archive of the packages that each folder has too."""
    manifest: dict[str, Any] = field(default_factory=lambda: {"sets": {}, "folders": {}})
    left: float = 0.0

    def put(self, name: str, content: bytes) -> None:
        """A piece, in the folder that is being filled or in a new one."""
        size = len(content) + FILE_BYTES
        if size > self.left:
            self._open()
        if size > self.left:
            raise FirstspikeError(
                f"A piece of {mib(size)} does not fit beside the packages: give a larger --limit."
            )
        folder = list(self.manifest["folders"])[-1]
        (self.parent / folder / name).write_bytes(content)
        self.manifest["folders"][folder].append(name)
        self.left -= size

    def _open(self) -> None:
        name = f"carry-{len(self.manifest['folders']) + 1}"
        self.manifest["folders"][name] = []
        folder = self.parent / name
        folder.mkdir(parents=True)
        (folder / PACKAGES).write_bytes(self.packages)
        self.left = self.room - len(self.packages) - MANIFEST_BYTES

    def close(self) -> None:
        """The manifest into every folder."""
        for name in self.manifest["folders"]:
            (self.parent / name / MANIFEST).write_text(json.dumps(self.manifest) + "\n")


def pack(parent: Path, sets: Sequence[str], limit: float, root: Path) -> Folders:
    """Pack `sets`, which lie under `root`, into folders of at most `limit` MiB."""
    for name in sets:
        check_there(name, root)
    clear(parent)
    folders = Folders(parent, limit * MIB, packages())
    for name in sets:
        files: list[dict[str, Any]] = []
        folders.manifest["sets"][name] = files
        for path in files_of(root / name):
            kind, pieces = kind_of(path), list[str]()
            for content in cut(path, kind):
                pieces.append(f"{name}-{len(files):02d}-{len(pieces):03d}")
                folders.put(pieces[-1], content)
            relative = path.relative_to(root / name).as_posix()
            files.append({"file": relative, "kind": kind, "digest": digest(path), "pieces": pieces})
        print(f"{name}: packed", flush=True)
    folders.close()
    return folders


def check_there(name: str, root: Path) -> None:
    """Refuse a set that is not, or not wholly, on this machine."""
    absent = missing(name, root) if name in catalogue else []
    if absent or not (root / name).is_dir():
        raise FirstspikeError(
            f"{absent[0] if absent else root / name} is not there: get {name} before it is packed."
        )


def files_of(folder: Path) -> list[Path]:
    """The files of a set, without what firstspike has put there for itself."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return sorted(path for path in found if "cache" not in path.relative_to(folder).parts)


def clear(parent: Path) -> None:
    """Remove the folders of an earlier packing; anything else of that name is left, and refused."""
    for folder in parent.glob("carry-[0-9]*"):
        if not (folder / MANIFEST).is_file():
            raise FirstspikeError(f"{folder} was not made by gpu/pack.py: remove it, or give another place.")
        shutil.rmtree(folder)


def packages() -> bytes:
    """The plain Python packages that the lent machine lacks, as a zip archive."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_LZMA) as archive:
        for name in NEEDED:
            for file, arcname in sources(name):
                archive.write(file, arcname)
    return out.getvalue()


def sources(package: str) -> Iterator[tuple[Path, str]]:
    """The files of an installed package, and where they belong below a folder of packages."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise FirstspikeError(f"{package} is not installed here: run this with the project's own Python.")
    origin = Path(spec.origin)
    inside = [origin] if spec.submodule_search_locations is None else sorted(origin.parent.rglob("*"))
    base = origin.parent if spec.submodule_search_locations is None else origin.parents[1]
    for file in inside:
        if file.suffix in (".so", ".pyd"):
            raise FirstspikeError(f"{file} is compiled and may not run elsewhere: {package} cannot travel.")
        if file.is_file() and file.suffix != ".pyc":
            yield file, file.relative_to(base).as_posix()


def tree_bytes(root: Path = ROOT) -> int:
    """What travels with every call: tracked files, and untracked ones that git does not ignore."""
    listed = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split("\0")
    return weight(root / name for name in {*names} - {""})


def weight(paths: Iterator[Path]) -> int:
    """What files take on the way."""
    return sum(path.stat().st_size + FILE_BYTES for path in paths if path.is_file())


def tell(folders: Folders, tree: int) -> None:
    """How large each call will be, and refuse those that are too large."""
    print(f"tree: {mib(tree)}")
    for name, pieces in folders.manifest["folders"].items():
        size = weight((folders.parent / name).iterdir())
        sets = dict.fromkeys(piece.rsplit("-", 2)[0] for piece in pieces)
        print(f"{name}: {mib(size)}, {mib(tree + size)} with the tree: {', '.join(sets)}")
        if tree + size > CALL_MIB * MIB:
            raise FirstspikeError(
                f"{name} and the tree are more than {CALL_MIB:g} MiB: give a smaller --limit."
            )


def mib(size: float) -> str:
    return f"{size / MIB:.1f} MiB"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dest", type=Path, metavar="DEST")
    parser.add_argument("sets", nargs="*", metavar="SET")
    parser.add_argument(
        "--limit", type=float, metavar="MIB", help="of a folder; by default what the tree leaves"
    )
    given = parser.parse_args()
    root, tree = data_root(), tree_bytes()
    sets = given.sets or [name for name in catalogue if (root / name).is_dir()]
    try:
        limit = given.limit or CALL_MIB - SPARE_MIB - tree / MIB
        tell(pack(given.dest, sets, limit, root), tree)
    except FirstspikeError as error:
        sys.exit(f"pack: {error}")


if __name__ == "__main__":
    main()
