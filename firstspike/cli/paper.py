"""`firstspike paper`: list, make, results."""

import difflib
import sys
from pathlib import Path
from typing import Annotated

import tyro
from tyro.extras import SubcommandApp

from firstspike.cli.show import STOPPED_STATUS, tell
from firstspike.errors import FirstspikeError
from firstspike.paper import ENTRIES, Settings, keep_all, train_all
from firstspike.paper import make as make_entry
from firstspike.paper.entry import Entry
from firstspike.paper.make import Only, missing
from firstspike.paper.report import write_results
from firstspike.training import Options
from firstspike.training.run import command
from firstspike.training.side_by_side import check_jobs, refuse_broken

app = SubcommandApp()


@app.command(name="list")
def list_() -> None:
    """List the paper's tables and figures, and the runs that each is made from."""
    width = max(map(len, ENTRIES))
    for name, entry in ENTRIES.items():
        quick, full = (sum(map(len, entry.plan(form).values())) for form in (True, False))
        wanted = len(missing([entry], Settings()))
        left = f", {wanted} of them yet to be trained" if wanted else ""
        runs = f"{quick} quick or {full} full runs{left}" if full else "no runs"
        print(f"{name:<{width}}  {entry.kind:<6}  {entry.title} ({runs})")


@app.command
def make(
    names: tyro.conf.Positional[tuple[str, ...]],
    quick: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
    out: Path = Settings.out,
    runs: Path = Settings.cache,
    library: Path = Settings.library,
    kept: Path = Settings.kept,
    seeds: int | None = None,
    only: Only | None = None,
    jobs: Annotated[int, tyro.conf.arg(metavar="N")] = 1,
    options: Annotated[Options, tyro.conf.arg(name="")] = Options(),  # noqa: B008
) -> None:
    """Make tables and figures of the paper's, training the runs they need; a stopped command goes on where it was.

    Args:
        names: Names that `firstspike paper list` shows, or all.
        quick: Small networks and four epochs on the shipped sample: minutes on a CPU.
        out: Folder of tables and figures; they go under quick/ or full/ there.
        runs: Folder of the runs, which entries share.
        library: Folder of finished runs to use where their recipe is the one wanted.
        kept: The same, of runs that `firstspike paper keep` has put there.
        seeds: Seeds of the full form, by default 3 or 1 as `firstspike paper list` says; more of them later add to
            what is there.
        only: train: train the runs and draw nothing; draw: train nothing, and draw what can be from the runs there
            are.
        jobs: Train N runs at a time, side by side on the same device.
    """
    check_jobs(jobs)
    if not names:
        raise FirstspikeError("Say what to make: names that `firstspike paper list` shows, or all.")
    if seeds is not None and seeds < 1:
        raise FirstspikeError(f"--seeds is {seeds}: give 1 or more.")
    settings = Settings(quick, out, runs, library, seeds, options, kept, only)
    entries = [find(name) for name in (ENTRIES if "all" in names else names)]
    if only == "train" or (jobs > 1 and only != "draw"):
        train_side_by_side(entries, settings, jobs)
    if only == "train":
        print(runs)
        return
    for entry in entries:
        make_entry(entry, settings, tell)
    print(settings.folder)


def train_side_by_side(entries: list[Entry], settings: Settings, jobs: int) -> None:
    """Train all missing runs of entries; a failed one is told of, and left."""
    ends = train_all(entries, settings, jobs, tell)
    if "stopped" in ends.values():
        tell(f"Continue with: {command()}")
        sys.exit(STOPPED_STATUS)
    refuse_broken(ends, f"`{command()}`")


def find(name: str) -> Entry:
    """An entry by its name."""
    if name in ENTRIES:
        return ENTRIES[name]
    near = difflib.get_close_matches(name, ENTRIES, n=2)
    hint = f"did you mean {' or '.join(near)}?" if near else "`firstspike paper list` shows them all."
    raise FirstspikeError(f"The paper has no table or figure {name!r}: {hint}")


@app.command
def keep(runs: Path = Settings.cache, out: Path = Settings.kept) -> None:
    """Copy the runs of tables and figures that are over, without their weights, to where `paper make` finds them.

    Args:
        runs: Folder they were trained in.
        out: Folder to copy them to.
    """
    copies = keep_all(runs, out)
    size = sum(path.stat().st_size for copy in copies for path in copy.folder.rglob("*") if path.is_file())
    print(f"{out}: {len(copies)} runs, {size / 2**20:.1f} MiB")


@app.command
def results(folder: Path = Path("results"), out: Path = Path("RESULTS.md")) -> None:
    """Write RESULTS.md from the files in results/.

    Args:
        folder: Where runs and the paper's entries lie.
        out: The file to write.
    """
    if not folder.is_dir():
        raise FirstspikeError(
            f"There is no folder {folder}: give the one that holds runs/ and paper/ as --folder."
        )
    print(write_results(folder, out))
