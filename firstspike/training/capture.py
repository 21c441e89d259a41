"""The whole training step as one CUDA graph: hundreds of small launches for the price of one.

A graph does the same work on the same memory at every replay, so all that differs between steps lies in
tensors on the device: `at`, the number of the step within the epoch, and a `table` with the numbers of each
step in a row (the learning rate of each group, and the weight of the moving average). The step takes its row,
makes its batch, trains on it and moves `at` on, which is why a replay needs nothing from the host.

The first steps run without a graph, as steps like any other: they compile, allocate and choose algorithms,
none of which may happen while a graph is captured.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from firstspike.models import Network, Twin
from firstspike.nn.chain import is_watched
from firstspike.training.optimizer import set_rate

if TYPE_CHECKING:
    from firstspike.training.trainer import Trainer

WARM_UP = 3
"""Steps before the graph is captured."""


def can_capture(trainer: Trainer) -> bool:
    """Whether a graph can hold this trainer's step: one process, on CUDA, the data there, our own network.

    A user's own module may do anything, and hooks want to be called: both are left to plain steps.
    """
    model = trainer.model
    ours = isinstance(model, Network | Twin) and not any(map(is_watched, model.modules()))
    return trainer.on_cuda and trainer.place.world == 1 and trainer.batches.resident and ours


class StaticStep:
    """A trainer's step on memory that stays where it is, captured after `WARM_UP` calls where `graph` says so.

    Capture anew (make another one) when the trainer's tensors have been replaced, as `Trainer.restore` does.
    """

    def __init__(self, trainer: Trainer, graph: bool = True) -> None:
        self.trainer, self.wants_graph = trainer, graph
        self.failure = ""
        """Why there is no graph though one was wanted."""
        device, batches = trainer.place.device, trainer.batches
        self.groups = [group for optimizer in trainer.optimizers for group in optimizer.param_groups]
        with torch.inference_mode(False):
            self.at = torch.zeros(1, dtype=torch.int64, device=device)
            self.table = torch.zeros(len(batches), len(self.groups) + 1, device=device)
            self.numbers = torch.zeros(len(self.groups) + 1, device=device)
            self.first = batches.positions(0)
        self.graph: torch.cuda.CUDAGraph | None = None
        self.stream = torch.cuda.Stream(device) if trainer.on_cuda else None  # type: ignore[no-untyped-call]
        self.warm = 0
        self.grads: list[tuple[nn.Parameter, Tensor | None]] = []
        """Where the graph leaves the gradients, for those who look at them."""

    def begin(self) -> None:
        """Get ready for the trainer's epoch, from its step on."""
        trainer = self.trainer
        trainer.batches.prepare(trainer.epoch)
        rows = []
        for step in range(len(trainer.batches)):
            factor = trainer.rate_factor(step)
            ahead = max(1, 1 + step - trainer.step)
            weight = trainer.average.weight(ahead) if trainer.average else 0.0
            rows.append([*[group["peak"] * factor for group in self.groups], weight])
        self.table.copy_(torch.tensor(rows))
        self.at.fill_(trainer.step)
        for parameter, grad in self.grads:  # others may have put theirs in their place
            parameter.grad = grad

    def __call__(self) -> None:
        """One training step."""
        trainer = self.trainer
        set_rate(trainer.optimizers, trainer.rate_factor(trainer.step))  # for those who ask for it
        if self.wants_graph and self.graph is None and self.warm >= WARM_UP:
            self._capture()
        if self.graph is not None:
            self.graph.replay()
        else:
            self._run_aside()
            self.warm += 1
        if trainer.average:
            trainer.average.updates += 1
        trainer.step += 1

    def _run(self) -> None:
        """What the graph holds."""
        trainer = self.trainer
        self.numbers.copy_(self.table.index_select(0, self.at)[0])
        positions = self.first + self.at * trainer.recipe.batch_size
        trainer.zero_grad()
        with self._rates_from_device():
            trainer.learn(trainer.batches.make(positions))
        if trainer.average:
            trainer.average.move(trainer.model, self.numbers[-1])
        self.at += 1

    def _run_aside(self) -> None:
        """`_run` on the stream that will capture, because autograd remembers where a gradient was first made."""
        if self.stream is None:
            self._run()
            return
        current = torch.cuda.current_stream(self.stream.device)
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream):
            self._run()
        current.wait_stream(self.stream)

    def _capture(self) -> None:
        """Record `_run` without running it; where that fails, go on without a graph."""
        graph = torch.cuda.CUDAGraph()
        try:
            # Other threads may be allocating, as those that stream another set do.
            with torch.cuda.graph(graph, stream=self.stream, capture_error_mode="thread_local"):
                self._run()
            self.graph = graph
            self.grads = [(parameter, parameter.grad) for parameter in self.trainer.model.parameters()]
        except RuntimeError as error:
            torch.cuda.synchronize()
            self.wants_graph, self.failure = False, str(error)

    @contextmanager
    def _rates_from_device(self) -> Iterator[None]:
        """Let the optimisers read their rates from `numbers`; outside, a rate is a number as ever."""
        before = [(group["lr"], group.get("capturable")) for group in self.groups]
        for group, rate in zip(self.groups, self.numbers, strict=False):
            group["lr"] = rate
            if self.stream is not None and "capturable" in group:
                group["capturable"] = True
        try:
            yield
        finally:
            for group, (rate, capturable) in zip(self.groups, before, strict=True):
                group["lr"] = rate
                if capturable is not None:
                    group["capturable"] = capturable
