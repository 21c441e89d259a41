"""`firstspike paper`: list, make, results."""

import difflib
import sys
from pathlib import Path
from typing import Annotated

import tyro
from tyro.extras import SubcommandApp

from firstspike.cli.show import STOPPED_STATUS, tell
from firstspike.errors import FirstspikeError
from firstspike.paper import ENTRIES, Settings, train_all
from firstspike.paper import make as make_entry
from firstspike.paper.entry import Entry
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
        runs = f"{quick} quick or {full} full runs" if full else "no runs"
        print(f"{name:<{width}}  {entry.kind:<6}  {entry.title} ({runs})")


@app.command
def make(
    names: tyro.conf.Positional[tuple[str, ...]],
    quick: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
    out: Path = Settings.out,
    runs: Path = Settings.cache,
    library: Path = Settings.library,
    seeds: int = Settings.seeds,
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
        seeds: Seeds of the full form; more of them later add to what is there.
        jobs: Train N runs at a time, side by side on the same device.
    """
    check_jobs(jobs)
    settings = Settings(quick, out, runs, library, seeds, options)
    entries = [find(name) for name in (ENTRIES if names == ("all",) else names)]
    failed = train_side_by_side(entries, settings, jobs) if jobs > 1 else set()
    for entry in entries:
        make_entry(entry, settings, tell, failed)
    print(settings.folder)


def train_side_by_side(entries: list[Entry], settings: Settings, jobs: int) -> set[str]:
    """Train all missing runs of entries; the names of those that failed."""
    ends = train_all(entries, settings, jobs, tell)
    if "stopped" in ends.values():
        tell(f"Continue with: {command()}")
        sys.exit(STOPPED_STATUS)
    refuse_broken(ends, f"`{command()}`")
    return {name for name, end in ends.items() if end == "failed"}


def find(name: str) -> Entry:
    """An entry by its name."""
    if name in ENTRIES:
        return ENTRIES[name]
    near = difflib.get_close_matches(name, ENTRIES, n=2)
    hint = f"did you mean {' or '.join(near)}?" if near else "`firstspike paper list` shows them all."
    raise FirstspikeError(f"The paper has no table or figure {name!r}: {hint}")


@app.command
def results(folder: Path = Path("results"), out: Path = Path("RESULTS.md")) -> None:
    """Write RESULTS.md from the files in results/.

    Args:
        folder: Where runs and the paper's entries lie.
        out: The file to write.
    """
    print(write_results(folder, out))
