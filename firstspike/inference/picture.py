"""Pictures for a network: image files, and samples of a data set by their index."""

from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from firstspike.data import load
from firstspike.data.frames import Integrate
from firstspike.errors import FirstspikeError
from firstspike.models import Network


class Picture(NamedTuple):
    """Something to classify."""

    name: str
    values: Tensor
    """A batch of one, as the network takes it."""
    truth: int | None = None
    """Its label, where it is known."""
    classes: tuple[str, ...] = ()
    """The names of its data set's classes."""


def read_picture(
    net: Network,
    source: str,
    resize: bool = False,
    integrate: Integrate = "duration",
    clip: int = 0,
    fade: float = 0.0,
) -> Picture:
    """An image file, or `DATASET:INDEX` (of the test split) or `DATASET:SPLIT:INDEX`.

    Event sets are brought to frames as `data.load` says; use what the network was trained on.
    """
    if not Path(source).exists() and ":" in source:
        return _from_dataset(net, source, integrate, clip, fade)
    if net.config.encoding == "frames":
        raise FirstspikeError(
            f"This network takes event frames, not the picture {source}: give DATASET:INDEX, like dvs-gesture:0."
        )
    return Picture(source, _from_file(net, Path(source), resize))


def _from_dataset(net: Network, source: str, integrate: Integrate, clip: int, fade: float) -> Picture:
    name, *split, index = source.split(":")
    split = split or ["test"]
    if len(split) > 1 or split[0] not in ("train", "test") or not index.isdecimal():
        raise FirstspikeError(
            f"{source!r} is neither a file nor DATASET:INDEX: write for example fashion-mnist-sample:test:3."
        )
    T = net.T if net.config.encoding == "frames" else None
    part: Literal["train", "test"] = "train" if split[0] == "train" else "test"
    dataset = load(name, part, T=T, integrate=integrate, clip=clip, fade=fade)
    number = int(index)
    if number >= len(dataset):
        raise FirstspikeError(f"{source}: there are {len(dataset):,} samples, numbered from 0.")
    return Picture(source, dataset.sample(number), int(dataset.labels[number]), dataset.classes)


def _from_file(net: Network, path: Path, resize: bool) -> Tensor:
    shape = net.config.input_shape
    if len(shape) != 3 or shape[0] not in (1, 3):
        raise FirstspikeError(f"This network takes input of shape {shape}, which a picture file cannot give.")
    channels, height, width = shape
    try:
        with Image.open(path) as opened:
            picture = ImageOps.exif_transpose(opened).convert("L" if channels == 1 else "RGB")
    except FileNotFoundError as error:
        raise FirstspikeError(
            f"There is no file {path}: give image files, or samples as DATASET:INDEX."
        ) from error
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise FirstspikeError(f"{path} cannot be read as a picture: {error}.") from error
    if picture.size != (width, height):
        if not resize:
            raise FirstspikeError(
                f"{path} is {picture.width} x {picture.height} pixels, but the network takes {width} x {height}: "
                "cut it to size, or let --resize do so."
            )
        picture = ImageOps.fit(picture, (width, height), Image.Resampling.BILINEAR)
    pixels = torch.from_numpy(np.array(picture)).float() / 255
    return pixels[None, None] if channels == 1 else pixels.permute(2, 0, 1)[None].contiguous()
