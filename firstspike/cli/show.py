"""Progress and results on the screen."""

import math
import sys
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
from rich.table import Table

from firstspike.errors import FirstspikeError
from firstspike.training import Progress as Standing
from firstspike.training import Run
from firstspike.training.distributed import Place
from firstspike.training.results import cells, notes, title

LINE_SECONDS = 60.0
STOPPED_STATUS = 3
"""Exit status of a run that was stopped before its end, and can be resumed."""


def tell(line: str) -> None:
    """A line of progress."""
    print(line, file=sys.stderr, flush=True)


def follow(progress: Iterator[Standing], place: Place) -> bool:
    """Show a run while it goes on; whether it came to its end."""
    console = Console(stderr=True)
    if not place.leads:
        ends = deque(progress, maxlen=1)
        last = ends[0] if ends else None
    elif console.is_terminal:
        last = _with_bar(progress, console)
    else:
        last = _as_lines(progress)
    return last is None or not last.stopped


def _with_bar(progress: Iterator[Standing], console: Console) -> Standing | None:
    last, metrics = None, ""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[words]}"),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("starting", words="", total=None)
        for last in progress:
            if last.message:
                bar.console.print(last.message, soft_wrap=True, highlight=False)
            metrics = _metrics(last) or metrics
            bar.update(
                task,
                total=last.epochs * last.steps,
                completed=last.epoch * last.steps + last.step,
                description=f"epoch {min(last.epoch + 1, last.epochs)}/{last.epochs}",
                words="  ".join(filter(None, [_pace(last), metrics])),
            )
    return last


def _as_lines(progress: Iterator[Standing]) -> Standing | None:
    """A line an epoch, and in long ones a line a minute, for logs."""
    last, said = None, time.monotonic()
    for last in progress:
        if last.message:
            print(last.message, file=sys.stderr, flush=True)
        epoch_ends, now = last.step == 0 and last.epoch > 0, time.monotonic()
        if last.metrics and (epoch_ends or now - said > LINE_SECONDS):
            said = now
            where = f"{last.epoch}/{last.epochs}"
            if not epoch_ends:
                where = f"{last.epoch + 1}/{last.epochs}, step {last.step}/{last.steps}"
            print(f"epoch {where}  {_metrics(last)}  {_pace(last)}", file=sys.stderr, flush=True)
    return last


def _pace(standing: Standing) -> str:
    """Time left and images per second, once they are known."""
    if math.isnan(standing.seconds_left):
        return ""
    return f"{_span(standing.seconds_left)} left  {standing.images_per_second:,.0f} images/s"


def _span(seconds: float) -> str:
    """A time as people say it."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def _metrics(standing: Standing) -> str:
    """Loss, accuracy and steps: those of the epoch so far, or of the epoch and the validation split."""
    metrics = standing.metrics
    names = {"loss": "loss {:.3g}", "accuracy": "train {:.1f} %", "steps": "steps {:.2f}"}
    shown = {name.removeprefix("train_"): value for name, value in metrics.items()}
    parts = [text.format(shown[name]) for name, text in names.items() if name in shown]
    validation = metrics.get("validation_strict", metrics.get("validation_accuracy"))
    if validation is not None:
        parts.append(f"validation {validation:.1f} %")
        if "validation_steps" in metrics:
            parts[-1] += f" at {metrics['validation_steps']:.2f} steps"
    return "  ".join(parts)


def show_results(results: dict[str, Any], folder: Path) -> None:
    """The table of many runs."""
    headings, rows = cells(results)
    table = Table(title=title(results), title_justify="left")
    for heading in headings:
        table.add_column(heading)
    for row in rows:
        table.add_row(*row)
    console = Console()
    console.print(table)
    for note in notes(results):
        console.print(note, soft_wrap=True, highlight=False)
    print(f"Folder: {folder} (results.md, results.json)")


def show_summary(run: Run) -> None:
    """The final table of a run."""
    summary = run.summary
    if summary is None:
        raise FirstspikeError(
            f"{run.folder} is not finished: continue it with `firstspike resume {run.folder}`."
        )
    test = summary["test"]
    table = Table(title=test["dataset"], title_justify="left", show_header=False)
    rows = {
        "accuracy": ("accuracy", "{:.2f} %"),
        "strict": ("accuracy, strict ties", "{:.2f} %"),
        "potential": ("accuracy, potential ties", "{:.2f} %"),
        "steps": ("mean steps", f"{{:.2f}} of {test.get('T')}"),
        "spikes": ("spikes per image", "{:,.0f}"),
        "silent": ("silent", "{:.2f} %"),
        "tied": ("tied", "{:.2f} %"),
    }
    for name, (label, text) in rows.items():
        if name in test:
            table.add_row(label, text.format(test[name]))
    Console().print(table)
    print(f"Run folder: {run.folder}")
