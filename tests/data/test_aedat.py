"""AEDAT 3.1 recordings, written byte by byte."""

from collections.abc import Callable
from pathlib import Path

import pytest

from firstspike.data.aedat import read_aedat
from firstspike.errors import FirstspikeError

Aedat = Callable[..., bytes]
EVENTS = [(10, 5, 6, 1, 1), (20, 127, 0, 0, 1), (30, 0, 127, 1, 1)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "user.aedat"


def test_events_come_out_as_they_were_written(path: Path, aedat: Aedat) -> None:
    path.write_bytes(aedat([(1, 0, EVENTS[:2]), (1, 0, EVENTS[2:])]))
    recording = read_aedat(path)
    columns = (recording.time, recording.x, recording.y, recording.polarity)
    assert [tuple(map(int, event)) for event in zip(*columns, strict=True)] == [event[:4] for event in EVENTS]
    assert not recording.cut


def test_the_timestamp_overflow_counts(path: Path, aedat: Aedat) -> None:
    path.write_bytes(aedat([(1, 0, [(2**31 - 1, 0, 0, 0, 1)]), (1, 1, [(3, 0, 0, 0, 1)])]))
    assert read_aedat(path).time.tolist() == [2**31 - 1, 2**31 + 3]


def test_other_event_types_and_invalid_events_are_passed_over(path: Path, aedat: Aedat) -> None:
    invalid = (15, 9, 9, 1, 0)
    special = (0, 0, [(12, 0, 0, 0, 1)])
    imu = (3, 0, [(13, 0, 0, 0, 1)] * 5)
    path.write_bytes(aedat([special, (1, 0, [EVENTS[0], invalid]), imu, (1, 0, EVENTS[1:]), special]))
    assert read_aedat(path).time.tolist() == [10, 20, 30]


def test_events_out_of_order_are_sorted_and_equal_times_keep_their_order(path: Path, aedat: Aedat) -> None:
    path.write_bytes(
        aedat([(1, 0, [(30, 1, 0, 0, 1), (10, 2, 0, 0, 1)]), (1, 0, [(10, 3, 0, 0, 1), (5, 4, 0, 0, 1)])])
    )
    recording = read_aedat(path)
    assert recording.time.tolist() == [5, 10, 10, 30]
    assert recording.x.tolist() == [4, 2, 3, 1]


@pytest.mark.parametrize(("missing", "left"), [(1, 2), (8, 2), (9, 1), (16, 1), (24, 0), (30, 0)])
def test_a_truncated_recording_keeps_its_whole_events_and_says_that_it_is_cut(
    path: Path, aedat: Aedat, missing: int, left: int
) -> None:
    path.write_bytes(aedat([(1, 0, EVENTS)])[:-missing])
    recording = read_aedat(path)
    assert recording.cut
    assert recording.time.tolist() == [10, 20, 30][:left]


def test_a_header_without_an_end_mark_is_read(path: Path, aedat: Aedat) -> None:
    path.write_bytes(aedat([(1, 0, EVENTS)], header=b"#!AER-DAT3.1\r\n#Start-Time: now\r\n"))
    assert len(read_aedat(path).time) == 3


def test_an_empty_recording_has_no_events(path: Path, aedat: Aedat) -> None:
    path.write_bytes(aedat([]))
    recording = read_aedat(path)
    assert len(recording.time) == 0
    assert not recording.cut


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"#!AER-DAT2.0\r\nxxxx", "begins with b'#!AER-DAT2.0"),
        (b"", "begins with b''"),
        (b"#!AER-DAT3.1\r\n#Forma", "ends inside its text header"),
        (b"#!AER-DAT3.1\r\n" + b"\x01\0\0\0" + b"\xff" * 24, "packet at byte 14"),
    ],
)
def test_what_is_no_recording_is_refused(path: Path, raw: bytes, message: str) -> None:
    path.write_bytes(raw)
    with pytest.raises(FirstspikeError, match=message) as caught:
        read_aedat(path)
    assert str(path) in str(caught.value)
