"""A whole epoch of a small network: 60,000 pictures of 28 x 28, augmented, as the trainer runs it."""

import itertools
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from firstspike.data import Augment
from firstspike.training import Recipe
from firstspike.training.distributed import find_place
from firstspike.training.optimizer import OptimizerConfig
from firstspike.training.recipe import DataConfig, NetConfig
from firstspike.training.trainer import Trainer

NETWORKS = ("FC2", "SCNN5")
BATCH = 256


def epoch_rows(pictures: int = 60_000, device: str = "cuda") -> Iterator[dict[str, Any]]:
    """Seconds of an epoch with the step captured and with plain steps; the loss of both, which must agree."""
    with tempfile.TemporaryDirectory() as folder:
        data = noise(Path(folder) / "noise.npz", pictures)
        for architecture, capture in itertools.product(NETWORKS, (True, False)):
            name = f"epoch, {architecture}, batch {BATCH}, {'captured' if capture else 'plain'}"
            row: dict[str, Any] = {"name": name}
            try:
                row |= epoch(architecture, data, capture, device)
            except Exception as error:
                row["error"] = f"{type(error).__name__}: {error}"[:600]
            print(" ".join(f"{key} {value}" for key, value in row.items()), flush=True)
            yield row


def epoch(architecture: str, data: str, capture: bool, device: str) -> dict[str, Any]:
    """The second epoch; the first compiles, and captures."""
    recipe = Recipe(
        epochs=2,
        batch_size=BATCH,
        data=DataConfig(data),
        network=NetConfig(architecture),
        augment=Augment(crop=2, flip=True, cutout=6),
        optimizer=OptimizerConfig("sgd", lr=0.1, ema=0.99),
    )
    trainer = Trainer(recipe, find_place(device))
    trainer.capture = capture
    seconds, losses = [], []
    for number in range(2):
        trainer.epoch, trainer.step = number, 0
        _wait(device)
        start = time.perf_counter()
        for _ in trainer.rest_of_epoch():
            pass
        losses.append(trainer.meter.read()["loss"])  # waits for the device
        seconds.append(time.perf_counter() - start)
        trainer.meter.reset()
    best = seconds[1]
    captured = trainer.static_step is not None and trainer.static_step.graph is not None
    images = len(trainer.batches) * BATCH
    return {
        "seconds": round(best, 3),
        "images_per_s": round(images / best),
        "first_epoch_s": round(seconds[0], 3),
        "losses": [round(loss, 4) for loss in losses],
        "captured": captured,
        "failure": trainer.static_step.failure if trainer.static_step else "",
    }


def noise(path: Path, pictures: int) -> str:
    """Pictures of ten kinds under noise: speed does not depend on them, but a loss that falls shows learning."""
    chance = np.random.default_rng(0)
    labels = np.arange(pictures + 512) % 10
    kinds = chance.integers(0, 128, (10, 28, 28))
    pixels = (kinds[labels] + chance.integers(0, 128, (len(labels), 28, 28))).astype(np.uint8)
    x, y = pixels[:pictures], labels[:pictures]
    np.savez(path, x=x, y=y, x_test=pixels[pictures:], y_test=labels[pictures:])
    return str(path)


def _wait(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()
