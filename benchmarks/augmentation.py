"""What an augmented batch costs: microseconds for CIFAR-shaped batches, as JSON.

    python benchmarks/augmentation.py [--device cuda] [--batch-size 128] [--out results/augmentation.json]

`make` is the work of one batch, kernel by kernel. On a CUDA device the next batch of an epoch comes from a graph that
`Batches` captured, and a training step that is itself captured can hold `make` in its own.
The images are noise: the time does not depend on what they show.
"""

from __future__ import annotations

import argparse
import itertools
import json
import platform
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # so that it runs from a bare checkout

import torch

from firstspike.data import Augment, Batches, Dataset

RECIPES = {
    "none": Augment(),
    "crop, flip, cutout": Augment(crop=4, flip=True, cutout=8),
    "crop, flip, cutout, erase, mixup, cutmix, trivial": Augment(
        crop=4, flip=True, cutout=8, erase=0.25, mixup=0.2, cutmix=1.0, trivial=True
    ),
}
REPEATS, STEPS = 7, 100


def main() -> None:
    """Time every recipe and print the result, or write it to `--out`."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--out", type=Path, help="where to write the result too")
    parser.add_argument("--commit", help="the commit measured, where there is no git")
    options = parser.parse_args()
    images = torch.randint(0, 256, (50_000, 3, 32, 32), dtype=torch.uint8)
    noise = Dataset("noise", "train, 50,000 images", images, torch.arange(50_000) % 10, tuple("0123456789"))
    result = {
        "command": shlex.join(["python", *sys.argv]),
        "commit": options.commit or _commit(),
        "machine": _machine(options.device),
        "torch": torch.__version__,
        "batch_size": options.batch_size,
        "unit": f"microseconds a batch, median of {REPEATS} runs of {STEPS} batches",
        "recipes": {name: _measure(noise, augment, options) for name, augment in RECIPES.items()},
    }
    text = json.dumps(result, indent=2) + "\n"
    if options.out:
        options.out.write_text(text)
    print(text, end="")


def _measure(noise: Dataset, augment: Augment, options: argparse.Namespace) -> dict[str, float]:
    batches = Batches(noise, options.batch_size, seed=0, augment=augment, device=options.device)
    positions = batches.positions(0)
    figures = {"draw an epoch": _median(lambda: batches.prepare(0), options.device, steps=1)}
    figures["make"] = _median(lambda: batches.make(positions), options.device, STEPS)
    epoch = itertools.chain.from_iterable(map(batches.epoch, itertools.count()))
    figures["next of epoch"] = _median(lambda: next(epoch), options.device, STEPS)
    if options.device == "cuda":
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            batches.make(positions)
        figures["make, in a graph of the caller's"] = _median(graph.replay, options.device, STEPS)
    return figures


def _median(work: Callable[[], object], device: str, steps: int) -> float:
    """Microseconds a call."""
    times = []
    for _ in range(REPEATS + 1):
        _wait(device)
        begin = time.perf_counter()
        for _ in range(steps):
            work()
        _wait(device)
        times.append((time.perf_counter() - begin) / steps * 1e6)
    return round(statistics.median(times[1:]), 1)  # the first run warms up


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        folder = Path(__file__).parent
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _machine(device: str) -> str:
    return (
        torch.cuda.get_device_name()
        if device == "cuda"
        else f"{platform.machine()}, {torch.get_num_threads()} threads"
    )


if __name__ == "__main__":
    main()
