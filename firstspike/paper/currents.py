"""The figures of the current: under both initialisations, and with and without weight normalisation."""

import math
from typing import Any

import numpy as np

from firstspike.measure.plots import COLOURS, panels
from firstspike.paper.entry import Context, Runs
from firstspike.paper.fresh import DEEP, INITS, looked_at, pooling_claim, unforced
from firstspike.paper.runs import diagnostics
from firstspike.paper.seeds import spread
from firstspike.paper.table import Cell, Claim, Made, Table


def curve(axes: Any, histogram: dict[str, Any], **style: Any) -> None:
    """A histogram as steps, its area 1; the outermost bins, which hold all that lies beyond, left out."""
    counts = np.array(histogram["counts"], dtype=float)
    width = (histogram["high"] - histogram["low"]) / len(counts)
    middles = histogram["low"] + width * (np.arange(len(counts)) + 0.5)
    axes.plot(middles[1:-1], (counts / counts.sum() / width)[1:-1], drawstyle="steps-mid", **style)


def _densities(panel: Any, title: str, most: float) -> None:
    """Axes for densities of the current, whose empty bins are gaps."""
    panel.set_yscale("log", nonpositive="mask")
    panel.set(
        title=title, xlabel="current X (threshold 1)", ylabel="density", xlim=(-4, 4), ylim=(1e-3, most)
    )
    _legend_beside(panel)


def _shades(count: int) -> list[Any]:
    import matplotlib

    return [matplotlib.colormaps["viridis"](0.9 * number / max(count - 1, 1)) for number in range(count)]


def _legend_beside(panel: Any) -> None:
    panel.legend(
        frameon=False,
        fontsize=7,
        title="layer: variance",
        title_fontsize=7,
        loc="center left",
        bbox_to_anchor=(1.0, 0.5),
    )


def currents(runs: Runs, context: Context) -> Made:
    """Distribution and variance of the current in each layer of a fresh network, under both initialisations."""
    found, silent = looked_at(DEEP), unforced(DEEP)
    drawn, axes = panels(1, 3, 12.0, 3.0)
    for panel, (init, name) in zip(axes, INITS.items(), strict=False):
        layers = found[init]
        for shade, (layer, at) in zip(_shades(len(layers)), layers.items(), strict=True):
            curve(panel, at["current"], color=shade, label=f"{layer}: {at['variance']:.2g}")
        _densities(panel, name, 30)
    rows: list[tuple[Cell, ...]] = []
    for colour, marker, (init, name) in zip(COLOURS, "os", INITS.items(), strict=False):
        variances = [at["variance"] for at in found[init].values()]
        style: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 4}
        axes[2].semilogy(range(1, len(variances) + 1), variances, label=name, **style)
        shown = [max(value, 1e-6) for value in silent[init]]
        open_: dict[str, Any] = {**style, "markerfacecolor": "white", "label": f"{name}, none forced"}
        axes[2].semilogy(range(1, len(shown) + 1), shown, "--", **open_)
    axes[2].axhline(1 / 24, color=COLOURS[0], linestyle=":", linewidth=1)
    axes[2].text(len(found["ettfs"]), 0.02, "1 / (3 T)", color=COLOURS[0], ha="right", va="top")
    axes[2].axhline(1, color=COLOURS[1], linestyle=":", linewidth=1)
    axes[2].set(
        xlabel="layer",
        ylabel="variance of X, mean over the steps",
        title="Variance by layer",
        xticks=range(1, len(found["ettfs"]) + 1),
        ylim=(5e-7, 1e6),
    )
    axes[2].legend(frameon=False, fontsize=8, loc="upper right")
    for number, layer in enumerate(found["ettfs"]):
        forced = (found[init][layer]["variance"] for init in INITS)
        rows.append((layer, *forced, *(silent[init][number] for init in INITS)))
    headings = ("layer", *INITS.values(), *(f"{name}, none forced" for name in INITS.values()))
    note = "Variance of the current, mean over T = 8 steps, in a fresh network: as in training, where neurons are "
    note += "forced to fire at the last step, and as in inference, where none is (drawn as 1e-6 where it is less). "
    note += "The densities are of the former, within ±4. Under Kaiming those of deeper layers have gaps: all "
    note += "spikes there are forced ones, so that the currents are the same for every image."
    table = Table(headings, rows, (note,))
    deep = {init: [at["variance"] for at in found[init].values()][2:] for init in INITS}
    claims = (
        Claim(
            "ETTFS-init keeps the current's variance near 1 in every layer, where Kaiming's is 1 / (3 T) = 0.042.",
            all(0.5 < v < 2 for v in deep["ettfs"]) and all(v < 0.084 for v in deep["kaiming"]),
            f"From the third layer on: {min(deep['ettfs']):.2f} to {max(deep['ettfs']):.2f} under ETTFS-init, "
            f"{min(deep['kaiming']):.3f} to {max(deep['kaiming']):.3f} under Kaiming.",
        ),
        Claim(
            "Under Kaiming the variance goes on falling from layer to layer, in training.",
            deep["kaiming"][-1] < 0.5 * deep["kaiming"][0],
            f"From {deep['kaiming'][0]:.3f} in the third layer to {deep['kaiming'][-1]:.3f} in the last: small from "
            "the second layer on, and no smaller, since all that have not fired are forced to.",
        ),
        Claim(
            "Where no neuron is forced, Kaiming's signal dies out with depth and ETTFS-init's does not.",
            silent["kaiming"][-1] < 1e-3 * silent["kaiming"][1]
            and silent["ettfs"][-1] > 0.1 * silent["ettfs"][1],
            f"Variance in the second and the last layer: {silent['kaiming'][1]:.2g} and {silent['kaiming'][-1]:.2g} "
            f"under Kaiming, {silent['ettfs'][1]:.2g} and {silent['ettfs'][-1]:.2g} under ETTFS-init.",
        ),
        pooling_claim(),
    )
    return Made(table, drawn, claims, {"forced": _variances(found), "unforced": silent})


