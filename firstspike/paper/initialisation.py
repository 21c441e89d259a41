"""What initialisation and weight normalisation do: currents, gradients, depth, convergence."""

import math
from typing import Any

import numpy as np
import torch

from firstspike import measure
from firstspike.data import Batch, load
from firstspike.functional.decoding import temporal_weighting, temporal_weights
from firstspike.measure.distributions import mean_variance
from firstspike.measure.evaluate import batches_of
from firstspike.measure.plots import COLOURS, panels
from firstspike.models import Network, build
from firstspike.nn import Normalisation, Output
from firstspike.paper.entry import Context, Runs
from firstspike.paper.runs import SAMPLES, diagnose, diagnostics
from firstspike.paper.table import Cell, Claim, Made, Table
from firstspike.paper.tables import mean, spread, with_deviation

INITS = {"kaiming": "Kaiming", "ettfs": "ETTFS-init"}
DEEP = "C20K5-P2-C40K5-P2-{FC400}*6-FC10"
"""Nine layers, in which a signal that diminishes has room to."""


def fresh(init: str, architecture: str, T: int = 8, pooling: str = "average") -> Network:
    """An untrained network without normalisation."""
    plain = Normalisation(kind="none", gain=False, bias=False, init=init)  # type: ignore[arg-type]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return build(
            architecture,
            (1, 28, 28),
            T=T,
            normalisation=plain,
            pooling=pooling,
            input_mean=(0.286,),
            input_std=(0.353,),
        )


def some_images() -> Batch:
    """Images of the shipped sample, the same ones every time."""
    dataset = load("fashion-mnist-sample", "train")
    images = dataset.subset(torch.linspace(0, len(dataset) - 1, SAMPLES).long())
    return next(iter(batches_of(images, SAMPLES, "cpu")))


def looked_at(architecture: str) -> dict[str, dict[str, Any]]:
    """Currents and gradients of fresh networks, by initialisation."""
    batch, weights = some_images(), temporal_weights(8)

    def loss(output: Output) -> torch.Tensor:
        target = torch.nn.functional.one_hot(batch.labels, 10)
        return (temporal_weighting(output.spikes, weights) - target).square().sum(1).mean()

    return {init: diagnose(fresh(init, architecture), batch, loss) for init in INITS}


def unforced(architecture: str) -> dict[str, list[float]]:
    """Variance of the current by layer in inference, where no neuron is made to fire."""
    images = some_images().images
    return {
        init: [
            mean_variance(current)
            for current in measure.currents(fresh(init, architecture), images, False).values()
        ]
        for init in INITS
    }


def _curve(axes: Any, histogram: dict[str, Any], **style: Any) -> None:
    """A histogram as a line, its area 1; the outermost bins, which hold all that lies beyond, left out."""
    counts = np.array(histogram["counts"], dtype=float)
    width = (histogram["high"] - histogram["low"]) / len(counts)
    middles = histogram["low"] + width * (np.arange(len(counts)) + 0.5)
    axes.plot(middles[1:-1], (counts / counts.sum() / width)[1:-1], **style)


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
            _curve(panel, at["current"], color=shade, label=f"{layer}: {at['variance']:.2g}")
        panel.set(
            title=name, xlabel="current X (threshold 1)", ylabel="density", yscale="log", ylim=(1e-3, 30)
        )
        _legend_beside(panel)
    rows: list[tuple[Cell, ...]] = []
    for colour, marker, (init, name) in zip(COLOURS, "os", INITS.items(), strict=False):
        variances = [at["variance"] for at in found[init].values()]
        style: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 4}
        axes[2].semilogy(range(1, len(variances) + 1), variances, label=name, **style)
        shown = [max(value, 1e-6) for value in silent[init]]
        axes[2].semilogy(range(1, len(shown) + 1), shown, "--", label=f"{name}, none forced", **style)
    axes[2].axhline(1 / 24, color=COLOURS[0], linestyle=":", linewidth=1)
    axes[2].text(len(found["ettfs"]), 0.02, "1 / (3 T)", color=COLOURS[0], ha="right", va="top")
    axes[2].axhline(1, color=COLOURS[1], linestyle=":", linewidth=1)
    axes[2].set(
        xlabel="layer", ylabel="variance of X, mean over the steps", title="by layer", ylim=(5e-7, 1e6)
    )
    axes[2].legend(frameon=False, fontsize=8, loc="upper right")
    for number, layer in enumerate(found["ettfs"]):
        forced = (found[init][layer]["variance"] for init in INITS)
        rows.append((layer, *forced, *(silent[init][number] for init in INITS)))
    headings = ("layer", *INITS.values(), *(f"{name}, none forced" for name in INITS.values()))
    note = "Variance of the current, mean over T = 8 steps, in a fresh network: as in training, where neurons are "
    note += "forced to fire at the last step, and as in inference, where none is (drawn as 1e-6 where it is less)."
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


