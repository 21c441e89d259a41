"""Progress and results on the screen."""

import math
import sys
from collections.abc import Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from firstspike.errors import FirstspikeError
from firstspike.training import Progress as Standing
from firstspike.training import Run
from firstspike.training.distributed import Place

STOPPED_STATUS = 3
"""Exit status of a run that was stopped before its end, and can be resumed."""


def follow(progress: Iterator[Standing], run: Run, place: Place) -> None:
    """Show a run while it goes on, and its results when it is done."""
    if not place.leads:
        for _ in progress:
            pass
        return
    console = Console(stderr=True)
    if console.is_terminal:
        last = _with_bar(progress, console)
    else:
        last = _as_lines(progress)
    if last is not None and last.stopped:
        print(f"Continue with: firstspike resume {run.folder}", file=sys.stderr)
        sys.exit(STOPPED_STATUS)
    show_summary(run)


def _with_bar(progress: Iterator[Standing], console: Console) -> Standing | None:
    last = None
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[speed]}"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[metrics]}"),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("starting", speed="", metrics="")
        for last in progress:
            if last.message:
                bar.console.print(last.message)
            bar.update(
                task,
                total=last.epochs * last.steps,
                completed=last.epoch * last.steps + last.step,
                description=f"epoch {min(last.epoch + 1, last.epochs)}/{last.epochs}",
                speed=f"{last.images_per_second:,.0f} images/s",
                metrics=_metrics(last),
            )
    return last


def _as_lines(progress: Iterator[Standing]) -> Standing | None:
    """One line an epoch, for logs."""
    last = None
    for last in progress:
        if last.message:
            print(last.message, file=sys.stderr)
        if last.step == 0 and last.epoch:
            left = "?" if math.isnan(last.seconds_left) else f"{last.seconds_left:.0f} s"
            print(
                f"epoch {last.epoch}/{last.epochs}  {_metrics(last)}  {last.images_per_second:,.0f} images/s  "
                f"{left} left",
                file=sys.stderr,
                flush=True,
            )
    return last


def _metrics(standing: Standing) -> str:
    names = {
        "loss": "loss",
        "accuracy": "train %",
        "train_loss": "loss",
        "train_accuracy": "train %",
        "validation_strict": "validation %",
        "validation_accuracy": "validation %",
        "steps": "steps",
        "validation_steps": "steps",
    }
    return "  ".join(f"{label} {standing.metrics[key]:.3g}" for key, label in names.items() if key in standing.metrics)


def show_summary(run: Run) -> None:
    """The final table of a run."""
    summary = run.summary
    if summary is None:
        raise FirstspikeError(f"{run.folder} is not finished: continue it with `firstspike resume {run.folder}`.")
    test = summary["test"]
    table = Table(title=test["dataset"], title_justify="left", show_header=False)
    if "strict" in test:
        table.add_row("accuracy, strict ties", f"{test['strict']:.2f} %")
        table.add_row("accuracy, potential ties", f"{test['potential']:.2f} %")
        table.add_row("mean steps", f"{test['steps']:.2f} of {test['T']}")
        table.add_row("spikes per image", f"{test['spikes']:,.0f}")
        table.add_row("silent", f"{test['silent']:.2f} %")
        table.add_row("tied", f"{test['tied']:.2f} %")
    else:
        table.add_row("accuracy", f"{test['accuracy']:.2f} %")
    Console().print(table)
    print(f"Run folder: {run.folder}")
