"""Runs that the paper's entries are made from: found where they exist, trained where they do not.

A run's folder is named by a digest of its recipe, so that entries share runs and a stopped command goes on
where it was. Beside what every run writes, some epochs (1, 2, 4, ..., and the last) leave
`diagnostics/epoch-NNN.json`: the currents, weight gradients and firing times of the layers on the same training
images.
"""

import functools
import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from firstspike.config import to_dict
from firstspike.data import Batch
from firstspike.errors import FirstspikeError
from firstspike.measure.distributions import (
    Distribution,
    currents,
    firing_times,
    mean_variance,
    weight_gradients,
)
from firstspike.measure.evaluate import batches_of
from firstspike.models import Network
from firstspike.training import Options, Progress, Recipe, Run
from firstspike.training.distributed import find_place
from firstspike.training.loop import training
from firstspike.training.run import whole
from firstspike.training.trainer import Trainer

DIAGNOSTICS = "diagnostics"
SAMPLES = 128
"""Training images that a network's layers are looked at on, the same ones every time."""


def digest(recipe: Recipe) -> str:
    """What tells runs apart: everything in the recipe but its name and summary."""
    values = to_dict(recipe)
    del values["name"], values["summary"]
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:10]


@functools.cache
def _digest_in(folder: Path) -> str:
    """That of the recipe in a run folder, which stays the same."""
    return digest(Run(folder).recipe)


def find(recipe: Recipe, cache: Path, library: list[Run]) -> Run:
    """The run of a recipe: in the library, or in the cache, where it may be yet to be trained."""
    wanted = digest(recipe)
    for found in library:
        if _digest_in(found.folder) == wanted:
            return found
    # Another entry may have made it under another name.
    return Run(next(iter(sorted(cache.glob(f"*-{wanted}"))), cache / f"{recipe.name}-{wanted}"))


def obtain(
    recipe: Recipe, cache: Path, library: list[Run], options: Options, tell: Callable[[str], None]
) -> Run:
    """The finished run of a recipe: from the library, from the cache, or trained now.

    A run whose training fails (NaN), now or before, comes back without a summary.
    """
    run = find(recipe, cache, library)
    if is_over(run):
        return run
    tell(f"{run.folder.name}: training, {recipe.epochs} epochs")
    progress = recorded(run, recipe, options)
    try:
        for standing in progress:
            if standing.stopped:
                raise KeyboardInterrupt
    except FirstspikeError as error:
        run.log("failed", sentence=str(error))
        tell(f"{run.folder.name} failed: {error}")
    return run


def has_failed(run: Run) -> bool:
    """Whether training ended in failure (NaN, say), which another attempt would only repeat."""
    if not run.log_path.exists():
        return False
    *_, last = run.log_path.read_text().splitlines() or [""]
    return last.startswith('{"kind": "failed"') and run.summary is None


def is_over(run: Run) -> bool:
    """Whether there is nothing left to train."""
    return run.summary is not None or has_failed(run)


def recorded(run: Run, recipe: Recipe, options: Options) -> Iterator[Progress]:
    """The training of a run, from wherever it stands, with diagnostics of some epochs."""
    trainer = Trainer(recipe, find_place(options.device))
    if not run.recipe_path.exists():
        Run.create(recipe, run.folder)
    record(run, trainer, 0)
    return _recording(training(run, trainer, options, options.deadline()), run, trainer)


def _recording(progress: Iterator[Progress], run: Run, trainer: Trainer) -> Iterator[Progress]:
    """As `progress`, the diagnostics of an epoch written at its end."""
    for standing in progress:
        if standing.step == 0 and standing.metrics and _is_looked_at(standing.epoch, standing.epochs):
            record(run, trainer, standing.epoch)
        yield standing


def _is_looked_at(epoch: int, epochs: int) -> bool:
    """Whether an epoch is 1, 2, 4, 8, ... or the last: a look at each would take as long as a short epoch."""
    return epoch == epochs or epoch & (epoch - 1) == 0


def library_in(folder: Path) -> list[Run]:
    """Finished runs in a folder, read-only: those of results/runs, made on other machines."""
    runs = [Run(path.parent) for path in sorted(folder.glob("*/summary.json"))]
    return [run for run in runs if _readable(run)]


def origin(run: Run) -> dict[str, Any]:
    """The run's provenance: command, commit, machine; nothing where it is not known."""
    try:
        found: dict[str, Any] = json.loads((run.folder / "provenance.json").read_text())
    except (OSError, ValueError):
        return {}
    return found


def _readable(run: Run) -> bool:
    try:
        return run.recipe is not None
    except FirstspikeError:  # of another version
        return False


def record(run: Run, trainer: Trainer, epoch: int) -> None:
    """Write what the layers do at the end of an epoch (0: before training)."""
    net, path = trainer.model, run.folder / DIAGNOSTICS / f"epoch-{epoch:03d}.json"
    if not isinstance(net, Network):
        return
    where = torch.linspace(0, len(trainer.train_set) - 1, min(SAMPLES, len(trainer.train_set))).long()
    batch = next(iter(batches_of(trainer.train_set.subset(where), SAMPLES, trainer.place.device)))
    try:
        with torch.random.fork_rng():
            values = diagnose(net, batch, lambda output: trainer.loss(output, batch))
    except RuntimeError as error:  # out of memory, say: a look is not worth the run
        run.log("unseen", epoch=epoch, sentence=str(error))
        return
    path.parent.mkdir(exist_ok=True)
    with run.writing(), whole(path) as part:
        part.write_text(json.dumps(values) + "\n")


def diagnose(net: Network, batch: Batch, loss: Callable[[Any], torch.Tensor]) -> dict[str, Any]:
    """Currents, gradients and firing times of each layer, as plain values."""
    times = firing_times(net, batch.images)
    gradients = weight_gradients(net, batch.images, loss)
    layers = {}
    for name, current in currents(net, batch.images).items():
        sizes = gradients[name].abs().flatten()
        moved = sizes[sizes > 0]
        layers[name] = {
            "variance": mean_variance(current),
            "current": Distribution.of(current, -4.0, 4.0).as_dict(),
            "gradient_rms": float(sizes.square().mean().sqrt()),
            "gradient_zero": float((sizes == 0).float().mean()),
            "gradient": Distribution.of(moved.log10(), -14.0, 2.0, bins=64).as_dict() if len(moved) else None,
            "fired": times[name].tolist(),
        }
    return layers


def diagnostics(run: Run, epoch: int) -> dict[str, Any]:
    """What was recorded at the end of an epoch (negative: counted from the last)."""
    found = sorted((run.folder / DIAGNOSTICS).glob("epoch-*.json"))
    if not found:
        raise FirstspikeError(f"{run.folder} has no diagnostics: make the run with `firstspike paper make`.")
    path = found[epoch] if epoch < 0 else run.folder / DIAGNOSTICS / f"epoch-{epoch:03d}.json"
    values: dict[str, Any] = json.loads(path.read_text())
    return values
