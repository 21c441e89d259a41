"""The ablations: components, time steps, variance, the decoder's decay and its steps."""

from typing import Any

from firstspike.measure.plots import COLOURS, panels
from firstspike.paper import values
from firstspike.paper.entry import Context, Runs
from firstspike.paper.recipes import COMPONENTS
from firstspike.paper.seeds import compared, mean, with_deviation
from firstspike.paper.table import Cell, Claim, Made, Table

PARTS = {
    "baseline": "-",
    "twd": "TWD",
    "init": "init",
    "init-twd": "init, TWD",
    "pool-twd": "pooling, TWD",
    "init-pool-twd": "init, pooling, TWD",
    "norm": "init, pooling, norm, TWD",
    "full": "init, pooling, norm with affine, TWD",
}
OTHERS = {"baseline": "nothing else", "twd": "TWD", "pool-twd": "pooling and TWD"}


def components(runs: Runs, context: Context) -> Made:
    """The eight rows of the component ablation."""
    rows: list[tuple[Cell, ...]] = [
        (
            PARTS[name],
            values.ABLATION[name],
            with_deviation(runs[name]),
            with_deviation(runs[name], "potential"),
            with_deviation(runs[name], "steps"),
            with_deviation(runs[name], "tied"),
            with_deviation(runs[name], "silent"),
        )
        for name in COMPONENTS
    ]
    headings = ("components", "paper %", "strict %", "potential %", "steps", "tied %", "silent %")
    notes = (
        "init: ETTFS-init (else Kaiming); pooling: average (else max); norm: weight normalisation; TWD: temporal "
        "weighting decoder (else minus the first spike time with cross-entropy, our stand-in for TQ-TTFS's decoder).",
        *_tied(runs),
    )
    scores = {name: mean(runs[name]) or 0.0 for name in COMPONENTS}
    best = max(scores, key=lambda name: scores[name])
    pairs = (("twd", "init-twd"), ("pool-twd", "init-pool-twd"), ("baseline", "init"))
    claims = (
        Claim(
            "All components together are best.", best == "full", f"Best: {PARTS[best]}, {scores[best]:.2f} %."
        ),
        Claim(
            "ETTFS-init gains over Kaiming, all else equal.",
            all(scores[with_] > scores[without] for without, with_ in pairs),
            "; ".join(f"beside {OTHERS[a]} {compared(runs[a], runs[b])}" for a, b in pairs) + ".",
        ),
        Claim(
            "Average pooling gains over max pooling.",
            scores["init-pool-twd"] > scores["init-twd"] and scores["pool-twd"] > scores["twd"],
            f"Under Kaiming {compared(runs['twd'], runs['pool-twd'])}, under ETTFS-init "
            f"{compared(runs['init-twd'], runs['init-pool-twd'])}.",
        ),
        Claim(
            "Weight normalisation gains, and its affine gains more.",
            scores["init-pool-twd"] < scores["norm"] < scores["full"],
            f"Normalisation: {compared(runs['init-pool-twd'], runs['norm'])}; affine: "
            f"{compared(runs['norm'], runs['full'])}.",
        ),
    )
    return Made(Table(headings, rows, notes), claims=claims)


def _tied(runs: Runs) -> tuple[str, ...]:
    """A sentence on each network that some seed left tied."""
    return tuple(
        f"{PARTS[name]}: with seed {run.recipe.seed}, {run.summary['test']['tied']:.0f} % of the answers are tied, "
        f"and {run.summary['test']['strict']:.2f} % right."
        for name in COMPONENTS
        for run in runs[name]
        if run.summary and run.summary["test"]["tied"] > 50
    )


def _swept(runs: Runs, printed: dict[Any, float], heading: str, notes: tuple[str, ...]) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (
            label,
            printed.get(float(label), printed.get(int(float(label)))),
            with_deviation(found),
            with_deviation(found, "potential"),
            with_deviation(found, "steps"),
            with_deviation(found, "silent"),
        )
        for label, found in runs.items()
    ]
    return Table((heading, "paper %", "strict %", "potential %", "steps", "silent %"), rows, notes)


