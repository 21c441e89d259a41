"""What the seeds of one recipe have in common: means and deviations, as cells of a table."""

import statistics

from firstspike.paper.table import Cell, text
from firstspike.training import Run


def mean(runs: list[Run], measure: str = "strict") -> float | None:
    """Mean over the seeds of a measure on the test set; None where no run is finished or none has it."""
    found = [run.summary["test"].get(measure) for run in runs if run.summary]
    known = [value for value in found if value is not None]
    return statistics.fmean(known) if known else None


def with_deviation(runs: list[Run], measure: str = "strict") -> Cell:
    """Mean and, over several seeds, the sample deviation, as text."""
    found = [run.summary["test"][measure] for run in runs if run.summary and measure in run.summary["test"]]
    if not found:
        return "failed" if runs else None
    return spread(found)


def steps_of(runs: list[Run]) -> str:
    """The time steps of the networks, which a chosen fall may have made more than the recipe's."""
    found = {int(run.summary["test"].get("T", run.recipe.T)) for run in runs if run.summary}
    return " or ".join(map(str, sorted(found)))


def spread(found: list[float]) -> str:
    """Mean and, of several, the sample deviation, as text."""
    mean = statistics.fmean(found)
    if len(found) == 1:
        return text(mean)
    digits = 0 if abs(mean) >= 1000 else 2
    return f"{mean:,.{digits}f} ± {statistics.stdev(found):,.{digits}f}"


def compared(before: list[Run], after: list[Run]) -> str:
    """Two accuracies; and where one's best seed reaches the other's worst, that too."""
    one, other = ([run.summary["test"]["strict"] for run in runs if run.summary] for runs in (before, after))
    told = f"{spread(one)} to {spread(other)} %" if one and other else "failed"
    if min(len(one), len(other)) < 2:
        return told
    apart = max(one) < min(other) or max(other) < min(one)
    return told if apart else f"{told} (seeds overlap)"
