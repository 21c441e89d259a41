"""Work that leads to other work, replayed as CUDA graphs where it comes again."""

from collections.abc import Callable
from typing import Generic, TypeVar

import torch

Result = TypeVar("Result")

MOST_GRAPHS = 32
"""Graphs of one tree: each holds the memory of its result."""


class Tree:
    """What all graphs that follow each other share: their memory, and how many more there may be."""

    def __init__(self, graphs: bool) -> None:
        self.left = MOST_GRAPHS if graphs else 0
        self.pool = torch.cuda.graph_pool_handle() if graphs else None
        self.failure = ""
        """Why there are no graphs though they were wanted."""


class Replay(Generic[Result]):
    """Work on memory that stays where it is: run as it is the first time, captured and replayed from then on.

    What follows it (`then`) starts from its result. That can be captured only once this work is: only then does
    its result stay where it is, too.
    """

    def __init__(self, work: Callable[[], Result], tree: Tree) -> None:
        self.work, self.tree = work, tree
        self.graph: torch.cuda.CUDAGraph | None = None
        self.result: Result | None = None
        self.following: dict[int, Replay[Result]] = {}
        self.warm = False

    def __call__(self) -> Result:
        if self.graph is None and self.warm and self.tree.left:
            self._capture()
        if self.graph is not None and self.result is not None:
            self.graph.replay()
            return self.result
        self.warm = True  # the first run has compiled, allocated and chosen algorithms
        return self.work()

    def then(self, which: int, work: Callable[[], Result]) -> "Replay[Result]":
        """The work that follows, one for each number `which`; the one that was captured, if it was."""
        if self.graph is None:
            return Replay(work, self.tree)
        return self.following.setdefault(which, Replay(work, self.tree))

    def _capture(self) -> None:
        """Record the work without running it; where that fails, go on without graphs."""
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, pool=self.tree.pool, capture_error_mode="thread_local"):
                result = self.work()
        except RuntimeError as error:
            torch.cuda.synchronize()
            self.tree.left, self.tree.failure = 0, str(error)
            return
        self.graph, self.result = graph, result
        self.tree.left -= 1
