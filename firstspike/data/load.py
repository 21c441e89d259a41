"""`load`: one door to every data set, by name or by path."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from firstspike.data.arrays import load_arrays
from firstspike.data.cifar import read_cifar
from firstspike.data.dataset import Dataset
from firstspike.data.files import reading
from firstspike.data.folder import load_folder
from firstspike.data.frames import Counts, Integrate
from firstspike.data.gestures import find_recordings, load_gestures
from firstspike.data.idx import read_pair
from firstspike.data.names import Named, catalogue, unknown
from firstspike.data.npz import read_npz
from firstspike.data.root import data_root
from firstspike.data.steps import FADED_PARTS
from firstspike.errors import FirstspikeError

Split = Literal["train", "test"]
_SAMPLE = Path(__file__).parent / "sample" / "fashion-mnist-sample.npz"


def load(
    name_or_path: str | Path,
    split: Split = "train",
    *,
    root: Path | str | None = None,
    T: int | None = None,
    integrate: Integrate = "duration",
    size: int | None = None,
    clip: int = 0,
    parts: int = 1,
    fade: float = 0.0,
) -> Dataset:
    """One split of a data set: a name of the `catalogue`, a folder of images by class, or an `.npz` with x and y.

    Event sets are integrated to `T` frames, of equal duration or of equal event count; `T` means nothing to
    images. `size` sums the pixels of event frames to size x size, or cuts the pictures of a folder to it.
    `clip` cuts the counts of event frames to at most so many (1: whether there was an event); 0 leaves them.
    `parts` stores that many frames for each of the T steps, for `Batches` to sum up (`Augment.roll` needs them).
    `fade` adds to the channels of event frames the same counts again, late events weighing most: one counts 1/e
    after this share of a step.
    `root` is where the named sets lie (`data_root()` by default).
    """
    if split not in ("train", "test"):
        raise FirstspikeError(f"the split is {split!r}; expected train or test.")
    if integrate not in ("duration", "count"):
        raise FirstspikeError(f"integrate is {integrate!r}; expected duration or count.")
    if T is not None and T < 1:
        raise FirstspikeError(f"T is {T}; expected 1 or more.")
    if clip < 0:
        raise FirstspikeError(f"clip is {clip}; expected the largest event count to keep, or 0 for all.")
    if not 0 <= fade < math.inf or (fade and clip):
        raise FirstspikeError(
            f"fade is {fade} and clip {clip}; expected a share of a step (0: events do not fade), and no clip "
            "beside it."
        )
    if parts < 1 or (parts > 1 and clip):
        raise FirstspikeError(
            f"parts is {parts} and clip {clip}; expected parts of 1 or more, and 1 where counts are cut."
        )
    parts = max(parts, FADED_PARTS) if fade else parts
    root = data_root() if root is None else Path(root)
    dataset = _load(name_or_path, split, root, T and T * parts, integrate, size)
    if not dataset.is_events:
        return dataset
    if clip:
        return clipped(dataset, clip)
    description = f"{dataset.split}, fading by {fade:g}" if fade else dataset.split
    return replace(dataset, parts=parts, fade=fade, split=description)


def clipped(dataset: Dataset, most: int) -> Dataset:
    """Event frames with no count above `most`."""
    counts = dataset.images.clamp(max=most)
    description = f"{dataset.split}, counts up to {most}"
    return replace(dataset, images=counts.to(torch.uint8) if most < 256 else counts, split=description)


def _load(
    name_or_path: str | Path,
    split: Split,
    root: Path,
    T: int | None,
    integrate: Integrate,
    size: int | None,
) -> Dataset:
    if str(name_or_path) in catalogue:
        named = catalogue[str(name_or_path)]
        with reading(root / named.name):
            return _load_named(named, root / named.name, split, T, integrate, size)
    path = Path(os.path.expanduser(name_or_path or "no name"))
    with reading(path):
        if path.suffix == ".npz" and path.is_file():
            return load_arrays(path, split, T, integrate, size)
        if path.is_dir() and find_recordings(path):
            return _gestures(catalogue["dvs-gesture"], path, split, T, integrate, size)
        if path.is_dir():
            return load_folder(path, split, size, root / "cache")
    raise FirstspikeError(unknown(str(name_or_path)))


def _load_named(
    named: Named, folder: Path, split: Split, T: int | None, integrate: Integrate, size: int | None
) -> Dataset:
    if named.format == "sample":
        suffix = "" if split == "train" else "_test"
        arrays = read_npz(_SAMPLE, "x" + suffix, "y" + suffix)
        return _images(named, split, arrays["x" + suffix], arrays["y" + suffix])
    if not folder.is_dir() or not any(folder.iterdir()):
        raise FirstspikeError(
            f"{named.name} is not at {folder}; fetch it with `firstspike data get {named.name}`, or set "
            "FIRSTSPIKE_DATA to the folder that holds it."
        )
    if named.format == "gestures":
        return _gestures(named, folder, split, T, integrate, size)
    if named.format == "idx":
        return _images(named, split, *read_pair(folder, split, len(named.classes)))
    return _images(named, split, *read_cifar(folder, named.name, split, len(named.classes)))


def _images(named: Named, split: Split, images: Counts, labels: Counts) -> Dataset:
    description = f"{split}, {len(images):,} images"
    # A copy, because the bytes of a file are read-only and a tensor is not.
    pixels = torch.from_numpy(np.array(images))
    return Dataset(named.name, description, pixels, torch.from_numpy(labels.astype(np.int64)), named.classes)


def _gestures(
    named: Named, folder: Path, split: Split, T: int | None, integrate: Integrate, size: int | None
) -> Dataset:
    if T is None:
        raise FirstspikeError(
            f"{named.name} is made of events, and no T was given; say into how many frames, as T=8."
        )
    frames, labels, description = load_gestures(folder, split, len(named.classes), T, integrate, size)
    pixels, targets = torch.from_numpy(frames), torch.from_numpy(labels.astype(np.int64))
    return Dataset(named.name, description, pixels, targets, named.classes, mirrored=named.mirrored)
