"""Batches on a CUDA device as one graph: dozens of small kernels for the price of one launch."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


class Captured:
    """A function of one tensor, captured once and replayed; every call gives fresh tensors.

    `function` must launch the same kernels whatever the values are, and wait for nothing.
    """

    def __init__(self, function: Callable[[Tensor], tuple[Tensor, ...]], argument: Tensor) -> None:
        # Tensors made in inference mode could not be written to outside of it.
        with torch.inference_mode(False), torch.cuda.device(argument.device):
            self._argument = argument.clone()
            function(self._argument)  # what is set up on first use must not happen while capturing
            self._graph = torch.cuda.CUDAGraph()
            # Other threads may be allocating, as those that stream another set do.
            with torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
                self._result = function(self._argument)

    def __call__(self, argument: Tensor) -> tuple[Tensor, ...]:
        """What `function(argument)` gives, for an argument of the captured shape."""
        self._argument.copy_(argument)
        self._graph.replay()
        # The next replay overwrites the captured tensors; who holds on to a batch must keep it.
        return tuple(tensor.clone() for tensor in self._result)
