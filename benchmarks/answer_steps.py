"""How well trained networks answer over more steps than they were trained for, on what was held out of training.

    FIRSTSPIKE_DATA=... python benchmarks/answer_steps.py runs/A runs/B --out results/benchmarks/answer_steps.json

For each run, and each number of steps: how often the label has the highest membrane at that step; and the best fall
of the output's threshold over so many steps, chosen on one half of the held-out samples, measured on the other.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from firstspike import load
from firstspike.errors import FirstspikeError
from firstspike.measure.evaluate import batches_of
from firstspike.models import Network
from firstspike.training.fall import best_fall, look, try_fall
from firstspike.training.run import Run, provenance
from firstspike.training.trainer import training_sets


def measure(folder: Path, most: int) -> dict[str, Any]:
    """All figures of one run."""
    run = Run(folder)
    _, held_out = training_sets(run.recipe)
    if held_out is None:
        raise FirstspikeError(f"{folder} held nothing out of its training: train with --data.validation.")
    net = load(run.model)
    membrane, labels = look(net, batches_of(held_out, 256, torch.device("cpu")), most)
    right = (membrane.argmax(2) == labels).double().mean(1)
    rows = [row(net, membrane[:T], labels) for T in range(net.T, most + 1)]
    recipe = run.recipe
    return {
        "run": folder.name,
        "trained_with": [*recipe.schedule.grow, recipe.T],
        "epochs": recipe.epochs,
        "frames": frames_of(run),
        "samples": len(labels),
        "highest_membrane": [round(100 * float(share), 2) for share in right],
        "answers": rows,
    }


def row(net: Network, membrane: Tensor, labels: Tensor) -> dict[str, float]:
    """The best fall over the steps of `membrane` `[T, N, C]`, chosen on its even samples and measured on the odd."""
    T, threshold = len(membrane), net.config.neuron.threshold
    net.set_fall(net.config.fall, net.config.lift, T)
    chosen = best_fall(membrane[:, ::2], labels[::2], net)
    found = try_fall(membrane[:, 1::2], labels[1::2], threshold, chosen.fall, chosen.lift)
    return {
        "T": T,
        "fall": chosen.fall,
        "lift": chosen.lift,
        "strict": round(found.strict, 2),
        "steps": round(found.steps, 3),
    }


def frames_of(run: Run) -> int:
    """Frames that an image was trained on, over all epochs: T - 1 in each."""
    recipe = run.recipe
    steps = (recipe.schedule.steps(epoch, recipe.epochs, recipe.T) for epoch in range(recipe.epochs))
    return sum(T - 1 for T in steps)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--steps", type=int, default=8, help="most steps to answer within")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    found = []
    for folder in given.runs:
        found.append(measure(folder, given.steps))
        print(found[-1], flush=True)
    given.out.write_text(json.dumps({**provenance(), "runs": found}, indent=2) + "\n")


if __name__ == "__main__":
    main()
