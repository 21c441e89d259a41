"""The training loop: recipe in, run folder out."""

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from firstspike.errors import FirstspikeError
from firstspike.training import checkpoint
from firstspike.training.diagnosis import find_nan
from firstspike.training.distributed import Place, find_place
from firstspike.training.finish import finish, validate
from firstspike.training.interrupt import StopRequest
from firstspike.training.logs import Logs
from firstspike.training.recipe import Recipe
from firstspike.training.run import Run
from firstspike.training.trainer import Trainer
from firstspike.training.watch import OnCollapse, Watch


@dataclass(frozen=True)
class Options:
    """What does not change how a run comes out."""

    device: str | None = None
    """cpu, cuda or cuda:N; by default CUDA where there is one."""
    max_minutes: float | None = None
    """Stop after this long, resumable; the schedule still spans the whole run."""
    checkpoint_minutes: float = 5.0
    """Write a checkpoint this often."""
    on_collapse: OnCollapse = "warn"
    """Stop when the network collapses (silent layers, tied outputs, ...), or say so and go on; NaN stops always."""
    tensorboard: bool = True
    """Write for TensorBoard too, where it is installed."""


@dataclass(frozen=True)
class Progress:
    """Where a run stands, for whoever shows it."""

    epoch: int
    epochs: int
    step: int
    steps: int
    images_per_second: float
    seconds_left: float
    metrics: dict[str, float]
    message: str = ""
    """What to tell the user, where there is something."""
    stopped: bool = False
    """Whether the run was stopped before its end, to be resumed."""


def fit(
    recipe: Recipe, folder: str | None = None, model: nn.Module | None = None, options: Options | None = None
) -> Run:
    """Train a recipe (or a network of your own by it) to its end, without a word; returns its run folder."""
    options = options or Options()
    place = find_place(options.device)
    run = Run.create(recipe, folder)
    for _ in training(run, place, options, model):
        pass
    return run


def training(run: Run, place: Place, options: Options, model: nn.Module | None = None) -> Iterator[Progress]:
    """Train a run from its last checkpoint (or from the start) to its end, telling of the progress."""
    recipe = run.recipe
    trainer = Trainer(recipe, place, model)
    state, warnings = checkpoint.read_last(run.checkpoints)
    if state:
        trainer.restore(state)
        warnings.append(f"Resumed at epoch {trainer.epoch + 1}, step {trainer.step}.")
    logs = Logs(run, place.leads, options.tensorboard, trainer.steps_taken)
    watch, clock = Watch(trainer, logs, options.on_collapse), Clock(trainer)
    yield from (clock.progress(message=warning) for warning in warnings)

    with closing(logs), StopRequest(options.max_minutes) as stop:
        while trainer.epoch < recipe.epochs:
            for batch in trainer.batches.epoch(trainer.epoch, trainer.step):
                trainer.zero_grad()
                trainer.train_step(batch)
                for message in watch.after_step():
                    yield clock.progress(message=message)
                if watch.verdict:
                    save_state(run, trainer)
                    raise FirstspikeError(f"{watch.verdict} The run is at {run.folder}.")
                stopped = place.any(stop.asked)
                if stopped or clock.due("checkpoint", 60 * options.checkpoint_minutes):
                    save_state(run, trainer)
                if stopped:
                    yield clock.progress(message=f"Stopped by {stop.reason}; resumable.", stopped=True)
                    return
                if clock.due("progress", 0.5):
                    yield clock.progress()
            yield end_epoch(logs, trainer, clock)
        save_state(run, trainer)
    finish(run, trainer)


def end_epoch(logs: Logs, trainer: Trainer, clock: "Clock") -> Progress:
    """Log the epoch's metrics and those on the validation set, and move on to the next."""
    metrics: dict[str, Any] = {f"train_{name}": value for name, value in trainer.meter.read().items()}
    metrics |= validate(trainer)
    progress = clock.progress(metrics)
    rate, speed = trainer.optimizers[0].param_groups[0]["lr"], round(progress.images_per_second, 1)
    numbers = {"epoch": trainer.epoch + 1, "lr": rate, "images_per_second": speed, **metrics}
    logs.log("epoch", trainer.steps_taken, **numbers)
    trainer.meter.reset()
    trainer.epoch, trainer.step = trainer.epoch + 1, 0
    return replace(progress, epoch=trainer.epoch, step=0)


def save_state(run: Run, trainer: Trainer) -> None:
    """Write a checkpoint, unless the weights are lost to NaN: the one before it is then the one to keep."""
    if trainer.place.leads and not find_nan(trainer.model, 0.0):
        checkpoint.write(run.checkpoints, trainer.steps_taken, trainer.state())


class Clock:
    """Speed, time left, and what is due."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer
        self.start, self.first_step = time.monotonic(), trainer.steps_taken
        self.last: dict[str, float] = {}

    def due(self, what: str, seconds: float) -> bool:
        """Whether `seconds` have passed since this was last true for `what`."""
        now = time.monotonic()
        if now - self.last.setdefault(what, self.start) < seconds:
            return False
        self.last[what] = now
        return True

    def progress(
        self, metrics: dict[str, float] | None = None, message: str = "", stopped: bool = False
    ) -> Progress:
        trainer = self.trainer
        taken = trainer.steps_taken - self.first_step
        seconds = time.monotonic() - self.start
        left = trainer.recipe.epochs * len(trainer.batches) - trainer.steps_taken
        return Progress(
            epoch=trainer.epoch,
            epochs=trainer.recipe.epochs,
            step=trainer.step,
            steps=len(trainer.batches),
            images_per_second=taken * trainer.recipe.batch_size / seconds if seconds else 0.0,
            seconds_left=left * seconds / taken if taken else float("nan"),
            metrics=trainer.meter.read() if metrics is None else metrics,
            message=message,
            stopped=stopped,
        )
