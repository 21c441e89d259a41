"""The measures of many runs, gathered into one table."""

import statistics
from collections.abc import Sequence
from typing import Any

from firstspike.training.run import Run

MEASURES = {"strict": "strict %", "potential": "potential %", "accuracy": "accuracy %", "steps": "steps"}
"""What a table shows, of what the runs have: the accuracies of spiking networks, or that of ReLU twins."""

ON_TEST = "There is no validation split (data.validation), so these are results on the test set: "
ON_TEST += "a setting chosen by them looks better than it is."


def collect(runs: Sequence[tuple[dict[str, str], int, Run]], choosing: bool) -> dict[str, Any]:
    """All measures of runs (given with settings and seed), and a row for each setting.

    Where settings are to be chosen from and there is a validation split, the rows are of that split, and the best
    of them is named with its results on the test set. Else they are of the test set.
    """
    lines = [_line(settings, seed, run) for settings, seed, run in runs]
    on = "validation" if choosing and any(line.get("validation") for line in lines) else "test"
    rows: list[dict[str, Any]] = []
    for line in lines:
        if not rows or rows[-1]["settings"] != line["settings"]:
            group = [other for other in lines if other["settings"] == line["settings"]]
            rows.append({"settings": line["settings"], **_row(group, on)})
    chosen = None
    if on == "validation":
        scored = [row for row in rows if _score(row) is not None]
        best = max(scored, key=lambda row: _score(row) or 0.0)
        group = [line for line in lines if line["settings"] == best["settings"]]
        chosen = {"settings": best["settings"], **_row(group, "test")}
    return {"on": on, "choosing": choosing, "rows": rows, "chosen": chosen, "runs": lines}


def _line(settings: dict[str, str], seed: int, run: Run) -> dict[str, Any]:
    """One run: where it is and what came out."""
    line: dict[str, Any] = {"folder": str(run.folder), "settings": settings, "seed": seed}
    if run.summary:
        prefix = "validation_"
        last = run.summary["last_epoch"].items()
        line["test"] = run.summary["test"]
        line["validation"] = {
            name.removeprefix(prefix): value for name, value in last if name.startswith(prefix)
        }
    elif failures := run.metrics("failed"):
        line["failed"] = failures[-1]["sentence"]
    return line


def _row(lines: list[dict[str, Any]], on: str) -> dict[str, Any]:
    """Mean and sample deviation of the runs of one setting."""
    row: dict[str, Any] = {"runs": len(lines), "finished": sum("test" in line for line in lines)}
    for name in MEASURES:
        values = [line[on][name] for line in lines if name in line.get(on, {})]
        if values:
            row[name] = {"mean": statistics.fmean(values)}
            row[name]["deviation"] = statistics.stdev(values) if len(values) > 1 else None
    return row


def _score(row: dict[str, Any]) -> float | None:
    """What settings are compared by."""
    measure = row.get("strict") or row.get("accuracy")
    return measure and float(measure["mean"])


def cells(results: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """The table of results: headings, and rows of text."""
    rows = results["rows"]
    shown = [name for name in MEASURES if any(name in row for row in rows)]
    headings = [*rows[0]["settings"], "runs", *(MEASURES[name] for name in shown)]
    lines = []
    for row in rows:
        runs = str(row["runs"]) if row["finished"] == row["runs"] else f"{row['finished']} of {row['runs']}"
        lines.append([*row["settings"].values(), runs, *(_cell(row.get(name)) for name in shown)])
    return headings, lines


def _cell(measure: dict[str, Any] | None) -> str:
    if measure is None:
        return "-"
    deviation = measure["deviation"]
    return f"{measure['mean']:.2f}" + ("" if deviation is None else f" ± {deviation:.2f}")


def notes(results: dict[str, Any]) -> list[str]:
    """What has to be said about the table."""
    said = [f"{line['folder']} failed: {line['failed']}" for line in results["runs"] if "failed" in line]
    if results["chosen"]:
        chosen = results["chosen"]
        settings = ", ".join(f"{name} = {value}" for name, value in chosen["settings"].items())
        measures = ", ".join(f"{MEASURES[name]} {_cell(chosen[name])}" for name in MEASURES if name in chosen)
        said.append(f"Chosen on the validation split: {settings}. On the test set it has {measures}.")
    elif results["choosing"]:
        said.append(ON_TEST)
    return said


def title(results: dict[str, Any]) -> str:
    datasets = {line["test"]["dataset"] for line in results["runs"] if "test" in line}
    where = " and ".join(sorted(datasets)) if results["on"] == "test" else "the validation split"
    return f"Results on {where or 'nothing yet'}: mean ± deviation over the runs"


def markdown(results: dict[str, Any]) -> str:
    """The results as a Markdown document."""
    headings, rows = cells(results)
    lines = [headings, ["---"] * len(headings), *rows]
    table = [f"| {' | '.join(line)} |" for line in lines]
    return "\n\n".join([title(results), "\n".join(table), *notes(results)]) + "\n"
