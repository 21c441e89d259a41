"""The user's own pictures: a folder of images by class.

`folder/train/<class>/*` and `folder/test/<class>/*`, or `folder/<class>/*`, of which a fifth becomes the test
split.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image, ImageOps

from firstspike.data.arrays import without_test_split
from firstspike.data.cache import fingerprint
from firstspike.data.dataset import Dataset
from firstspike.data.files import reading
from firstspike.errors import FirstspikeError

_ENDINGS = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
# Larger sets are decoded once into a file that is memory-mapped from then on.
_IN_MEMORY = 2**30


def load_folder(folder: Path, split: str, size: int | None, cache: Path) -> Dataset:
    """One split of a folder of images; classes are the names of the folders, in alphabetical order."""
    divided = (folder / "train").is_dir() and (folder / "test").is_dir()
    classes = _subfolders(folder / "train" if divided else folder)
    place = folder / split if divided else folder
    strange = set(_subfolders(place)) - set(classes)
    if strange:
        raise FirstspikeError(
            f"{place / min(strange)}: there is no such class in train; expected {', '.join(classes)}."
        )
    files = [(path, label) for label, name in enumerate(classes) for path in _pictures(place / name)]
    if not files:
        raise FirstspikeError(
            f"{place}: its class folders hold no images; expected files ending in {' '.join(_ENDINGS)}."
        )
    paths = [path for path, _ in files]
    images = _decoded(paths, size, cache)
    labels = torch.tensor([label for _, label in files])
    whole = Dataset(
        folder.resolve().name, f"{split}, {len(images):,} images", torch.from_numpy(images), labels, classes
    )
    return whole if divided else without_test_split(whole, split)


def _subfolders(folder: Path) -> tuple[str, ...]:
    with reading(folder):
        names = sorted(
            entry.name for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith(".")
        )
    if not names:
        raise FirstspikeError(f"{folder}: it holds no folders; expected one folder of images for each class.")
    return tuple(names)


def _pictures(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    with reading(folder):
        return sorted(
            path for path in folder.rglob("*") if path.suffix.lower() in _ENDINGS and path.is_file()
        )


def _decoded(paths: list[Path], size: int | None, cache: Path) -> npt.NDArray[np.uint8]:
    """All pictures as `[N, C, H, W]`, grey where every one of them is."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        shapes = list(pool.map(_shape, paths))
        grey = all(mode in ("1", "L") for _, mode in shapes)
        width, height = (size, size) if size else shapes[0][0]
        for path, (this, _) in zip(paths, shapes, strict=True):
            if not size and this != (width, height):
                raise FirstspikeError(
                    f"{path}: it is {this[0]} x {this[1]}, but {paths[0].name} is {width} x {height}; expected one "
                    "size: resize them, or give a size to cut all of them to."
                )
        shape = (len(paths), 1 if grey else 3, height, width)

        def fill(out: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
            def decode(index: int) -> None:
                out[index] = _pixels(paths[index], grey, size)

            list(pool.map(decode, range(len(paths))))
            return out

        if int(np.prod(shape)) <= _IN_MEMORY:
            return fill(np.empty(shape, np.uint8))
        target = cache / f"pictures-{size or 'full'}-{fingerprint(paths)}.npy"
        if not target.is_file():
            cache.mkdir(parents=True, exist_ok=True)
            part = target.with_name(f"{target.name}.{os.getpid()}.part")
            try:
                fill(np.lib.format.open_memmap(part, "w+", np.uint8, shape)).flush()  # type: ignore[attr-defined]
                part.replace(target)
            finally:
                part.unlink(missing_ok=True)
        # Copy-on-write, since a tensor over read-only memory cannot be had; nobody writes to it.
        return np.load(target, mmap_mode="c", allow_pickle=False)  # type: ignore[no-any-return]


def _shape(path: Path) -> tuple[tuple[int, int], str]:
    try:
        with reading(path), Image.open(path) as picture:
            return picture.size, picture.mode
    except Image.DecompressionBombError as error:
        raise FirstspikeError(
            f"{path}: it is too large to be safe to open ({error}); make it smaller."
        ) from error


def _pixels(path: Path, grey: bool, size: int | None) -> npt.NDArray[np.uint8]:
    """One picture as `[C, H, W]`."""
    with reading(path), Image.open(path) as picture:
        plain = picture.convert("L" if grey else "RGB")
    if size:
        plain = ImageOps.fit(plain, (size, size), Image.Resampling.BILINEAR)
    values = np.asarray(plain)
    return values[None] if grey else values.transpose(2, 0, 1)
