"""DVS Gesture, from recordings and from frames: the same code, the same counts."""

from pathlib import Path

import numpy as np
import pytest
import torch

from firstspike.data import Dataset, load
from firstspike.errors import FirstspikeError

TABLE = "dvs-gesture/DvsGesture/user03_led_labels.csv"


def test_recordings_are_cut_into_gestures(recordings: Path) -> None:
    train, test = (load("dvs-gesture", split, root=recordings, T=4) for split in ("train", "test"))
    assert tuple(train.images.shape) == (4, 4, 2, 128, 128)
    assert train.labels.tolist() == [0, 2, 0, 2]
    assert len(train.classes) == 11
    assert train.split == "train of the 4/2 split, 128x128"
    assert test.split == "test of the 4/2 split, 128x128"


def test_every_event_of_a_gesture_lands_in_its_frame(recordings: Path, aedat) -> None:
    events = [
        (0, 1, 2, 0, 1),
        (499, 1, 2, 0, 1),
        (500, 127, 126, 1, 1),
        (999, 127, 126, 1, 1),
        (1000, 9, 9, 1, 1),
    ]
    (recordings / "dvs-gesture/DvsGesture/user03_led.aedat").write_bytes(aedat([(1, 0, events)]))
    (recordings / TABLE).write_text("class,startTime_usec,endTime_usec\n11,0,1000\n")
    sample = load("dvs-gesture", "test", root=recordings, T=2).images[0]
    assert sample.sum() == 4
    assert sample[0, 0, 2, 1] == 2
    assert sample[1, 1, 126, 127] == 2


@pytest.mark.parametrize("integrate", ["duration", "count"])
def test_pixels_are_summed_when_the_size_shrinks(recordings: Path, integrate) -> None:
    full = load("dvs-gesture", "train", root=recordings, T=3, integrate=integrate)
    small = load("dvs-gesture", "train", root=recordings, T=3, integrate=integrate, size=32)
    blocks = full.images.view(4, 3, 2, 32, 4, 32, 4).sum((4, 6))
    assert torch.equal(small.images.long(), blocks)
    assert small.split.endswith("32x32")


def test_integration_by_count_gives_frames_of_equal_counts(recordings: Path) -> None:
    totals = (
        load("dvs-gesture", "train", root=recordings, T=5, integrate="count").images.long().sum((2, 3, 4))
    )
    assert (totals.max(1).values - totals.min(1).values).max() <= 1


def as_frames(root: Path, bins: int) -> tuple[Path, Dataset]:
    """The recordings under `root` as `{train,test}.npz` of `bins` frames under a second root."""
    other = root / "frames"
    (other / "dvs-gesture").mkdir(parents=True)
    for split in ("train", "test"):
        fine = load("dvs-gesture", split, root=root, T=bins)
        np.savez(
            other / f"dvs-gesture/{split}.npz", x=fine.images.numpy(), y=fine.labels.numpy().astype(np.uint8)
        )
    return other, fine


@pytest.mark.parametrize("T", [1, 2, 5, 10, 20])
def test_frames_sum_to_what_the_recordings_give(recordings: Path, T: int) -> None:
    other, _ = as_frames(recordings, 20)
    direct = load("dvs-gesture", "test", root=recordings, T=T)
    summed = load("dvs-gesture", "test", root=other, T=T)
    assert torch.equal(direct.images, summed.images)
    assert summed.split == "test of the 4/2 split, 128x128"


@pytest.mark.parametrize("T", [1, 3, 7])
def test_frames_summed_by_count_lose_no_event_and_stay_in_order(recordings: Path, T: int) -> None:
    other, fine = as_frames(recordings, 50)
    frames = load("dvs-gesture", "test", root=other, T=T, integrate="count").images.long()
    assert torch.equal(frames.sum(1), fine.images.long().sum(1))
    totals = frames.sum((2, 3, 4))
    heaviest_bin = fine.images.long().sum((2, 3, 4)).max(1).values
    assert ((totals - totals.float().mean(1, keepdim=True)).abs() <= heaviest_bin[:, None]).all()


def test_more_frames_than_bins_are_refused(recordings: Path) -> None:
    other, _ = as_frames(recordings, 4)
    with pytest.raises(
        FirstspikeError, match="5 frames were asked for, but the events are stored in 4; expected at most 4"
    ):
        load("dvs-gesture", "test", root=other, T=5)


def test_counts_over_255_are_kept(recordings: Path, aedat) -> None:
    raw = aedat([(1, 0, [(t % 900, 7, 7, 1, 1) for t in range(700)])])
    (recordings / "dvs-gesture/DvsGesture/user03_led.aedat").write_bytes(raw)
    sample = load("dvs-gesture", "test", root=recordings, T=1).images
    assert sample.dtype == torch.int16
    assert sample.max() == 700


def test_the_cache_is_used_refreshed_and_mended(recordings: Path, aedat) -> None:
    first = load("dvs-gesture", "test", root=recordings, T=2)
    (cache,) = (recordings / "dvs-gesture/cache").glob("test-T2-*.npz")
    assert torch.equal(load("dvs-gesture", "test", root=recordings, T=2).images, first.images)
    cache.write_bytes(cache.read_bytes()[:100])
    assert torch.equal(load("dvs-gesture", "test", root=recordings, T=2).images, first.images)
    (recordings / "dvs-gesture/DvsGesture/user03_led.aedat").write_bytes(aedat([(1, 0, [(1, 1, 1, 1, 1)])]))
    assert load("dvs-gesture", "test", root=recordings, T=2).images.sum() == 1
    assert not list((recordings / "dvs-gesture/cache").glob("*.part"))


def test_a_recording_cut_inside_a_gesture_is_refused(recordings: Path) -> None:
    path = recordings / "dvs-gesture/DvsGesture/user03_led.aedat"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(FirstspikeError, match=r"user03_led\.aedat: the recording is cut short"):
        load("dvs-gesture", "test", root=recordings, T=2)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("12,0,1000", "line 2 is class 12"),
        ("0,0,1000", "line 2 is class 0"),
        ("1,500,500", "from 500 to 500 us"),
        ("1,zero,500", "line 2 is '1,zero,500'"),
        ("1,2", "expected class, begin and end"),
    ],
)
def test_wrong_labels_are_refused(recordings: Path, line: str, message: str) -> None:
    (recordings / TABLE).write_text(f"class,startTime_usec,endTime_usec\n{line}\n")
    with pytest.raises(FirstspikeError, match=message):
        load("dvs-gesture", "test", root=recordings, T=2)


def test_an_event_off_the_sensor_is_refused(recordings: Path, aedat) -> None:
    raw = aedat([(1, 0, [(1, 200, 3, 1, 1)])])
    (recordings / "dvs-gesture/DvsGesture/user03_led.aedat").write_bytes(raw)
    with pytest.raises(FirstspikeError, match="x = 200; expected 0 to 127"):
        load("dvs-gesture", "test", root=recordings, T=2)


def test_a_missing_recording_is_named(recordings: Path) -> None:
    (recordings / "dvs-gesture/DvsGesture/user03_led.aedat").unlink()
    with pytest.raises(FirstspikeError, match=r"user03_led\.aedat: there is no such file"):
        load("dvs-gesture", "test", root=recordings, T=2)


def test_an_event_set_asks_for_T(recordings: Path) -> None:
    with pytest.raises(FirstspikeError, match=r"made of events.*T=8"):
        load("dvs-gesture", root=recordings)


def test_a_publishers_folder_loads_by_path(recordings: Path) -> None:
    assert len(load(recordings / "dvs-gesture/DvsGesture", "test", T=2)) == 2
