"""Small sets in the publishers' formats, written by the tests themselves."""

from __future__ import annotations

import gzip
import os
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from firstspike.data import Dataset


@pytest.fixture
def pictures() -> Dataset:
    """97 colour images of 12 x 10 in three classes: a last batch of 8 is one sample."""
    return _random((97, 3, 12, 10), 256)


@pytest.fixture
def gestures() -> Dataset:
    """41 event samples of 4 steps, 16 x 16, in three classes."""
    return _random((41, 4, 2, 16, 16), 5)


def _random(shape: tuple[int, ...], values: int) -> Dataset:
    draw = torch.Generator().manual_seed(0)
    images = torch.randint(0, values, shape, generator=draw).to(torch.uint8)
    labels = torch.randint(0, 3, shape[:1], generator=draw)
    return Dataset("noise", f"train, {shape[0]} samples", images, labels, ("a", "b", "c"))


@pytest.fixture
def write_idx() -> Callable[[Path, np.ndarray], None]:
    """Write an idx file of unsigned bytes, gzipped where the name says so."""

    def write(path: Path, values: np.ndarray) -> None:
        header = struct.pack(">HBB", 0, 8, values.ndim) + struct.pack(f">{values.ndim}I", *values.shape)
        path.parent.mkdir(parents=True, exist_ok=True)
        raw = header + values.astype(np.uint8).tobytes()
        path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)

    return write


@pytest.fixture
def mnist(tmp_path: Path, write_idx: Callable[[Path, np.ndarray], None]) -> Path:
    """A data root with a tiny MNIST: gzipped training files, raw test files."""
    draw = np.random.default_rng(0)
    for prefix, count, end in (("train", 20, ".gz"), ("t10k", 10, "")):
        write_idx(tmp_path / f"mnist/{prefix}-images-idx3-ubyte{end}", draw.integers(0, 256, (count, 28, 28)))
        write_idx(tmp_path / f"mnist/{prefix}-labels-idx1-ubyte{end}", np.arange(count) % 10)
    return tmp_path


@pytest.fixture
def published(request: pytest.FixtureRequest) -> Path:
    """The root of the real data sets, for tests that need them."""
    root = os.environ.get("FIRSTSPIKE_DATA")
    if not root or not Path(root).is_dir():
        pytest.skip("FIRSTSPIKE_DATA names no folder of data sets")
    return Path(root)


Packet = tuple[int, int, list[tuple[int, int, int, int, int]]]
"""Type, timestamp overflow, and events as (time, x, y, polarity, valid)."""


def aedat_bytes(
    packets: list[Packet], header: bytes = b"#!AER-DAT3.1\r\n#Format: RAW\r\n#!END-HEADER\r\n"
) -> bytes:
    """An AEDAT 3.1 recording, byte by byte. Types other than polarity (1) get events of 12 bytes."""
    raw = header
    for kind, overflow, events in packets:
        size = 8 if kind == 1 else 12
        raw += struct.pack("<hhiiiiii", kind, 1, size, 4, overflow, len(events), len(events), len(events))
        for time, x, y, polarity, valid in events:
            raw += struct.pack("<Ii", x << 17 | y << 2 | polarity << 1 | valid, time) + b"\xff" * (size - 8)
    return raw


@pytest.fixture
def aedat() -> Callable[..., bytes]:
    """`aedat_bytes`, for tests."""
    return aedat_bytes


@pytest.fixture
def recordings(tmp_path: Path) -> Path:
    """A `DvsGesture` folder: two people to train on, one to test; two gestures each, of classes 1 and 3."""
    folder = tmp_path / "dvs-gesture" / "DvsGesture"
    folder.mkdir(parents=True)
    draw = np.random.default_rng(0)
    for trial in ("user01_led", "user02_led", "user03_led"):
        columns = (
            np.sort(draw.integers(0, 4000, 500)),
            *draw.integers(0, 128, (2, 500)),
            draw.integers(0, 2, 500),
        )
        events = [(int(t), int(x), int(y), int(p), 1) for t, x, y, p in zip(*columns, strict=True)]
        (folder / f"{trial}.aedat").write_bytes(aedat_bytes([(1, 0, events[:300]), (1, 0, events[300:])]))
        table = "class,startTime_usec,endTime_usec\n1,0,1000\n3,2000,4000\n"
        (folder / f"{trial}_labels.csv").write_text(table)
    (folder / "trials_to_train.txt").write_text("user01_led.aedat\nuser02_led.aedat\n")
    (folder / "trials_to_test.txt").write_text("user03_led.aedat\n\n")
    return tmp_path
