"""Checking the files of a set against the digests of the originals."""

from __future__ import annotations

import gzip
import hashlib
import zipfile
from pathlib import Path
from typing import NamedTuple, Protocol

from firstspike.data.files import reading
from firstspike.data.gestures import find_recordings, read_gestures, read_trials
from firstspike.data.idx import find
from firstspike.data.names import catalogue, named
from firstspike.data.npz import read_npz
from firstspike.data.root import data_root
from firstspike.data.sources import ORIGINAL, SOURCES, Digests
from firstspike.errors import FirstspikeError

_SAMPLE = Path(__file__).parent / "sample" / "fashion-mnist-sample.npz"
_SAMPLE_SHA256 = "5be9746f6cfb60bec606c681fa83d8972b51f73681066e8e2757e1b9791fe2dd"
# Of the array `x` as numpy writes it, as the compression around it depends on the version of zlib.
_FRAMES = "frames prepared from the recordings: 64x64, 100 bins, denoised, the 1077/264 split"
_GESTURE_FRAMES: dict[str, Digests] = {
    "train": {"d3b2f21ae15945f1b8fbfd7f775ac23b9d42a3e542dd61ddbc86bdd8f3ab7b5c": _FRAMES},
    "test": {"1d5cc24f8b3f01b19afd59b97901af992808830697f6970e05664a11ea93ea3d": _FRAMES},
}


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class Checked(NamedTuple):
    """A file that is right, and whose it is."""

    path: Path
    note: str


def verify(name: str, root: Path | str | None = None) -> list[Checked]:
    """Every file of the set `name`; the first that is missing or wrong is an error that names it."""
    entry = named(name)
    folder = (data_root() if root is None else Path(root)) / entry.name
    if entry.format == "sample":
        with reading(_SAMPLE), _SAMPLE.open("rb") as file:
            return [_check(_SAMPLE, file, {_SAMPLE_SHA256: "the one that was shipped"})]
    if not folder.is_dir():
        raise FirstspikeError(f"{name} is not at {folder}; fetch it with `firstspike data get {name}`.")
    with reading(folder):
        if entry.format == "gestures":
            return _verify_gestures(folder)
        return [_verify_file(folder, file, digests) for file, digests in SOURCES[name].contents.items()]


def _verify_file(folder: Path, file: str, digests: Digests) -> Checked:
    path = find(folder, file) if file.endswith("ubyte") else folder / file
    with reading(path), gzip.open(path) if path.suffix == ".gz" else path.open("rb") as content:
        return _check(path, content, digests)


def _verify_gestures(folder: Path) -> list[Checked]:
    recordings = find_recordings(folder)
    if recordings is not None:
        return _verify_recordings(recordings)
    checked = []
    for split, digests in _GESTURE_FRAMES.items():
        path = folder / f"{split}.npz"
        read_npz(path, "y")
        with reading(path), zipfile.ZipFile(path) as archive, archive.open("x.npy") as content:
            checked.append(_check(path, content, digests))
    return checked


def _verify_recordings(folder: Path) -> list[Checked]:
    """The publisher states a digest of the archive alone, which `get` checks; here, that all that it held is
    there."""
    entry = catalogue["dvs-gesture"]
    checked = []
    for split, expected in zip(("train", "test"), entry.counts, strict=True):
        trials = read_trials(folder, split)
        for trial in trials:
            path = folder / f"{trial}.aedat"
            with reading(path):
                path.stat()
        gestures = sum(
            len(read_gestures(folder / f"{trial}_labels.csv", len(entry.classes))) for trial in trials
        )
        path = folder / f"trials_to_{split}.txt"
        if gestures != expected:
            raise FirstspikeError(
                f"{path}: its recordings mark {gestures} gestures; expected {expected}, so labels are missing."
            )
        checked.append(
            Checked(path, f"{len(trials)} recordings with {gestures} gestures (there, not digested)")
        )
    return checked


def _check(path: Path, content: _Readable, digests: Digests) -> Checked:
    hashes = {len(digest): hashlib.new("md5" if len(digest) == 32 else "sha256") for digest in digests}
    while chunk := content.read(1 << 20):
        for each in hashes.values():
            each.update(chunk)
    found = [each.hexdigest() for each in hashes.values()]
    for digest in found:
        if digest in digests:
            return Checked(path, digests[digest])
    wanted = next((digest for digest, note in digests.items() if note == ORIGINAL), next(iter(digests)))
    raise FirstspikeError(
        f"{path}: the digest of its content is {' / '.join(found)}; expected {wanted}, so it is not the file it "
        "should be: delete it and fetch it again."
    )
