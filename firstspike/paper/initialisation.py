"""What initialisation does: to gradients, to deep networks, and to convergence."""

from firstspike.measure.plots import COLOURS, panels
from firstspike.paper.currents import curve
from firstspike.paper.entry import Context, Runs
from firstspike.paper.fresh import INITS, looked_at
from firstspike.paper.seeds import mean, spread, with_deviation
from firstspike.paper.table import Cell, Claim, Made, Table


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
                curve(panel, at["gradient"], color=colour, linestyle=style, label=label)
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
