"""A contact sheet: some samples of every class in one picture, to see what a network is given."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from firstspike.data.dataset import Dataset
from firstspike.data.files import written_whole
from firstspike.errors import FirstspikeError

Picture = npt.NDArray[np.uint8]
_COLUMNS, _GAP, _SMALLEST = 10, 2, 48
_PAPER, _INK = (255, 255, 255), (40, 40, 40)
# Off events blue, on events red, both brighter with more events: told apart by most colour-blind people.
_OFF, _ON = np.array([0.35, 0.6, 1.0]), np.array([1.0, 0.45, 0.2])


def contact_sheet(dataset: Dataset, path: Path | str) -> Path:
    """Write a PNG with one row a class: ten images, or the frames of one event sample from left to right."""
    path = Path(path)
    rows = []
    for label in range(len(dataset.classes)):
        members = torch.nonzero(dataset.labels == label)[:_COLUMNS, 0]
        samples = dataset.images[members]
        rows.append(
            _frames(samples[0]) if dataset.is_events and len(samples) else [_picture(one) for one in samples]
        )
    try:
        with written_whole(path) as out:
            _sheet(dataset, rows).save(out, format="PNG")
    except OSError as error:
        raise FirstspikeError(
            f"{path}: it cannot be written ({error.strerror or error}); choose another place."
        ) from error
    return path


def _sheet(dataset: Dataset, rows: list[list[Picture]]) -> Image.Image:
    _, height, width = dataset.input_shape
    # Whole multiples, so that a pixel of the data stays a square.
    zoom = max(1, -(-_SMALLEST // max(height, width)))
    tall, wide = height * zoom + _GAP, width * zoom + _GAP
    font = ImageFont.load_default()
    margin = int(max(font.getlength(name) for name in dataset.classes)) + 8
    heading = f"{dataset.name}: {dataset.split}"
    top = 18
    columns = max(len(row) for row in rows)
    total = max(margin + columns * wide, int(font.getlength(heading)) + 8)
    sheet = Image.new("RGB", (total, top + len(rows) * tall), _PAPER)
    pen = ImageDraw.Draw(sheet)
    pen.text((4, 3), heading, _INK, font)
    for number, (name, row) in enumerate(zip(dataset.classes, rows, strict=True)):
        y = top + number * tall
        pen.text((4, y + max(0, tall - 14) // 2), name, _INK, font)
        for column, picture in enumerate(row):
            tile = Image.fromarray(picture).resize((width * zoom, height * zoom), Image.Resampling.NEAREST)
            sheet.paste(tile, (margin + column * wide, y))
    return sheet


def _picture(image: Tensor) -> Picture:
    """`[C, H, W]` as `[H, W, 3]`; other than three channels are shown as their mean, in grey."""
    values = image.numpy()
    if len(values) != 3:
        values = np.broadcast_to(values.mean(0, keepdims=True), (3, *values.shape[1:]))
    return np.ascontiguousarray(values.transpose(1, 2, 0).astype(np.uint8))


def _frames(events: Tensor) -> list[Picture]:
    """`[T, C, H, W]` as T pictures, as bright as the sample's busiest pixels allow."""
    counts = events.numpy().astype(np.float64)
    active = counts[counts > 0]
    # Not the maximum: one noisy pixel would leave the rest black.
    level = np.clip(counts / (np.quantile(active, 0.95) if len(active) else 1.0), 0, 1)
    off, on = level[:, 0], level[:, -1] if level.shape[1] > 1 else 0 * level[:, 0]
    colour = np.clip(off[..., None] * _OFF + on[..., None] * _ON, 0, 1)
    return list((colour * 255).astype(np.uint8))
