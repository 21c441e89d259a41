"""The user's own arrays: an `.npz` with `x` and `y`, and `x_test` and `y_test` where the test split is given.

`x` is uint8 `[N, C, H, W]` (or `[N, H, W]`), or whole-numbered event counts `[N, T, C, H, W]`. `y` is `[N]`,
from 0. An array `classes` of strings may name the classes.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from firstspike.data.dataset import Dataset
from firstspike.data.files import check_labels
from firstspike.data.frames import Counts, Integrate, downsample, fitted, rebin
from firstspike.data.npz import map_npz, npz_names, npz_shape, read_npz
from firstspike.data.split import fixed_split
from firstspike.errors import FirstspikeError

_MOST_CLASSES = 2**16


def load_arrays(path: Path, split: str, steps: int | None, integrate: Integrate, size: int | None) -> Dataset:
    """One split of an `.npz`; without `x_test` a fifth of each class, fixed by a seed, is the test split."""
    names = _names(path)
    given = "x_test" in names
    suffix = "_test" if given and split == "test" else ""
    label_names = ["y", "y_test"] if given else ["y"]
    labels = read_npz(path, *label_names, *(["classes"] if "classes" in names else []))
    classes = _classes(path, labels, label_names)
    chosen = labels["y" + suffix]
    check_labels(path, chosen, len(classes))
    images = _images(path, "x" + suffix, steps, integrate, size)
    if len(images) != len(chosen):
        raise FirstspikeError(
            f"{path}: x{suffix} has {len(images)} samples and y{suffix} {len(chosen)}; expected as many."
        )
    kind = "event samples" if images.ndim == 5 else "images"
    whole = Dataset(
        path.stem,
        f"{split}, {len(images):,} {kind}",
        torch.from_numpy(images),
        torch.from_numpy(chosen.astype(np.int64)),
        classes,
    )
    return whole if given else fixed_split(whole, split)


def _names(path: Path) -> list[str]:
    names = npz_names(path)
    need = ["x", "y", *(["y_test"] if "x_test" in names else [])]
    for name in need:
        if name not in names:
            raise FirstspikeError(
                f"{path}: it holds {', '.join(names) or 'nothing'}; expected an array named {name} too."
            )
    if "x_test" in names and npz_shape(path, "x")[1:] != npz_shape(path, "x_test")[1:]:
        shapes = [list(npz_shape(path, name)[1:]) for name in ("x", "x_test")]
        raise FirstspikeError(
            f"{path}: samples of x are {shapes[0]} and of x_test {shapes[1]}; expected one shape."
        )
    return names


def _images(path: Path, name: str, steps: int | None, integrate: Integrate, size: int | None) -> Counts:
    images = map_npz(path, name)
    if images.ndim == 3:
        images = images[:, None]
    if images.ndim == 5:
        if images.dtype.kind not in "iu":
            raise FirstspikeError(f"{path}: {name} is {images.dtype}; expected whole numbers of events.")
        try:
            whole = fitted(images)
            return downsample(whole if steps is None else rebin(whole, steps, integrate), size)
        except FirstspikeError as error:
            raise FirstspikeError(f"{path}: in {name}, {error}") from error
    if images.ndim != 4:
        raise FirstspikeError(
            f"{path}: {name} has the shape {list(images.shape)}; expected images [N, C, H, W] or event frames [N, T, "
            "C, H, W]."
        )
    if images.dtype != np.uint8:
        raise FirstspikeError(
            f"{path}: {name} is {images.dtype}; expected uint8 (multiply values in [0, 1] by 255 and round)."
        )
    if images.shape[1] > 4 and images.shape[3] <= 4:
        raise FirstspikeError(
            f"{path}: {name} has the shape {list(images.shape)}, with the colours last; expected [N, C, H, W]: "
            "transpose it with x.transpose(0, 3, 1, 2)."
        )
    return images


def _classes(path: Path, arrays: dict[str, Counts], label_names: list[str]) -> tuple[str, ...]:
    for name in label_names:
        if arrays[name].dtype.kind not in "iu" or arrays[name].ndim != 1:
            raise FirstspikeError(
                f"{path}: {name} is {arrays[name].dtype} of shape {list(arrays[name].shape)}; expected whole numbers "
                "of shape [N]."
            )
    if "classes" in arrays:
        return tuple(str(name) for name in arrays["classes"].reshape(-1))
    highest = max(int(arrays[name].max(initial=0)) for name in label_names)
    if highest >= _MOST_CLASSES:
        raise FirstspikeError(
            f"{path}: there is a label {highest}; expected classes counted from 0, without gaps."
        )
    return tuple(str(label) for label in range(highest + 1))
