"""Contact sheets."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from firstspike.data import Dataset, contact_sheet
from firstspike.errors import FirstspikeError


def test_a_sheet_shows_the_pixels_of_its_samples(pictures: Dataset, tmp_path: Path) -> None:
    path = contact_sheet(pictures, tmp_path / "deep" / "sheet.png")
    assert [entry.name for entry in path.parent.iterdir()] == ["sheet.png"]
    with Image.open(path) as sheet:
        shown = {tuple(colour) for colour in np.asarray(sheet).reshape(-1, 3)}
    first = pictures.images[int((pictures.labels == 2).nonzero()[0])]
    assert {tuple(colour) for colour in first.permute(1, 2, 0).reshape(-1, 3).numpy()} <= shown


def test_event_frames_lie_side_by_side(gestures: Dataset, tmp_path: Path) -> None:
    with Image.open(contact_sheet(gestures, tmp_path / "sheet.png")) as sheet:
        assert sheet.width >= 4 * 48
        assert sheet.height >= 3 * 48


def test_a_class_without_samples_has_an_empty_row(gestures: Dataset, tmp_path: Path) -> None:
    few = gestures.subset((gestures.labels == 1).nonzero()[:, 0])
    assert contact_sheet(few, tmp_path / "sheet.png").is_file()


def test_a_place_that_cannot_be_written_is_named(pictures: Dataset, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FirstspikeError, match=r"file/sheet\.png: it cannot be written"):
        contact_sheet(pictures, tmp_path / "file" / "sheet.png")
