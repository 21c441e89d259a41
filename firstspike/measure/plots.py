"""Pictures of runs and of spikes. matplotlib is loaded only when something is drawn."""

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


def figure(width: float = 6.0, height: float = 3.5) -> tuple[Any, Any]:
    """A figure that needs no display, and its axes, in the project's style."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        made = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(made)
        return made, made.add_subplot()


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


def spike_raster(times: dict[str, Tensor], T: int, path: Path, title: str, most: int = 400) -> None:
    """The wave of first spikes through the layers, for one sample.

    `times` are spike times `[1, ...]` by layer. Of a large layer, `most` neurons are drawn, evenly chosen.
    """
    drawn, axes = figure(6.0, 4.5)
    base, ticks = 0, []
    answer = list(times.values())[-1].flatten()
    for number, (name, layer_times) in enumerate(times.items()):
        flat = layer_times.flatten().cpu().numpy()
        shown = flat[np.linspace(0, len(flat) - 1, min(most, len(flat))).astype(int)]
        height = 60 if number == len(times) - 1 else max(60, len(shown))
        rows = base + np.linspace(0, height, len(shown), endpoint=False)
        fired = shown < T
        size = 24 if number == len(times) - 1 else 3
        axes.scatter(
            shown[fired] + 1, rows[fired], s=size, color=COLOURS[number % len(COLOURS)], linewidths=0
        )
        share = 100 * float((flat < T).mean())
        ticks.append((base + height / 2, f"{name}\n{share:.0f} % fire"))
        base += height + 25
    first = int(answer.min())
    if first < T:
        axes.axvline(first + 1, color="black", linewidth=0.8, linestyle="--")
        axes.text(first + 1.05, base, "answer", va="bottom")
    axes.set_yticks([tick for tick, _ in ticks], [label for _, label in ticks])
    axes.set(xlabel="time step of the first spike", xlim=(0.5, T + 0.5), title=title)
    axes.set_xticks(range(1, T + 1))
    drawn.savefig(path)
