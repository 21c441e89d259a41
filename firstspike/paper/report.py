"""RESULTS.md from what lies in results/: runs beside the paper, and what the paper's entries made."""

import json
import statistics
from datetime import datetime
from pathlib import Path
from typing import Any

from firstspike.paper import values
from firstspike.paper.make import told_missing
from firstspike.paper.registry import ENTRIES
from firstspike.paper.runs import library_in, origin
from firstspike.paper.seeds import steps_of
from firstspike.paper.table import Cell, Claim, Table
from firstspike.training import Recipe, Run
from firstspike.training.run import whole

PROBE = "probe-"
"""How the names of runs begin that were made to choose settings by."""


def write_results(results: Path, out: Path) -> Path:
    """Write RESULTS.md."""
    with whole(out) as part:
        part.write_text(results_page(results))
    return out


def results_page(results: Path) -> str:
    """The page as Markdown."""
    runs = library_in(results / "runs")
    final = [run for run in runs if not run.folder.name.startswith(PROBE)]
    probes = [run for run in runs if run.folder.name.startswith(PROBE)]
    parts = [
        "# Results",
        "Written by `firstspike paper results` from the files in [results/](results); do not edit. The test set is "
        "read once, at the end of a run. strict: a tie goes to the lowest class, silence to class 0 (the paper's "
        "rule, as far as it tells); potential: both go to the highest membrane potential. Steps count from 1.",
        "## Beside the paper",
        _beside(final).markdown() if final else "No final run yet.",
        "Paper: with T = 8, mean of its seeds. ± is the sample deviation over our seeds. Minutes of training, most "
        "of them beside up to 17 other runs on one GPU. Sets without a row have no run yet.",
        "## Where the runs come from",
        _origins(final).markdown() if final else "",
        *_notes(final),
    ]
    if probes:
        parts += [
            "## Probes",
            "Short runs made to choose settings, on a validation split where there is one. Not results.",
            _probes(probes).markdown(),
        ]
    parts += _entries(results / "paper", "full", "Tables and figures, full form")
    parts += _entries(results / "paper", "quick", "Tables and figures, quick form")
    return "\n\n".join(part for part in parts if part) + "\n"


def _beside(runs: list[Run]) -> Table:
    """A row for each recipe, kind of neuron and length, its seeds together."""
    groups: dict[tuple[Any, ...], list[Run]] = {}
    for run in runs:
        recipe = run.recipe
        network = recipe.network
        key = (recipe.data.name, network.architecture, recipe.name, network.unit, recipe.T, recipe.epochs)
        groups.setdefault(key, []).append(run)
    order = list(values.ACCURACY)
    rows: list[tuple[Cell, ...]] = []

    def place(key: tuple[Any, ...]) -> tuple[Any, ...]:
        return order.index(key[:2]) if key[:2] in order else 99, key[2], key[3] != "spike", key[3]

    for key in sorted(groups, key=place):
        data, architecture, name, unit, _, epochs = key
        found = groups[key]
        tests = [run.summary["test"] for run in found if run.summary]
        printed = the_papers(found[0].recipe)
        accuracy = "accuracy" if "accuracy" in tests[0] else "strict"
        rows.append(
            (
                data,
                architecture,
                f"`{name}`" + (f", {unit}" if unit != "spike" and unit not in name else ""),
                steps_of(found) if unit != "relu" else None,
                epochs,
                len(found),
                f"{printed[0]:.2f} ± {printed[1]:.2f}" if printed else None,
                _spread(tests, accuracy),
                _spread(tests, "potential"),
                values.STEPS.get(data) if unit == "spike" else None,
                _spread(tests, "steps"),
                _spread(tests, "spikes", 0),
                _spread([{"minutes": minutes(run)} for run in found], "minutes", 1),
            )
        )
    headings = (
        "set",
        "network",
        "recipe",
        "T",
        "epochs",
        "seeds",
        "paper %",
        "strict %",
        "potential %",
        "paper steps",
        "steps",
        "spikes per image",
        "minutes",
    )
    return Table(headings, rows)


