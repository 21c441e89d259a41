"""Make an entry: find or train its runs, render it, write it down with its origin."""

import functools
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from firstspike.measure.plots import save_figure
from firstspike.paper.entry import SEEDS, Context, Entry, Runs
from firstspike.paper.runs import DIAGNOSTICS, digest, find, library_in, obtain, origin
from firstspike.paper.table import Made
from firstspike.training import Options, Recipe, Run
from firstspike.training.run import provenance, whole, write_json
from firstspike.training.side_by_side import End, Job, side_by_side


@dataclass(frozen=True)
class Settings:
    """How entries are made."""

    quick: bool = False
    """Small networks and few epochs on the shipped sample: minutes on a CPU."""
    out: Path = Path("results/paper")
    """Where tables and figures go: under `quick/` or `full/` there."""
    cache: Path = Path("runs/paper")
    """Where runs are trained, and found again."""
    library: Path = Path("results/runs")
    """Finished runs that are used where their recipe is the one wanted."""
    seeds: int = SEEDS
    """Seeds of the full form."""
    options: Options = field(default_factory=Options)

    @property
    def folder(self) -> Path:
        return self.out / ("quick" if self.quick else "full")


def train_all(
    entries: Sequence[Entry], settings: Settings, jobs: int, tell: Callable[[str], None] = print
) -> dict[str, End]:
    """Train all runs that entries need and that are not there yet, `jobs` at a time.

    Returns how each ended, by the name of its folder.
    """
    missing: dict[str, Job] = {}
    for entry in entries:
        usable = usable_by(entry, library_in(settings.library))
        for recipes in entry.plan(settings.quick, settings.seeds).values():
            for recipe in recipes:
                run = find(recipe, settings.cache, usable)
                if run.summary is None:
                    missing.setdefault(digest(recipe), Job(run.folder.name, run, recipe))
    return side_by_side(list(missing.values()), jobs, settings.options, tell, "firstspike.paper.worker")


def make(
    entry: Entry,
    settings: Settings,
    tell: Callable[[str], None] = print,
    failed: Collection[str] = (),
) -> list[Path]:
    """Make one table or figure; returns the files written.

    `failed` are the folders of runs whose training has failed just now: it is not tried again.
    """
    started = time.monotonic()
    made_by()
    library = library_in(settings.library)
    usable = usable_by(entry, library)

    def run_of(recipe: Recipe) -> Run:
        run = find(recipe, settings.cache, usable)
        if run.folder.name in failed:
            return run
        return obtain(recipe, settings.cache, usable, settings.options, tell)

    plan = entry.plan(settings.quick, settings.seeds)
    runs = {label: [run_of(recipe) for recipe in recipes] for label, recipes in plan.items()}
    made = entry.render(runs, Context(settings.quick, library))
    paths = write(entry, made, settings, runs)
    tell(f"{entry.name}: {', '.join(path.name for path in paths)} ({time.monotonic() - started:.0f} s)")
    return paths


def usable_by(entry: Entry, library: list[Run]) -> list[Run]:
    """Those runs of the library that have what the entry needs."""
    return [run for run in library if (run.folder / DIAGNOSTICS).is_dir()] if entry.diagnosed else library


def write(entry: Entry, made: Made, settings: Settings, runs: Runs) -> list[Path]:
    """The entry's Markdown and JSON, and its picture as SVG and PNG."""
    settings.folder.mkdir(parents=True, exist_ok=True)
    stem = settings.folder / entry.name
    paths = [stem.with_suffix(".md"), stem.with_suffix(".json")]
    with whole(paths[0]) as part:
        part.write_text(markdown(entry, made, settings.quick))
    write_json(paths[1], _values(entry, made, settings.quick, runs))
    if made.figure is not None:
        paths += save_figure(made.figure, stem)
    return paths


def markdown(entry: Entry, made: Made, quick: bool) -> str:
    """An entry as a section of its own."""
    parts = [f"## {entry.title}"]
    if quick and entry.recipes():
        parts.append(
            "Quick form: small networks, 4 epochs, 5,000 training images, one seed. It shows directions, not values."
        )
    if made.figure is not None:
        parts.append(f"![{entry.title}]({entry.name}.png)")
    if made.table:
        parts.append(made.table.markdown())
        parts += made.table.notes
    if made.claims:
        parts.append("\n".join(claim.line() for claim in made.claims))
    return "\n\n".join(parts) + "\n"


@functools.cache
def made_by() -> dict[str, Any]:
    """Command, commit and machine of this process: others may commit while it runs."""
    return provenance()


def _origin(run: Run) -> dict[str, Any]:
    """Where a run lies and what it came from."""
    made = origin(run)
    return {"folder": run.folder.name, "seed": run.recipe.seed} | {
        key: made.get(key) for key in ("commit", "machine", "command")
    }


def _values(entry: Entry, made: Made, quick: bool, runs: Runs) -> dict[str, Any]:
    from firstspike.config import to_dict

    return {
        "name": entry.name,
        "title": entry.title,
        "form": "quick" if quick else "full",
        "table": made.table.as_dict() if made.table else None,
        "data": made.data,
        "claims": [to_dict(claim) for claim in made.claims],
        "runs": {label: [_origin(run) for run in seeds] for label, seeds in runs.items()},
        "made": made_by(),
    }
