"""The user's own pictures: a folder of images by class.

`folder/train/<class>/*` and `folder/test/<class>/*`, or `folder/<class>/*`, of which a fifth becomes the test
split.
"""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image, ImageOps

from firstspike.data.cache import fingerprint
from firstspike.data.dataset import Dataset
from firstspike.data.files import reading
from firstspike.data.split import fixed_split
from firstspike.errors import FirstspikeError

_ENDINGS = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
# Larger sets are decoded once into a file that is memory-mapped from then on.
_IN_MEMORY = 2**30


class _Form(NamedTuple):
    """What all pictures are brought to."""

    grey: bool
    height: int
    width: int
    cut: bool


def load_folder(folder: Path, split: str, size: int | None, cache: Path) -> Dataset:
    """One split of a folder of images; classes are the names of the folders, in alphabetical order."""
    divided = (folder / "train").is_dir() and (folder / "test").is_dir()
    places = [folder / "train", folder / "test"] if divided else [folder]
    classes = _subfolders(places[0])
    found = {place: _pictures(place, classes) for place in places}
    # Of both splits, so that the test images are grey, or of a size, only if the training images are too.
    form = _form([path for files in found.values() for path, _ in files], size)
    files = found[folder / split if divided else folder]
    images = _decoded([path for path, _ in files], form, cache)
    labels = torch.tensor([label for _, label in files])
    description = f"{split}, {len(images):,} images"
    whole = Dataset(folder.resolve().name, description, torch.from_numpy(images), labels, classes)
    return whole if divided else fixed_split(whole, split)


def _subfolders(folder: Path) -> tuple[str, ...]:
    with reading(folder):
        names = sorted(
            entry.name for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith(".")
        )
    if not names:
        raise FirstspikeError(f"{folder}: it holds no folders; expected one folder of images for each class.")
    return tuple(names)


def _pictures(place: Path, classes: tuple[str, ...]) -> list[tuple[Path, int]]:
    """The pictures below the class folders of `place`, with their labels."""
    strange = set(_subfolders(place)) - set(classes)
    if strange:
        raise FirstspikeError(
            f"{place / min(strange)}: there is no such class in train; expected {', '.join(classes)}."
        )
    files = []
    for label, name in enumerate(classes):
        with reading(place / name):
            below = sorted(path for path in (place / name).rglob("*") if path.suffix.lower() in _ENDINGS)
            files += [(path, label) for path in below if path.is_file()]
    if not files:
        raise FirstspikeError(
            f"{place}: its class folders hold no images; expected files ending in {' '.join(_ENDINGS)}."
        )
    return files


def _form(paths: list[Path], size: int | None) -> _Form:
    """Grey where every picture is; of the size that is given, or else of the one that all of them have."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        shapes = list(pool.map(_shape, paths))
    grey = all(mode in ("1", "L") for _, mode in shapes)
    if size:
        return _Form(grey, size, size, cut=True)
    width, height = shapes[0][0]
    for path, (shape, _) in zip(paths, shapes, strict=True):
        if shape != (width, height):
            raise FirstspikeError(
                f"{path}: it is {shape[0]} x {shape[1]}, but {paths[0].name} is {width} x {height}; expected one "
                "size: resize them, or give a size to cut all of them to."
            )
    return _Form(grey, height, width, cut=False)


def _decoded(paths: list[Path], form: _Form, cache: Path) -> npt.NDArray[np.uint8]:
    """All pictures as `[N, C, H, W]`, in memory or in a file that is mapped."""
    shape = (len(paths), 1 if form.grey else 3, form.height, form.width)
    if math.prod(shape) <= _IN_MEMORY:
        images = np.empty(shape, np.uint8)
        _fill(images, paths, form)
        return images
    target = cache / f"pictures-{'x'.join(map(str, shape[1:]))}-{fingerprint(paths)}.npy"
    if not target.is_file():
        cache.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f"{target.name}.{os.getpid()}.part")
        try:
            _fill(np.lib.format.open_memmap(part, "w+", np.uint8, shape), paths, form)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
    # Copy-on-write, since a tensor over read-only memory cannot be had; nobody writes to it.
    return np.load(target, mmap_mode="c", allow_pickle=False)  # type: ignore[no-any-return]


def _fill(images: npt.NDArray[np.uint8], paths: list[Path], form: _Form) -> None:
    def decode(index: int) -> None:
        images[index] = _pixels(paths[index], form)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for _ in pool.map(decode, range(len(paths))):
            pass


def _shape(path: Path) -> tuple[tuple[int, int], str]:
    try:
        with reading(path), Image.open(path) as picture:
            return picture.size, picture.mode
    except Image.DecompressionBombError as error:
        raise FirstspikeError(
            f"{path}: it is too large to be safe to open ({error}); make it smaller."
        ) from error


def _pixels(path: Path, form: _Form) -> npt.NDArray[np.uint8]:
    """One picture as `[C, H, W]`."""
    with reading(path), Image.open(path) as picture:
        plain = picture.convert("L" if form.grey else "RGB")
    if form.cut:
        plain = ImageOps.fit(plain, (form.width, form.height), Image.Resampling.BILINEAR)
    values = np.asarray(plain)
    return values[None] if form.grey else values.transpose(2, 0, 1)