def _variances(found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {init: {layer: at["variance"] for layer, at in layers.items()} for init, layers in found.items()}


def normalisation(runs: Runs, context: Context) -> Made:
    """Currents after the first and the last epoch, with and without weight normalisation."""
    names = {
        "init-pool-twd": "not normalised",
        "norm": "weight normalisation",
        "full": "weight normalisation with affine",
    }
    drawn, axes = panels(3, 2, 10.0, 7.6)
    rows: list[tuple[Cell, ...]] = []
    shifts: dict[str, list[float]] = {}
    for row, (name, title) in enumerate(names.items()):
        done = [run for run in runs[name] if run.summary]
        seen = [(diagnostics(run, 0), diagnostics(run, 1), diagnostics(run, -1)) for run in done]
        if not seen:
            rows.append((title, "failed", None, None, None))
            continue
        start, first, last = seen[0]
        shifts[name] = [_moved(one[layer], other[layer]) for _, one, other in seen for layer in one]
        for column, (when, layers) in enumerate((("first epoch", first), ("last epoch", last))):
            panel = axes[2 * row + column]
            for shade, (layer, at) in zip(_shades(len(layers)), layers.items(), strict=True):
                curve(panel, at["current"], color=shade, label=f"{layer}: {at['variance']:.2f}")
            _densities(panel, f"{title}, {when}", 10)
        rows += [
            (
                title,
                layer,
                *(spread([look[layer]["variance"] for look in looks]) for looks in zip(*seen, strict=True)),
            )
            for layer in start
        ]
    headings = ("network", "layer", "variance at the start", "after the first epoch", "after the last epoch")
    typical = {name: math.exp(sum(values) / len(values)) for name, values in shifts.items()}
    without, alone, affine = (typical.get(name, math.nan) for name in names)
    failed = "; nan: it has failed" if len(typical) < len(names) else ""
    measured = f"(geometric mean over layers and seeds{failed})"
    claims = (
        Claim(
            "Weight normalisation keeps the current's variance to the last epoch, without it the variance moves.",
            affine < without,
            f"From the first to the last epoch the variance of a layer changes by a factor of {affine:.2f} with its "
            f"affine, as in the whole method, and {without:.2f} without {measured}.",
        ),
        Claim(
            "Without its affine, weight normalisation lets the current's variance move less than none does.",
            alone < without,
            f"By a factor of {alone:.2f} against {without:.2f} {measured}.",
        ),
    )
    note = "Weights normalised per channel have mean 0, so that spikes which come together (most do, forced to at "
    note += "the last step) cancel: the variance starts below 1, and grows in the first epoch, as they fire earlier."
    note += " The figure shows currents within ±4; what lies beyond is in the variances only."
    if len(runs["full"]) > 1:
        note += " It shows the first seed."
    return Made(Table(headings, rows, (note,)), drawn, claims)


def _moved(first: dict[str, Any], last: dict[str, Any]) -> float:
    """How far the variance of a layer has moved either way, as a logarithm."""
    return abs(math.log(last["variance"] / first["variance"]))
