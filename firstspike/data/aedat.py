"""AEDAT 3.1: the recordings of event cameras, read with numpy alone.

A text header of lines that begin with `#`, then packets: 28 bytes of header (type and source as int16; event
size, timestamp offset, timestamp overflow, capacity, number and valid number as int32; little-endian), then
the events. A polarity event (type 1) is two words: bit 0 valid, bit 1 polarity, bits 2 to 16 y, bits 17 to 31
x; and the low 31 bits of the timestamp in microseconds. Packets of other types are passed over.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from firstspike.data.files import read_bytes
from firstspike.errors import FirstspikeError

_PACKET = struct.Struct("<hhiiiiii")
_POLARITY, _POLARITY_SIZE = 1, 8
_VERSION = b"#!AER-DAT3.1"
_ADDRESS = 0x7FFF


class Recording(NamedTuple):
    """The valid polarity events of one recording, in the order of time: `[n]` each.

    `cut` says that the file ends inside a packet, so that events after the last one are missing.
    """

    time: npt.NDArray[np.int64]
    x: npt.NDArray[np.int64]
    y: npt.NDArray[np.int64]
    polarity: npt.NDArray[np.int64]
    cut: bool


def read_aedat(path: Path) -> Recording:
    """Read a recording; events that were written out of order are sorted, keeping the order of equal times."""
    raw = read_bytes(path)
    data, time, cut = _polarity_words(path, raw, _header_length(path, raw))
    valid = (data & 1).astype(bool)
    data, time = data[valid], time[valid]
    order = np.argsort(time, kind="stable")
    data, time = data[order].astype(np.int64), time[order]
    return Recording(time, data >> 17 & _ADDRESS, data >> 2 & _ADDRESS, data >> 1 & 1, cut)


def _header_length(path: Path, raw: bytes) -> int:
    """Bytes of the text header."""
    if not raw.startswith(_VERSION):
        raise FirstspikeError(
            f"{path}: it begins with {raw[:14]!r}; expected {_VERSION.decode()}, so this is not an AEDAT 3.1 "
            "recording."
        )
    place = 0
    while raw[place : place + 1] == b"#":
        end = raw.find(b"\n", place)
        if end < 0:
            raise FirstspikeError(f"{path}: it ends inside its text header; fetch it again.")
        line, place = raw[place:end].rstrip(), end + 1
        if line == b"#!END-HEADER":
            break
    return place


def _polarity_words(
    path: Path, raw: bytes, place: int
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64], bool]:
    """The data words and full timestamps of all polarity packets, and whether the file ends too early."""
    data, time = [np.zeros(0, np.uint32)], [np.zeros(0, np.int64)]
    while place + _PACKET.size <= len(raw):
        kind, _, size, _, overflow, _, number, _ = _PACKET.unpack_from(raw, place)
        if size <= 0 or number < 0 or (kind == _POLARITY and size != _POLARITY_SIZE):
            raise FirstspikeError(
                f"{path}: the packet at byte {place:,} says {number} events of {size} bytes and type {kind}; "
                f"expected polarity events (type {_POLARITY}) of {_POLARITY_SIZE} bytes, so the file is damaged."
            )
        begin = place + _PACKET.size
        place = begin + number * size
        if kind == _POLARITY:
            whole = (min(place, len(raw)) - begin) // size
            words = np.frombuffer(raw, "<u4", 2 * whole, begin).reshape(-1, 2)
            data.append(words[:, 0])
            time.append(words[:, 1].astype(np.int64) + (overflow << 31))
    return np.concatenate(data), np.concatenate(time), place != len(raw)