def time_steps(runs: Runs, context: Context) -> Made:
    """Accuracy over T."""
    scores = {int(label): mean(found) or 0.0 for label, found in runs.items()}
    silent = [int(label) for label, found in runs.items() if (mean(found, "silent") or 0) > 99]
    stuck = f"At T = {', '.join(map(str, silent))} no output fires: training does not leave silence."
    table = _swept(
        runs, dict(values.TIME_STEPS), "T", (*values.SLIPS["time-steps"], *([stuck] if silent else []))
    )
    few, many = ({T: score for T, score in scores.items() if sign * T > 8 * sign} for sign in (-1, 1))
    claims = []
    if few:
        learnt = min((T for T in few if T not in silent), default=None)
        told = f"{scores[learnt]:.2f} % at {learnt}, " if learnt else ""
        claims.append(
            Claim(
                "Few steps cost accuracy.",
                scores[min(few)] < scores[8],
                f"{stuck + ' ' if silent else ''}{told}{scores[8]:.2f} % at 8.",
            )
        )
    if many:
        best = max(many, key=lambda T: many[T])
        claims.append(
            Claim(
                "Beyond some eight steps there is nothing to gain.",
                many[best] <= scores[8] + 0.5,
                f"{scores[8]:.2f} % at 8; beyond, at most {many[best]:.2f} %, at {best}.",
            )
        )
    return Made(table, claims=tuple(claims))


def variance(runs: Runs, context: Context) -> Made:
    """Accuracy over the target variance v of the current."""
    table = _swept(runs, dict(values.VARIANCE), "v", values.SLIPS["variance"] if "0.5" in runs else ())
    scores = {float(label): mean(found) or 0.0 for label, found in runs.items()}
    best = max(scores, key=lambda v: scores[v])
    seeds = "" if context.quick else " One seed each: the ablation tells how far three of v = 1 lie apart."
    claim = Claim(
        "A variance of 1 is better than smaller ones.",
        all(scores[1.0] > score for v, score in scores.items() if v < 1),
        f"Best here: v = {best:g} with {scores[best]:.2f} %; v = 1 has {scores[1.0]:.2f} %.{seeds}",
    )
    return Made(table, claims=(claim,))


def gamma(runs: Runs, context: Context) -> Made:
    """Accuracy and steps over gamma, for both forms of decay."""
    drawn, (left, right) = panels(1, 2, 7.0, 2.8)
    points: dict[str, list[tuple[float, float, float]]] = {}
    for label, found in runs.items():
        decay, value = label.split()
        score, steps = mean(found), mean(found, "steps")
        if score is not None and steps is not None:
            points.setdefault(decay, []).append((float(value), score, steps))
    for at in points.values():
        at.sort()
    best = max((score, decay, value) for decay, at in points.items() for value, score, _ in at)
    for colour, marker, (decay, at) in zip(COLOURS, "os", points.items(), strict=False):
        style: dict[str, Any] = {"color": colour, "marker": marker, "label": decay}
        left.plot([value for value, _, _ in at], [score for _, score, _ in at], **style)
        right.plot([value for value, _, _ in at], [steps for _, _, steps in at], **style)
    left.scatter(best[2], best[0], s=250, marker="*", color="black", zorder=0, label="best")
    left.axhline(10, color="grey", linestyle=":", linewidth=1)
    left.text(left.get_xlim()[1], 8.5, "chance", color="grey", ha="right", va="top")
    left.set(xlabel="gamma", ylabel="test accuracy, strict (%)", ylim=(0, 100))
    right.set(xlabel="gamma", ylabel="mean steps until the answer", ylim=(0, None))
    for axes in (left, right):
        axes.xaxis.get_major_locator().set_params(integer=True)
    left.legend(frameon=False, fontsize=8)
    rows: list[tuple[Cell, ...]] = [
        (label, with_deviation(found), with_deviation(found, "potential"), with_deviation(found, "steps"))
        for label, found in runs.items()
    ]
    notes = (
        "The paper's figure has no numbers to set beside these; it marks exponential decay with gamma 3 as best.",
        "Under the squared error with a one-hot target, a linear gamma above 1 asks the label to fire where its "
        "weight is 1, which is late: so large ones fail, for the loss rather than for the decoder.",
    )
    table = Table(("decay and gamma", "strict %", "potential %", "steps"), rows, notes)
    claim = Claim(
        "On Fashion-MNIST, exponential decay with gamma 3 is best.",
        best[1:] == ("exponential", 3.0),
        f"Best here: {best[1]} decay, gamma {best[2]:g}, {best[0]:.2f} %.",
    )
    return Made(table, drawn, (claim,), {"points": points})