def pooling_claim() -> Claim:
    """Average pooling keeps the sum over time at 1; max pooling does not."""
    images = load("fashion-mnist-sample", "train").images[:32].float() / 255
    most = {}
    for pooling in ("average", "max"):
        net = fresh("ettfs", "SCNN5", pooling=pooling).train()
        net.skip_last_frame = False
        spikes = net.layers[1](net.layers[0](net.encode(images)))
        most[pooling] = float(spikes.detach().sum(0).max())
    return Claim(
        "Average pooling keeps one spike over time where max pooling does not.",
        math.isclose(most["average"], 1, abs_tol=1e-5) and most["max"] > 1,
        f"Largest sum over time behind SCNN5's first pool: {most['average']:.2f} (average), {most['max']:.0f} (max).",
    )


def gradients(runs: Runs, context: Context) -> Made:
    """Weight gradients of the first and last layer of a fresh SCNN5, under both initialisations."""
    found = looked_at("SCNN5")
    layers = list(found["ettfs"])
    drawn, axes = panels(1, 2, 7.5, 3.0)
    for panel, layer, title in zip(axes, (layers[0], layers[-1]), ("first layer", "last layer"), strict=True):
        for colour, style, (init, name) in zip(COLOURS, ("-", "--"), INITS.items(), strict=False):
            at = found[init][layer]
            label = f"{name}, rms {at['gradient_rms']:.1e}"
            if at["gradient"]:
                _curve(panel, at["gradient"], color=colour, linestyle=style, label=label)
            else:
                panel.plot([], [], color=colour, linestyle=style, label=f"{name}: all zero")
        panel.set(title=f"{title} ({layer})", xlabel="log10 |dL/dW|", ylabel="density", xlim=(-12, 0))
        panel.set_ylim(0, 1.5 * panel.get_ylim()[1])
        panel.legend(frameon=False, fontsize=8, loc="upper left")
    rows: list[tuple[Cell, ...]] = [
        (layer, *(f"{found[init][layer]['gradient_rms']:.1e}" for init in INITS)) for layer in layers
    ]
    rms = {init: [found[init][layer]["gradient_rms"] for layer in layers] for init in INITS}
    note = "Root mean square of the weight gradients; fresh SCNN5, T = 8, squared error on the decoder, 128 images."
    claims = (
        Claim(
            "Kaiming's gradients are tiny (below 1e-7) where ETTFS-init's are above 1e-3.",
            max(rms["kaiming"]) < 1e-7 and min(rms["ettfs"]) > 1e-3,
            f"Root mean squares by layer: Kaiming {min(rms['kaiming']):.1e} to {max(rms['kaiming']):.1e}, ETTFS-init "
            f"{min(rms['ettfs']):.1e} to {max(rms['ettfs']):.1e}.",
        ),
        Claim(
            "ETTFS-init's gradients are larger than Kaiming's in the first layer.",
            rms["ettfs"][0] > rms["kaiming"][0],
            f"{rms['ettfs'][0]:.1e} against {rms['kaiming'][0]:.1e}.",
        ),
    )
    return Made(Table(("layer", *INITS.values()), rows, (note,)), drawn, claims, {"rms": rms})


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
                _curve(panel, at["current"], color=shade, label=f"{layer}: {at['variance']:.2f}")
            panel.set(
                title=f"{title}, {when}",
                xlabel="current X (threshold 1)",
                ylabel="density",
                yscale="log",
                ylim=(1e-3, 10),
            )
            _legend_beside(panel)
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
    if len(runs["full"]) > 1:
        note += " The figure shows the first seed."
    return Made(Table(headings, rows, (note,)), drawn, claims)


def _moved(first: dict[str, Any], last: dict[str, Any]) -> float:
    """How far the variance of a layer has moved either way, as a logarithm."""
    return abs(math.log(last["variance"] / first["variance"]))


