"""A task that is learned in seconds, and recipes small enough for it."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import torch

from firstspike.data import Batch
from firstspike.training import Recipe, Run
from firstspike.training.distributed import find_place
from firstspike.training.logs import Logs
from firstspike.training.recipe import DataConfig, NetConfig
from firstspike.training.trainer import Trainer
from firstspike.training.watch import OnCollapse, Watch

CLASSES = 4


@cache
def blobs() -> str:
    """384 noisy 8 x 8 pictures of four kinds for training, and 64 for the test, as a file."""
    chance = torch.Generator().manual_seed(0)
    labels = torch.arange(448) % CLASSES
    kinds = torch.rand(CLASSES, 8, 8, generator=chance)
    images = 0.6 * kinds[labels] + 0.4 * torch.rand(448, 8, 8, generator=chance)
    pixels, labels = (255 * images).byte().numpy(), labels.numpy()
    path = Path(mkdtemp()) / "blobs.npz"
    np.savez(path, x=pixels[:384], y=labels[:384], x_test=pixels[384:], y_test=labels[384:])
    return str(path)


def recipe(architecture: str = "FC16-FC4", **changes: Any) -> Recipe:
    """A recipe on the blobs: 24 steps an epoch."""
    network = changes.pop("network", None) or NetConfig(architecture)
    base = Recipe(name="small", epochs=2, batch_size=16, T=4, data=DataConfig(blobs()), network=network)
    return replace(base, **changes)


def trainer(of: Recipe, model: torch.nn.Module | None = None) -> Trainer:
    return Trainer(of, find_place("cpu"), model)


def train(one: Trainer, steps: int) -> list[float]:
    """The losses of some steps from where the trainer stands."""
    losses = []
    while len(losses) < steps:
        for batch in one.batches.epoch(one.epoch, one.step):
            one.zero_grad()
            before = float(one.meter.sums[0])
            one.train_step(batch)
            losses.append((float(one.meter.sums[0]) - before) / len(batch.labels))
            if len(losses) == steps:
                return losses
        one.epoch, one.step = one.epoch + 1, 0
    return losses


def watched(
    one: Trainer, run: Run, steps: int, on_collapse: OnCollapse = "warn"
) -> tuple[list[str], str, list[dict[str, Any]]]:
    """Train under a watch: what it tells, its verdict, and the collapses it logs."""
    watch, told = Watch(one, Logs(run, tensorboard=False), on_collapse), []
    while one.steps_taken < steps:
        for batch in one.batches.epoch(one.epoch, one.step):
            one.zero_grad()
            one.train_step(batch)
            told += watch.after_step()
            if watch.verdict or one.steps_taken == steps:
                return told, watch.verdict, run.metrics("collapse")
        one.meter.reset()
        one.epoch, one.step = one.epoch + 1, 0
    return told, watch.verdict, run.metrics("collapse")


def a_batch(labels: torch.Tensor, mixed: bool = False) -> Batch:
    """A batch without images; mixed with the next sample where asked for."""
    share = torch.rand(len(labels)) if mixed else torch.ones(len(labels))
    return Batch(torch.empty(0), labels, labels.roll(1) if mixed else labels, share)
