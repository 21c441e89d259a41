"""The training loop: recipe in, run folder out."""

import time
from collections import deque
from collections.abc import Iterator
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from firstspike.errors import FirstspikeError
from firstspike.models import Network
from firstspike.training import checkpoint
from firstspike.training.diagnosis import find_nan
from firstspike.training.distributed import Lockstep, Place, find_place
from firstspike.training.finish import finish, validate
from firstspike.training.interrupt import StopRequest
from firstspike.training.logs import Logs
from firstspike.training.recipe import Recipe
from firstspike.training.run import Run, provenance
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
    capture: bool = True
    """Replay the training step as a CUDA graph where that can be done: the same numbers, small networks faster."""
    recompute: bool = False
    """Keep no frames of convolutions for backward, and work them out again: less memory, more time."""

    def deadline(self) -> float | None:
        """When to stop, if `max_minutes` count from now."""
        return None if self.max_minutes is None else time.monotonic() + 60 * self.max_minutes


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
    recipe: Recipe,
    folder: str | Path | None = None,
    model: nn.Module | None = None,
    options: Options | None = None,
) -> Run:
    """Train a recipe, as `firstspike train` does but without a word; returns its run folder.

    Args:
        folder: of the run; by default a new one under runs/.
        model: a network of your own, to train by the recipe instead of the recipe's.
    """
    options = options or Options()
    place = find_place(options.device)
    with place.together():
        run, progress = begin(recipe, place, options, folder, model)
        deque(progress, maxlen=0)
    return run


def resume(folder: str | Path, model: nn.Module | None = None, options: Options | None = None) -> Run:
    """Continue a run that was stopped or killed, as `firstspike resume` does; a finished one stays as it is."""
    options = options or Options()
    place = find_place(options.device)
    run = Run(folder)
    with place.together():
        deque(go_on(run, place, options, model), maxlen=0)
    return run


def begin(
    recipe: Recipe,
    place: Place,
    options: Options,
    folder: str | Path | None = None,
    model: nn.Module | None = None,
) -> tuple[Run, Iterator[Progress]]:
    """A new run, and its training. Its folder is made once data and network are known to be good."""
    deadline = options.deadline()
    own_model = f"{type(model).__name__}: {model!r}" if model is not None else ""
    trainer = Trainer(recipe, place, model)
    made, failure = "", None
    try:
        made = str(Run.create(recipe, folder, own_model).folder) if place.leads else ""
    except FirstspikeError as error:
        failure = error
    made = place.share(made)
    if failure or not made:
        place.wait()  # the others must have heard before the leading process is gone
        raise failure or FirstspikeError("The leading process could not make the run folder.")
    return Run(made), training(Run(made), trainer, options, deadline)


def go_on(run: Run, place: Place, options: Options, model: nn.Module | None = None) -> Iterator[Progress]:
    """The training of a run from its last checkpoint to its end; nothing, if it is finished."""
    deadline = options.deadline()
    if place.any(run.summary is not None):
        return iter(())
    if model is None and run.own_model:
        raise FirstspikeError(
            f"{run.folder} trains a network of its own ({run.own_model.partition(':')[0]}), which only Python "
            "knows: continue it there with resume(folder, model)."
        )
    return training(run, Trainer(run.recipe, place, model), options, deadline)


def training(run: Run, trainer: Trainer, options: Options, deadline: float | None) -> Iterator[Progress]:
    """Train a run from its last checkpoint (or from the start) to its end, telling of the progress."""
    place = trainer.place
    trainer.capture = options.capture
    if isinstance(trainer.network, Network):
        trainer.network.recompute = options.recompute
    with run.held() if place.leads else nullcontext():
        warnings = restore_state(run, trainer)
        logs = Logs(run, place.leads, options.tensorboard, trainer.steps_taken)
        watch, clock, lockstep = Watch(trainer, logs, options.on_collapse), Clock(trainer), Lockstep(place)
        yield from (clock.progress(message=warning) for warning in warnings)

        with closing(logs), StopRequest(deadline) as stop:
            while trainer.epoch < trainer.recipe.epochs:
                for _ in trainer.rest_of_epoch():
                    for message in watch.after_step():
                        yield clock.progress(message=message)
                    if watch.verdict:
                        save_state(run, trainer)
                        raise FirstspikeError(f"{watch.verdict} The run is at {run.folder}.")
                    if not lockstep.due():
                        continue
                    wishes = (
                        clock.due("checkpoint", 60 * options.checkpoint_minutes),
                        clock.due("progress", 0.5),
                    )
                    reason, (save, show) = lockstep.agree(stop.reason, *wishes)
                    if reason or save:
                        save_state(run, trainer)
                    if reason:
                        yield clock.progress(message=f"Stopped by {reason}; resumable.", stopped=True)
                        return
                    if show:
                        yield clock.progress(trainer.meter.read())
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
    if find_nan(trainer.model, 0.0):
        return
    state = trainer.state()
    if trainer.place.leads:
        checkpoint.write(run.checkpoints, trainer.steps_taken, {**state, "log_size": run.log_size()})
    trainer.place.wait()  # a process that ends early would take the writing one with it


def restore_state(run: Run, trainer: Trainer) -> list[str]:
    """Bring trainer and log back to the last checkpoint, if there is one; returns what to tell the user."""
    leads = trainer.place.leads
    found, warnings = checkpoint.find_last(run.checkpoints) if leads else (None, [])
    name = trainer.place.share(found.name if found else "")
    state = checkpoint.read(run.checkpoints / name) if name else None
    if leads:
        run.rewind_log(state["log_size"] if state else 0)
    if state:
        trainer.restore(state)
        warnings.append(f"Resumed at epoch {trainer.epoch + 1}, step {trainer.step}.")
        if leads:
            run.log("resumed", step=trainer.steps_taken, **provenance())
    return warnings


class Clock:
    """Speed, time left, and what is due."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer
        self.start, self.first_step, self.warm = time.monotonic(), trainer.steps_taken, False
        self.last: dict[str, float] = {}

    def due(self, what: str, seconds: float) -> bool:
        """Whether `seconds` have passed since this was last true for `what`."""
        now = time.monotonic()
        since = self.last.setdefault(what, self.start)
        if not self.warm:  # the first step compiles and allocates: it says nothing about the others
            self.start, self.first_step, self.warm = now, self.trainer.steps_taken, True
        if now - since < seconds:
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
            metrics=metrics or {},
            message=message,
            stopped=stopped,
        )