def depth(runs: Runs, context: Context) -> Made:
    """Accuracy over the number of layers, from both initialisations."""
    drawn, (axes,) = panels(1, 1, 5.0, 3.0)
    scores: dict[str, dict[int, float]] = {init: {} for init in INITS}
    rows: list[tuple[Cell, ...]] = []
    for label, found in runs.items():
        count, init = label.split()
        if (score := mean(found)) is not None:
            scores[init][int(count)] = score
    both = [layers for layers in scores["ettfs"] if layers in scores["kaiming"]]
    tried = sorted({int(label.split()[0]) for label in runs})
    for colour, marker, (init, name) in zip(COLOURS, "os", INITS.items(), strict=False):
        at = sorted(scores[init].items())
        axes.plot(*zip(*at, strict=True), color=colour, marker=marker, label=name)
    axes.axhline(10, color="grey", linestyle=":", linewidth=1)
    axes.text(tried[-1], 8.5, "chance", color="grey", ha="right", va="top")
    axes.set(xlabel="layers", ylabel="test accuracy, strict (%)", ylim=(0, 100))
    axes.set_xticks(tried)
    axes.legend(frameon=False)
    for layers in tried:
        pair = [runs.get(f"{layers} {init}", []) for init in INITS]
        cells = (with_deviation(seeds, measure) for measure in ("strict", "potential") for seeds in pair)
        rows.append((layers, *cells))
    headings = (
        "layers",
        "Kaiming, strict %",
        "ETTFS-init, strict %",
        "Kaiming, potential %",
        "ETTFS-init, potential %",
    )
    note = "Two convolutions, then dense layers; no normalisation. The paper's figure has no numbers."
    if not both:
        return Made(Table(headings, rows, (note,)), drawn)
    apart = [layers for layers in both if scores["ettfs"][layers] > 40 and scores["kaiming"][layers] < 20]
    deepest = max(both)
    ettfs, kaiming = scores["ettfs"][deepest], scores["kaiming"][deepest]
    depths = (
        f"Only ETTFS-init trains at {', '.join(map(str, sorted(apart)))} layers."
        if apart
        else "There is no depth at which only one of them trains."
    )
    claim = Claim(
        "A deep network trains with ETTFS-init and not with Kaiming.",
        deepest in apart,
        f"At {deepest} layers: {ettfs:.1f} % with ETTFS-init, {kaiming:.1f} % with Kaiming. {depths}",
    )
    return Made(Table(headings, rows, (note,)), drawn, (claim,))


def epochs(runs: Runs, context: Context) -> Made:
    """Training accuracy over the epochs, from both initialisations and with weight normalisation."""
    names = {"pool-twd": "Kaiming", "init-pool-twd": "ETTFS-init", "full": "ETTFS-init, weight normalisation"}
    drawn, (axes,) = panels(1, 1, 5.5, 3.2)
    curves: dict[str, list[float]] = {}
    rows: list[tuple[Cell, ...]] = []
    for colour, marker, (name, label) in zip(COLOURS, "os^", names.items(), strict=False):
        logged = (run.metrics("epoch") for run in runs[name])
        per_seed = [[line["train_accuracy"] for line in lines] for lines in logged if len(lines) > 1]
        if not per_seed:  # lost to NaN at once
            continue
        ats = list(zip(*per_seed, strict=False))
        curve = [sum(at) / len(at) for at in ats]
        curves[name] = curve
        axes.plot(range(1, len(curve) + 1), curve, color=colour, marker=marker, markersize=4, label=label)
        axes.fill_between(
            range(1, len(curve) + 1),
            *map(list, zip(*((min(at), max(at)) for at in ats), strict=True)),
            color=colour,
            alpha=0.2,
            linewidth=0,
        )
        rows.append((label, *(spread(list(at)) for at in (ats[0], ats[1], ats[-1]))))
    axes.set(xlabel="epoch", ylabel="training accuracy (%)")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend(frameon=False)
    second = [curves[name][1] if name in curves else 0.0 for name in names]
    shown = [at for at in (1, 2, 5) if all(len(curve) >= at for curve in curves.values())]
    told = (f"after {at}: " + ", ".join(f"{curve[at - 1]:.1f}" for curve in curves.values()) for at in shown)
    claim = Claim(
        "ETTFS-init speeds up convergence, and weight normalisation further.",
        second[0] < second[1] < second[2],
        f"{'; '.join(names[name] for name in curves)}, in % by epochs: {'; '.join(told)}. Judged after the second.",
    )
    note = "Training accuracy, because the test set is read once only, at the end."
    if len(runs["full"]) > 1:
        note += " Lines: mean over seeds; shaded: lowest to highest."
    return Made(
        Table(("network", "first epoch %", "second epoch %", "last epoch %"), rows, (note,)),
        drawn,
        (claim,),
        {"curves": curves},
    )
