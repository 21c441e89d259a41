"""DVS128 Gesture, from the publisher's recordings or from frames of event counts made of them.

The publisher's folder has one recording (`userNN_light.aedat`) and one `userNN_light_labels.csv` for each
person and light, and `trials_to_train.txt` and `trials_to_test.txt`, which list the recordings. Each line of
the csv is one gesture: class from 1, begin and end in microseconds.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import numpy.typing as npt

from firstspike.data.aedat import Recording, read_aedat
from firstspike.data.cache import cached, fingerprint
from firstspike.data.files import check_labels, read_bytes, reading
from firstspike.data.frames import (
    Counts,
    Integrate,
    downsample,
    fitted,
    frame_by_count,
    frame_by_duration,
    rebin,
)
from firstspike.data.npz import read_npz
from firstspike.errors import FirstspikeError

SENSOR = 128
Gesture = tuple[int, int, int]
"""Label from 0, begin and end in microseconds."""


def find_recordings(folder: Path) -> Path | None:
    """Where in `folder` the publisher's recordings lie, if they do."""
    for place in (folder / "DvsGesture", folder):
        if (place / "trials_to_train.txt").is_file():
            return place
    return None


def load_gestures(
    folder: Path, split: str, classes: int, steps: int, integrate: Integrate, size: int | None
) -> tuple[Counts, Counts, str]:
    """Event counts `[N, T, 2, H, W]`, labels `[N]`, and the description of the split."""
    raw = find_recordings(folder)
    if raw is not None:
        trials = read_trials(raw, split)
        sources = [raw / f"{trial}{end}" for trial in trials for end in (".aedat", "_labels.csv")]
    else:
        sources = [folder / f"{split}.npz"]
        if not sources[0].is_file():
            raise FirstspikeError(
                f"{folder}: there are neither the publisher's recordings (DvsGesture/trials_to_train.txt) nor frames "
                f"({split}.npz); `firstspike data get dvs-gesture` says where to get them and where to put them."
            )

    def make() -> dict[str, Counts]:
        if raw is not None:
            frames, labels = _from_recordings(raw, trials, classes, steps, integrate, size or SENSOR)
        else:
            arrays = read_npz(sources[0], "x", "y")
            check_labels(sources[0], arrays["y"], classes)
            frames, labels = downsample(rebin(arrays["x"], steps, integrate), size), arrays["y"]
        return {"x": frames, "y": labels}

    key = f"{split}-T{steps}-{integrate}-{size or 'full'}-{fingerprint(sources)}"
    arrays = cached(folder / "cache" / f"{key}.npz", make)
    numbers = [_count(raw, folder, each, classes) for each in ("train", "test")]
    height, width = arrays["x"].shape[-2:]
    return arrays["x"], arrays["y"], f"{split} of the {numbers[0]}/{numbers[1]} split, {height}x{width}"


def read_gestures(path: Path, classes: int) -> list[Gesture]:
    """The gestures that a `_labels.csv` marks, with labels from 0."""
    with reading(path):
        lines = path.read_text(encoding="ascii", errors="replace").splitlines()
    gestures = []
    for number, row in enumerate(csv.reader(lines[1:]), start=2):
        if not row:
            continue
        try:
            label, begin, end = (int(cell) for cell in row)
        except ValueError:
            raise FirstspikeError(
                f"{path}: line {number} is {','.join(row)!r}; expected class, begin and end, three whole numbers."
            ) from None
        if not 1 <= label <= classes or end <= begin:
            raise FirstspikeError(
                f"{path}: line {number} is class {label} from {begin} to {end} us; expected a class from 1 to "
                f"{classes} and an end after the beginning."
            )
        gestures.append((label - 1, begin, end))
    return gestures


def integrate_gesture(
    recording: Recording, begin: int, end: int, steps: int, integrate: Integrate, size: int
) -> npt.NDArray[np.int64]:
    """The events from `begin` up to `end` as counts `[T, 2, size, size]`: polarity off, then on."""
    inside = slice(*np.searchsorted(recording.time, (begin, end)))
    time = recording.time[inside]
    if integrate == "duration":
        step = frame_by_duration(time - begin, end - begin, steps)
    else:
        step = frame_by_count(np.ones_like(time), steps)
    shrink = SENSOR // size
    place = (step * 2 + recording.polarity[inside]) * size + recording.y[inside] // shrink
    place = place * size + recording.x[inside] // shrink
    return np.bincount(place, minlength=steps * 2 * size * size).reshape(steps, 2, size, size)


def _from_recordings(
    folder: Path, trials: list[str], classes: int, steps: int, integrate: Integrate, size: int
) -> tuple[Counts, Counts]:
    if SENSOR % size:
        raise FirstspikeError(f"the size is {size}; expected a divisor of {SENSOR}, as pixels are summed.")
    frames, labels = [], []
    for trial in trials:
        path = folder / f"{trial}.aedat"
        recording = read_aedat(path)
        for axis, values in (("x", recording.x), ("y", recording.y)):
            if values.max(initial=0) >= SENSOR:
                raise FirstspikeError(
                    f"{path}: there is an event at {axis} = {values.max()}; expected 0 to {SENSOR - 1}."
                )
        for label, begin, end in read_gestures(folder / f"{trial}_labels.csv", classes):
            if recording.cut and (not len(recording.time) or recording.time[-1] < end):
                raise FirstspikeError(
                    f"{path}: the recording is cut short before the end of a gesture ({begin} to {end} us); fetch it "
                    "again."
                )
            counts = integrate_gesture(recording, begin, end, steps, integrate, size)
            frames.append(fitted(counts))
            labels.append(label)
    if not frames:
        raise FirstspikeError(
            f"{folder}: its recordings mark no gesture; expected at least one line in the _labels.csv files."
        )
    return np.stack(frames), np.array(labels, np.uint8)


def read_trials(folder: Path, split: str) -> list[str]:
    """The names of a split's recordings, without their ending."""
    path = folder / f"trials_to_{split}.txt"
    names = [line.strip() for line in read_bytes(path).decode("ascii", "replace").splitlines()]
    trials = [Path(name).stem for name in names if name]
    if not trials:
        raise FirstspikeError(f"{path}: it lists no recording; expected one file name a line.")
    return trials


def _count(raw: Path | None, folder: Path, split: str, classes: int) -> str:
    """How many samples a split has, without loading them; "?" where its files are not there."""
    try:
        if raw is None:
            return str(len(read_npz(folder / f"{split}.npz", "y")["y"]))
        tables = [raw / f"{trial}_labels.csv" for trial in read_trials(raw, split)]
        return str(sum(len(read_gestures(table, classes)) for table in tables))
    except FirstspikeError:
        return "?"