def decoder_steps(runs: Runs, context: Context) -> Made:
    """Mean steps under the temporal weighting decoder and under the first-spike decoder."""
    pairs = {
        "Kaiming,\nmax pooling": ("baseline", "twd"),
        "ETTFS-init,\nmax pooling": ("init", "init-twd"),
        "all components": ("full-first-spike", "full"),
        "all components,\nexponential, 3": ("full-first-spike", "full-gamma-3"),
    }
    printed = (values.TQ_STEPS["fashion-mnist"], values.STEPS["fashion-mnist"])
    drawn, (axes,) = panels(1, 1, 7.0, 3.2)
    rows: list[tuple[Cell, ...]] = []
    fewer, told = list[bool](), list[str]()
    for number, (label, names) in enumerate(pairs.items()):
        for side, name in enumerate(names):
            steps, score = mean(runs[name], "steps") or 0.0, mean(runs[name]) or 0.0
            each = [run.summary["test"]["steps"] for run in runs[name] if run.summary] or [0.0]
            at = number + (side - 0.5) * 0.38
            axes.bar(at, steps, 0.36, color=COLOURS[side])
            reach = [[steps - min(each)], [max(each) - steps]]
            axes.errorbar(at, steps, reach, color="black", linewidth=1)
            told_above = f"{steps:.2f}\n{score:.0f} %"
            axes.text(at, max(each) + 0.06, told_above, fontsize=8, ha="center", va="bottom")
        first, weighted = (mean(runs[name], "steps") or 0.0 for name in names)
        fewer.append(0 < weighted < first)  # 0: it has failed
        told.append(f"{label.replace(chr(10), ' ')}: {first:.2f} to {weighted:.2f}")
        cells = (
            with_deviation(runs[name], measure) for measure in ("steps", "strict", "tied") for name in names
        )
        rows.append((label.replace("\n", " "), *cells))
    for side, value in enumerate(printed):
        bar = axes.bar(
            len(pairs) + (side - 0.5) * 0.38, value, 0.36, color="white", edgecolor=COLOURS[side], hatch="//"
        )
        axes.bar_label(bar, [f"{value:.2f}"], fontsize=8, padding=3)
    axes.bar(0, 0, color=COLOURS[0], label="first-spike decoder (stand-in for TQ-TTFS)")
    axes.bar(0, 0, color=COLOURS[1], label="temporal weighting decoder")
    axes.set_xticks(range(len(pairs) + 1), [*pairs, "paper (TQ-TTFS,\nETTFS)"])
    axes.set(ylabel="mean steps until the answer", ylim=(0, 1.15 * axes.get_ylim()[1]))
    axes.legend(frameon=False, loc="upper left")
    beside = f"Paper, Fashion-MNIST: {printed[0]} against {printed[1]}. "
    beside += "In the figure: steps and strict accuracy; lines from the lowest to the highest seed. "
    beside += (
        "Temporal weights fall linearly from 1; where it says exponential, as 3^-t, the paper's on this set."
    )
    headings = (
        "network",
        "steps, first-spike",
        "steps, TWD",
        "strict %, first-spike",
        "strict %, TWD",
        "tied %, first-spike",
        "tied %, TWD",
    )
    tied = "A network whose outputs tie at the first step is early without having decided: see the last two columns."
    claim = Claim(
        "The temporal weighting decoder needs fewer steps than the first-spike decoder.",
        all(fewer),
        "; ".join(told) + ".",
    )
    return Made(Table(headings, rows, (beside, tied)), drawn, (claim,))
