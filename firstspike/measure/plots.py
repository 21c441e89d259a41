"""Pictures of runs and of spikes. matplotlib is loaded only when something is drawn."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

# Okabe and Ito's colours, told apart by colour-blind readers too.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9")
STYLE: Any = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "figure.dpi": 150,
    "font.size": 9,
    "savefig.bbox": "tight",
}


@contextmanager
def style() -> Iterator[None]:
    """The project's style for all that is drawn inside: matplotlib takes the size of a text when it is written."""
    import matplotlib

    with matplotlib.rc_context(STYLE):
        yield


def figure(width: float = 6.0, height: float = 3.5) -> tuple[Any, Any]:
    """A figure that needs no display, and its axes, in the project's style."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with style():
        made = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(made)
        return made, made.add_subplot()


def panels(rows: int, columns: int, width: float, height: float) -> tuple[Any, list[Any]]:
    """A figure of several axes, row by row, in the project's style."""
    drawn, first = figure(width, height)
    first.remove()
    with style():
        return drawn, list(drawn.subplots(rows, columns, squeeze=False).flat)


def save_figure(drawn: Any, stem: Path) -> list[Path]:
    """Write a figure as SVG (its text as text) and PNG; returns the two paths."""
    import matplotlib

    paths = [stem.with_suffix(".svg"), stem.with_suffix(".png")]
    # No date and fixed identifiers: the same figure is the same file.
    with matplotlib.rc_context({**STYLE, "svg.fonttype": "none", "svg.hashsalt": "firstspike"}):
        drawn.savefig(paths[0], metadata={"Date": None})
        drawn.savefig(paths[1])
    return paths


@style()
def accuracy_curve(epochs: list[dict[str, Any]], path: Path) -> None:
    """Accuracy over the epochs of a run, from its metrics."""
    drawn, axes = figure()
    names = {
        "train_accuracy": "training",
        "validation_strict": "validation, strict ties",
        "validation_potential": "validation, potential ties",
        "validation_accuracy": "validation",
    }
    for colour, (key, label) in zip(COLOURS, names.items(), strict=False):
        values = [(line["epoch"], line[key]) for line in epochs if key in line]
        if values:
            axes.plot(*zip(*values, strict=True), marker=".", color=colour, label=label)
    axes.set(xlabel="epoch", ylabel="accuracy (%)")
    axes.legend(frameon=False)
    drawn.savefig(path)


@style()
def spike_raster(times: dict[str, Tensor], T: int, path: Path, title: str, most: int = 400) -> None:
    """The wave of first spikes through the layers, for one sample.

    `times` are spike times `[1, ...]` by layer. Of a large layer, `most` neurons are drawn, evenly chosen, and
    spread a little to the sides so that a crowd shows. Spikes after the answer are pale: inference stops
    before them.
    """
    drawn, axes = figure(6.0, 4.5)
    answer = min(int(list(times.values())[-1].min()), T - 1)
    base, ticks = 0.0, []
    for number, (name, layer_times) in enumerate(times.items()):
        flat = layer_times.flatten().cpu().numpy()
        shown = flat[np.linspace(0, len(flat) - 1, min(most, len(flat))).astype(int)].astype(float)
        is_output = number == len(times) - 1
        height = 40 if is_output else 100
        rows = base + np.linspace(0, height, len(shown))
        spread = (
            np.zeros(len(shown)) if is_output else np.random.default_rng(0).uniform(-0.3, 0.3, len(shown))
        )
        for now, opacity in ((shown <= answer, 1.0), ((shown > answer) & (shown < T), 0.2)):
            axes.scatter(
                (shown + 1 + spread)[now],
                rows[now],
                s=30 if is_output else 4,
                color=COLOURS[number % len(COLOURS)],
                alpha=opacity,
                linewidths=0,
            )
        ticks.append((base + height / 2, f"{name}\n{100 * float((flat <= answer).mean()):.0f} % fired"))
        base += height + 20
    axes.axvline(answer + 1.5, color="black", linewidth=0.8, linestyle="--")
    axes.annotate("stops here", (answer + 1.58, base - 16), va="bottom")
    axes.set_yticks([tick for tick, _ in ticks], [label for _, label in ticks])
    axes.set(xlabel="time step of the first spike", xlim=(0.5, T + 0.5), ylim=(-8, base), title=title)
    axes.set_xticks(range(1, T + 1))
    drawn.savefig(path)
