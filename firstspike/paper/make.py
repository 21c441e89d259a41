"""Make an entry: find or train its runs, render it, write it down with its origin."""

import functools
import time
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from firstspike.measure.plots import save_figure, style
from firstspike.paper.entry import Context, Entry, Runs
from firstspike.paper.keep import over_in
from firstspike.paper.registry import WORTH
from firstspike.paper.runs import DIAGNOSTICS, digest, find, is_over, library_in, obtain, origin
from firstspike.paper.table import Made
from firstspike.training import Options, Recipe, Run
from firstspike.training.run import provenance, whole, write_json
from firstspike.training.side_by_side import End, Job, side_by_side

Only = Literal["train", "draw"]


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
    seeds: int | None = None
    """Seeds of the full form; None for each entry's own."""
    options: Options = field(default_factory=Options)
    kept: Path = Path("results/paper/runs")
    """Runs that `firstspike paper keep` has put there, used as the library's are."""
    only: Only | None = None
    """Only train, where nothing can be drawn; or only draw from the runs there are, where nothing can be trained."""

    @property
    def folder(self) -> Path:
        return self.out / ("quick" if self.quick else "full")


def train_all(
    entries: Sequence[Entry], settings: Settings, jobs: int, tell: Callable[[str], None] = print
) -> dict[str, End]:
    """Train all runs that entries need and that are not there yet, `jobs` at a time.

    Returns how each ended, by the name of its folder.
    """
    wanted = missing(entries, settings)
    tell(f"{len(wanted)} runs to train, {sum(job.recipe.epochs for job in wanted)} epochs in all")
    return side_by_side(wanted, jobs, settings.options, tell, "firstspike.paper.worker")


def missing(entries: Sequence[Entry], settings: Settings) -> list[Job]:
    """The runs that are yet to be trained, each once, in order of worth.

    First the entries of several seeds, with the first seed of all of them before the next; then those of one. So
    wherever this is cut off, there are whole entries.
    """
    wanted: list[tuple[tuple[bool, int, int], Recipe, list[Run]]] = []
    library = finished(settings)
    for entry in entries:
        usable = usable_by(entry, library)
        place = WORTH.index(entry.name) if entry.name in WORTH else len(WORTH)
        for recipes in entry.plan(settings.quick, settings.seeds).values():
            wanted += [((entry.seeds == 1, recipe.seed, place), recipe, usable) for recipe in recipes]
    jobs: dict[str, Job] = {}
    for _, recipe, usable in sorted(wanted, key=lambda one: one[0]):
        run = find(recipe, settings.cache, usable)
        if not is_over(run):
            jobs.setdefault(digest(recipe), Job(run.folder.name, run, recipe))
    return list(jobs.values())


def finished(settings: Settings) -> list[Run]:
    """Runs made elsewhere or kept: nothing is ever written to them."""
    return over_in(settings.kept) + library_in(settings.library)


def make(
    entry: Entry,
    settings: Settings,
    tell: Callable[[str], None] = print,
) -> list[Path]:
    """Make one table or figure; returns the files written: none where runs are missing that may not be trained."""
    started = time.monotonic()
    made_by()
    library = library_in(settings.library)
    usable = usable_by(entry, finished(settings))

    def run_of(recipe: Recipe) -> Run:
        if settings.only == "draw":
            return find(recipe, settings.cache, usable)
        return obtain(recipe, settings.cache, usable, settings.options, tell)

    plan = entry.plan(settings.quick, settings.seeds)
    runs = {label: [run_of(recipe) for recipe in recipes] for label, recipes in plan.items()}
    runs = {
        label: there for label, seeds in runs.items() if (there := [run for run in seeds if is_over(run)])
    }
    absent = [label for label in plan if label not in runs]
    left_out = any(entry.needs is None or label in entry.needs for label in absent)
    if absent:
        tell(f"{entry.name}: no run yet of {', '.join(absent)}{'; left out' if left_out else ''}")
    if left_out:
        return []
    with style():
        made = entry.render(runs, Context(settings.quick, library))
    short = {label: len(seeds) - len(runs.get(label, [])) for label, seeds in plan.items()}
    paths = write(entry, made, settings, runs, {label: count for label, count in short.items() if count})
    tell(f"{entry.name}: {', '.join(path.name for path in paths)} ({time.monotonic() - started:.0f} s)")
    return paths


def usable_by(entry: Entry, library: list[Run]) -> list[Run]:
    """Those runs of the library that have what the entry needs."""
    return [run for run in library if (run.folder / DIAGNOSTICS).is_dir()] if entry.diagnosed else library


def write(entry: Entry, made: Made, settings: Settings, runs: Runs, lacking: dict[str, int]) -> list[Path]:
    """The entry's Markdown and JSON, and its picture as SVG and PNG; it says how many runs of a label it lacks."""
    settings.folder.mkdir(parents=True, exist_ok=True)
    stem = settings.folder / entry.name
    paths = [stem.with_suffix(".md"), stem.with_suffix(".json")]
    with whole(paths[0]) as part:
        part.write_text(markdown(entry, made, settings.quick, runs, lacking))
    write_json(paths[1], _values(entry, made, settings.quick, runs) | {"missing": lacking})
    if made.figure is not None:
        paths += save_figure(made.figure, stem)
    return paths


def markdown(entry: Entry, made: Made, quick: bool, runs: Runs, lacking: dict[str, int]) -> str:
    """An entry as a section of its own."""
    parts = [f"## {entry.title}"]
    if quick and entry.recipes():
        parts.append(
            "Quick form: small networks, 4 epochs, 5,000 training images, one seed. It shows directions, not values."
        )
    elif runs:
        parts.append(trained_how(runs))
    if lacking:
        parts.append(f"**Incomplete**: {told_missing(lacking, runs)}.")
    if made.figure is not None:
        parts.append(f"![{entry.title}]({entry.name}.png)")
    if made.table:
        parts.append(made.table.markdown())
        parts += made.table.notes
    if made.claims:
        parts.append("\n".join(claim.line() for claim in made.claims))
    return "\n\n".join(parts) + "\n"


def trained_how(runs: Runs) -> str:
    """How many seeds, epochs and samples a step the runs of an entry have."""
    recipes = [run.recipe for seeds in runs.values() for run in seeds]
    counts = (
        (map(len, runs.values()), "seed"),
        ((recipe.epochs for recipe in recipes), "epoch"),
    )
    seeds, epochs = (_counted(set(values), name) for values, name in counts)
    sizes = " or ".join(str(size) for size in sorted({recipe.batch_size for recipe in recipes}))
    spread = (
        "" if max(map(len, runs.values())) == 1 else " Values are means, ± the sample deviation over seeds."
    )
    return f"Full form: {seeds} of each network, {epochs}, batches of {sizes}.{spread}"


def told_missing(lacking: dict[str, int], runs: Container[str]) -> str:
    """Which runs there are not yet: whole labels, and seeds of others."""
    none = [label for label in lacking if label not in runs]
    fewer = [f"{label} ({count})" for label, count in lacking.items() if label in runs]
    parts = [f"no run yet of {', '.join(none)}"] if none else []
    return "; ".join(parts + ([f"seeds missing of {', '.join(fewer)}"] if fewer else []))


def _counted(values: set[int], name: str) -> str:
    """`1 seed`, `3 seeds`, `1 to 3 seeds`."""
    low, high = min(values), max(values)
    return f"{low if low == high else f'{low} to {high}'} {name}{'' if high == 1 else 's'}"


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