def the_papers(recipe: Recipe) -> tuple[float, float] | None:
    """The accuracy that the paper gives for a recipe's network, and its deviation; none for the baselines."""
    if recipe.network.unit != "spike":
        return None
    start = recipe.network.start_from
    return (values.PRETRAINED if start else values.ACCURACY).get(
        (recipe.data.name, recipe.network.architecture)
    )


def minutes(run: Run) -> float:
    """From the start of a run to the end of its last epoch, as its files tell."""
    ended = datetime.fromisoformat(run.metrics("epoch")[-1]["time"])
    return (ended - datetime.fromisoformat(origin(run)["started"])).total_seconds() / 60


def _spread(tests: list[dict[str, Any]], measure: str, digits: int = 2) -> Cell:
    found = [test[measure] for test in tests if measure in test]
    if not found:
        return None
    text = f"{statistics.fmean(found):,.{digits}f}"
    return text if len(found) == 1 else f"{text} ± {statistics.stdev(found):.{digits}f}"


def short(commit: str) -> str:
    """The first letters of a commit; `+changes` stays, since the tree was then not that of the commit."""
    head, plus, _ = commit.partition("+")
    return head[:7] + ("+changes" if plus else "")


def _origins(runs: list[Run]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for run in runs:
        made = origin(run)
        rows.append(
            (
                f"[{run.folder.name}](results/runs/{run.folder.name})",
                str(run.recipe.seed),
                str(run.summary["test"]["dataset"]) if run.summary else None,
                short(made.get("commit", "unknown")),
                made.get("machine", "unknown"),
                f"`{made.get('command', 'unknown')}`",
            )
        )
    return Table(("run", "seed", "tested on", "commit", "machine", "command"), rows)


def _notes(runs: list[Run]) -> list[str]:
    return [f"{run.folder.name}: {note}" for run in runs if (note := origin(run).get("note"))]


def _probes(runs: list[Run]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for run in runs:
        if not run.summary:
            continue
        last = run.summary["last_epoch"]
        cells = (
            last.get("validation_strict"),
            last.get("validation_potential"),
            last.get("validation_steps"),
        )
        recipe = run.recipe
        rows.append(
            (run.folder.name.removeprefix(PROBE), f"`{recipe.name}`", recipe.T, recipe.epochs, *cells)
        )
    headings = (
        "probe",
        "recipe",
        "T",
        "epochs",
        "validation, strict %",
        "validation, potential %",
        "validation, steps",
    )
    return Table(headings, rows)


def _entries(folder: Path, form: str, title: str) -> list[str]:
    """Links to what the paper's entries made, and the claims they tested."""
    found = {}
    for name in ENTRIES:
        path = folder / form / f"{name}.json"
        if path.exists():
            found[name] = json.loads(path.read_text())
    if not found:
        return []
    origins = _machines([made["made"] for made in found.values()])
    runs = _machines([run for made in found.values() for seeds in made["runs"].values() for run in seeds])
    links = ", ".join(
        f"[{name}](results/paper/{form}/{name}.{'png' if ENTRIES[name].kind == 'figure' else 'md'})"
        for name in found
    )
    lacking = [
        f"{name} ({told_missing(made['missing'], made['runs'])})"
        for name, made in found.items()
        if made.get("missing")
    ]
    absent = [name for name in ENTRIES if name not in found]
    claims = [Claim(**claim).line() for made in found.values() for claim in made["claims"]]
    flag = warning = ""
    if form == "quick":
        flag = " --quick"
        warning = (
            " The quick form shows directions, not values: small networks, 4 epochs, 5,000 images, one seed."
        )
    return [
        f"## {title}",
        f"Made by `firstspike paper make all{flag}` at {origins}, from runs at {runs}.{warning}",
        links + ".",
        f"Incomplete: {'; '.join(lacking)}." if lacking else "",
        f"Left out, for want of runs: {', '.join(absent)}." if absent else "",
        "The paper's claims, tested on these:\n\n" + "\n".join(claims) if claims else "",
    ]


def _machines(made: list[dict[str, Any]]) -> str:
    """The commits and machines that made things."""
    return ", ".join(sorted({f"{short(one['commit'] or 'unknown')} on {one['machine']}" for one in made}))
