"""When to look at a network in training, and what to do about a collapse."""

import math
from typing import Literal

import torch

from firstspike.measure.evaluate import batches_of
from firstspike.training.diagnosis import Collapse, find_collapses, find_nan, observe
from firstspike.training.logs import Logs
from firstspike.training.trainer import Trainer

OnCollapse = Literal["stop", "warn"]

FIRST_LOOK = 50
"""Steps before the first look; later looks are at twice the steps of the one before, and after each epoch."""
PATIENCE = 200
"""Steps that a collapse must have been seen for, because a healthy network may pass through one."""
SAMPLES = 128
"""Training samples that the layers are observed on, the same ones every time."""
NAN_EVERY = 200
"""Steps between two looks for NaN on an accelerator, where a look waits for the device."""


class Watch:
    """Looks at a trainer now and then; tells of a collapse once for each kind and layer.

    All processes come to the same verdict: the leading one looks, and the others are told.

    Args:
        on_collapse: whether a collapse ends the run. NaN always does.
    """

    def __init__(self, trainer: Trainer, logs: Logs, on_collapse: OnCollapse = "warn") -> None:
        self.trainer, self.logs, self.on_collapse = trainer, logs, on_collapse
        self.verdict = ""
        """Why the run must end now, if it must."""
        self._on_cpu = trainer.place.device.type == "cpu"
        self._told_of_graph = False
        if trainer.place.leads:
            chosen = torch.linspace(
                0, len(trainer.train_set) - 1, min(SAMPLES, len(trainer.train_set))
            ).long()
            dataset = trainer.train_set.subset(chosen)
            batch = next(iter(batches_of(dataset, len(dataset), trainer.place.device)))
            self._images, self._labels = trainer.to_format(batch.images), batch.labels

    def after_step(self) -> list[str]:
        """Look, if it is time to; what to tell the user."""
        trainer = self.trainer
        steps, epoch_ends = trainer.steps_taken, trainer.step == len(trainer.batches)
        look = epoch_ends or _is_early(steps)
        if look or self._on_cpu or steps % NAN_EVERY == 0:
            self._look_for_nan(share_loss=look)
        return [*self._missing_graph(), *self._look(epoch_ends)] if look and not self.verdict else []

    def _missing_graph(self) -> list[str]:
        """Say once that steps could not be captured: they are right, but slow."""
        static_step = self.trainer.static_step
        if static_step is None or not static_step.failure or self._told_of_graph:
            return []
        self._told_of_graph = True
        self.logs.log("no-graph", self.trainer.steps_taken, reason=static_step.failure)
        reason = static_step.failure.splitlines()[0]
        return [
            f"The training step could not be captured as a CUDA graph, and runs several times slower: {reason}"
        ]

    def _look_for_nan(self, share_loss: bool) -> None:
        """Weights are the same in all processes; the loss is not, and is asked for only where all look."""
        trainer = self.trainer
        loss = float(trainer.meter.sums[0]) if share_loss or trainer.place.world == 1 else 0.0
        if share_loss and trainer.place.any(not math.isfinite(loss)):
            loss = math.nan
        collapse = find_nan(trainer.model, loss)
        if collapse:
            self._log(collapse)
            self.verdict = f"{collapse.sentence} The last checkpoint is from before this."

    def _look(self, epoch_ends: bool) -> list[str]:
        """Log what the layers do, and judge it."""
        trainer, told = self.trainer, []
        if trainer.place.leads:
            snapshot = observe(trainer.model, self._images, self._labels)
            epoch = trainer.epoch + trainer.step / len(trainer.batches)
            where = {"epoch": int(epoch) if epoch_ends else epoch}
            self.logs.log("layers", trainer.steps_taken, **where, **snapshot.as_dict())
            told = self._judge(find_collapses(snapshot), epoch_ends and epoch == trainer.recipe.epochs)
        if self.on_collapse == "stop":
            self.verdict = trainer.place.share(told[0].sentence if told else "")
            return []
        return [collapse.sentence for collapse in told]

    def _judge(self, found: list[Collapse], last_look: bool) -> list[Collapse]:
        """Those of the collapses found that have lasted, and were not told of before."""
        steps = self.trainer.steps_taken
        warm = steps >= self.trainer.recipe.schedule.warmup * len(self.trainer.batches)
        # Deep layers start silent, and wake up only once the learning rate is there.
        found = [collapse for collapse in found if warm or collapse.kind != "silent"]
        seen = self.trainer.seen
        seen["since"] = {_key(collapse): seen["since"].get(_key(collapse), steps) for collapse in found}
        lasting = []
        for collapse in found:
            key = _key(collapse)
            if key not in seen["told"] and (last_look or steps - seen["since"][key] >= PATIENCE):
                seen["told"].append(key)
                self._log(collapse)
                lasting.append(collapse)
        return lasting

    def _log(self, collapse: Collapse) -> None:
        self.logs.log(
            "collapse",
            self.trainer.steps_taken,
            collapse=collapse.kind,
            layer=collapse.layer,
            sentence=collapse.sentence,
        )


def _key(collapse: Collapse) -> str:
    return f"{collapse.kind} in {collapse.layer}"


def _is_early(steps: int) -> bool:
    """Whether `steps` is 50, 100, 200, 400, ..."""
    looks, rest = divmod(steps, FIRST_LOOK)
    return steps > 0 and rest == 0 and looks & (looks - 1) == 0
