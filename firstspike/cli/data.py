"""`firstspike data`: list, get, verify, where, show."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console
from rich.table import Table

from firstspike import data

app = tyro.extras.SubcommandApp()
_Name = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")]


@app.command(name="list")
def list_sets() -> None:
    """List the data sets that have a name, and whether they are on this machine."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("name", "what", "train/test", "licence", "here"):
        # A name is there to be typed: it is never cut or wrapped.
        table.add_column(heading, no_wrap=heading == "name")
    for entry in data.catalogue.values():
        counts = f"{entry.counts[0]:,}/{entry.counts[1]:,}"
        table.add_row(
            entry.name, entry.title, counts, entry.licence, "no" if data.missing(entry.name) else "yes"
        )
    console = Console()
    console.print(table)
    console.print(f"They lie in {data.data_root()} (set FIRSTSPIKE_DATA to change it).", soft_wrap=True)


@app.command
def get(name: _Name) -> None:
    """Download, check and unpack a data set, unless it is there.

    Args:
        name: Which one; `firstspike data list` shows the names.
    """
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    with Progress(
        "{task.description}", BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()
    ) as bars:
        tasks: dict[str, object] = {}

        def progress(file: str, done: int, total: int | None) -> None:
            if file not in tasks:
                tasks[file] = bars.add_task(file)
            bars.update(tasks[file], completed=done, total=total)  # type: ignore[arg-type]

        folder = data.get(name, progress=progress)
    print(f"{name}: ready in {folder}")


@app.command
def verify(name: _Name) -> None:
    """Check the files of a data set against the digests of the originals.

    Args:
        name: Which one; `firstspike data list` shows the names.
    """
    for path, note in data.verify(name):
        print(f"{path}: {note}")


@app.command
def where() -> None:
    """Print the folder that holds the data sets."""
    print(data.data_root())


@app.command
def show(
    name: _Name,
    split: Literal["train", "test"] = "train",
    out: Path | None = None,
    T: int = 8,
    integrate: Literal["duration", "count"] = "duration",
    size: int | None = None,
) -> None:
    """Write a contact sheet (PNG): some images of each class, or the frames of one gesture of each class.

    Args:
        name: A data set's name, a folder of images by class, or an .npz with x and y.
        split: Which split to show.
        out: Where to write it; by default NAME-SPLIT.png in this folder.
        T: Frames that an event set is integrated to.
        integrate: Frames of equal duration, or of equal event count.
        size: Side in pixels that event frames are summed, or pictures cut, to.
    """
    dataset = data.load(name, split, T=T, integrate=integrate, size=size)
    path = data.contact_sheet(dataset, out or Path(f"{dataset.name}-{split}.png"))
    print(f"{dataset.name} ({dataset.split}): {path}")
