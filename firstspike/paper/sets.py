"""The tables of all sets: accuracy and inference steps, the paper's values beside ours."""

from collections.abc import Iterator

from firstspike.paper import values
from firstspike.paper.entry import Context, Runs
from firstspike.paper.library import from_relu, in_library, preferred
from firstspike.paper.seeds import steps_of, with_deviation
from firstspike.paper.table import Cell, Made, Table, mark
from firstspike.training import Run


def _of(
    runs: Runs, context: Context, data: str, architecture: str, started: bool
) -> tuple[list[Run], list[Run]]:
    """The runs of one set by the paper's method, those of this entry before the library's, and by our own recipe."""
    method = [] if started else runs.get(f"{data} {architecture} paper", [])
    method = method or from_relu(in_library(context, data, architecture, paper=True), started)
    return preferred(method), preferred(from_relu(in_library(context, data, architecture), started))


def _sets() -> Iterator[tuple[str, str, bool, tuple[float, float]]]:
    """Set, network, whether from ReLU weights, and the paper's accuracy with its deviation."""
    for (data, architecture), printed in values.ACCURACY.items():
        yield data, architecture, False, printed
        if (data, architecture) in values.PRETRAINED:
            yield data, architecture, True, values.PRETRAINED[data, architecture]


def accuracy(runs: Runs, context: Context) -> Made:
    """Accuracy on all sets: the paper, its method here, and our own recipe."""
    rows: list[tuple[Cell, ...]] = []
    for data, architecture, started, (printed, deviation) in _sets():
        method, ours = _of(runs, context, data, architecture, started)
        rows.append(
            (
                data,
                f"{architecture}, from ReLU" if started else architecture,
                f"{printed:.2f} ± {deviation:.2f}{mark(printed)}",
                with_deviation(method),
                len(method) or None,
                with_deviation(ours),
                with_deviation(ours, "potential"),
                steps_of(ours) or None,
                len(ours) or None,
            )
        )
    headings = (
        "set",
        "network",
        "paper %",
        "its method here, strict %",
        "its seeds here",
        "our recipe, strict %",
        "our recipe, potential %",
        "our T",
        "our seeds",
    )
    notes = (
        *values.SLIPS["accuracy"],
        "Our recipe: the runs in results/runs, as the recipe of that name has it today, or else the latest.",
    )
    if context.quick:
        notes = (*notes, "Its method here is of the quick form.")
    return Made(Table(headings, rows, notes))


def steps(runs: Runs, context: Context) -> Made:
    """Mean steps until the answer."""
    rows: list[tuple[Cell, ...]] = []
    for data, architecture in values.ACCURACY:
        method, ours = _of(runs, context, data, architecture, False)
        rows.append(
            (
                data,
                architecture,
                values.TQ_STEPS[data],
                values.STEPS[data],
                with_deviation(method, "steps"),
                with_deviation(ours, "steps"),
                steps_of(ours) or None,
            )
        )
    headings = (
        "set",
        "network",
        "paper, TQ-TTFS",
        "paper, ETTFS (T = 8)",
        "its method here (T = 8)",
        "our recipe",
        "our T",
    )
    note = "The paper gives one number a set, not saying for which network. Steps count from 1; silence counts T."
    return Made(Table(headings, rows, (note,)))
