"""Layer by layer against step by step, as a timing diagram of a real image through a real network."""

from typing import Any

import torch

from firstspike.data import load
from firstspike.functional.decoding import predict
from firstspike.measure.plots import COLOURS, panels
from firstspike.models import pretrained
from firstspike.paper.entry import Context, Runs
from firstspike.paper.table import Cell, Claim, Made, Table

NETWORK = "fashion-mnist-scnn5"
IMAGES = 250


def latency(runs: Runs, context: Context) -> Made:
    """When each layer works on each step, if a layer takes one unit of time for a step."""
    net = pretrained(NETWORK).fuse()
    dataset = load("fashion-mnist-sample", "test")
    images = dataset.images[:IMAGES].float() / 255
    with torch.no_grad():
        output, times = net.trace(images)
    answers = predict(output.spike_times, output.membrane)
    # An image answered in the middle shows best what stopping saves.
    sample = int(torch.nonzero((answers.steps == 3) & ~answers.tied & ~answers.silent)[0])
    answer = int(answers.steps[sample])
    shares = {
        name: (
            torch.bincount(layer[sample].flatten().long(), minlength=net.T + 1) / layer[sample].numel()
        ).tolist()
        for name, layer in times.items()
    }
    layers, T = list(times), net.T
    depth = len(layers)
    drawn, (above, below) = panels(2, 1, 8.0, 4.6)
    waiting = {(row, t): row * T + t for row in range(depth) for t in range(T)}
    flowing = {(row, t): row + t for row in range(depth) for t in range(T) if row + t < depth - 1 + answer}
    first = (depth - 1) * T + answer
    _blocks(above, waiting, layers, shares, answer)
    _blocks(below, flowing, layers, shares, answer)
    for axes, end, title in (
        (above, first, "(a) layer by layer: each layer waits for all steps of the one before it"),
        (below, depth - 1 + answer, "(b) step by step: each step goes on at once"),
    ):
        axes.axvline(end, color="black", linestyle="--", linewidth=1)
        late = end > depth * T / 2
        axes.text(
            end + (-0.25 if late else 0.25),
            depth + 0.05,
            f"first output spike, at time {end}",
            va="bottom",
            ha="right" if late else "left",
            fontsize=8,
        )
        axes.set(title=title, xlim=(0, depth * T + 0.5), ylim=(-0.1, depth + 0.5))
        axes.set_yticks([row + 0.45 for row in range(depth)], layers)
    below.set_xlabel("time (one unit: one layer works on one step)")
    label = dataset.classes[int(dataset.labels[sample])]
    mean = float(answers.steps.double().mean())
    rows: list[tuple[Cell, ...]] = [
        ("this image", first, depth - 1 + answer),
        (f"mean of {IMAGES} test images", (depth - 1) * T + mean, depth - 1 + mean),
        ("no early stopping", depth * T, depth - 1 + T),
    ]
    note = (
        f"The network that ships in the package ({NETWORK}, {depth} layers, T = {T}) on an image of class {label}, "
        f"answered at step {answer}. Numbers in the blocks: the step, and the share of the layer's neurons that fire "
        "in it. Pale: after the answer."
    )
    claim = Claim(
        "Step by step answers earlier than layer by layer.",
        depth - 1 + mean < (depth - 1) * T + mean,
        f"{depth - 1 + mean:.1f} units of time against {(depth - 1) * T + mean:.1f}, mean over {IMAGES} test images.",
    )
    table = Table(
        ("latency until the first output spike (units of time)", "layer by layer", "step by step"),
        rows,
        (note,),
    )
    return Made(table, drawn, (claim,), {"shares": shares, "answer": answer})


def _blocks(
    axes: Any,
    starts: dict[tuple[int, int], int],
    layers: list[str],
    shares: dict[str, list[float]],
    answer: int,
) -> None:
    """A block for each layer and step."""
    for (row, t), start in starts.items():
        share, needed = shares[layers[row]][t], t < answer
        axes.barh(
            row + 0.45,
            0.94,
            left=start + 0.03,
            height=0.8,
            color=COLOURS[row % len(COLOURS)],
            alpha=0.9 if needed else 0.2,
        )
        text = f"{t + 1}\n{100 * share:.0f} %"
        colour = "white" if needed and row % len(COLOURS) == 0 else "black"  # only the first blue is dark
        axes.text(start + 0.5, row + 0.45, text, ha="center", va="center", fontsize=7, color=colour)
