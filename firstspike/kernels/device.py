"""Where the Triton kernels run."""

import importlib
import importlib.util
import os
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

# Constants rather than cached functions, so that torch.compile sees through them. Triton itself is
# imported by the first kernel that runs: a machine without a GPU never needs it.
_INSTALLED = importlib.util.find_spec("triton") is not None
_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


def runs_triton(tensor: Tensor) -> bool:
    """Whether kernels can run on this tensor: on CUDA, or anywhere under Triton's interpreter."""
    return _INSTALLED and (tensor.is_cuda or _INTERPRETED)


def triton_kernels(module: str) -> Any:
    """A module of Triton kernels of this package, imported now because importing it imports Triton."""
    return importlib.import_module(f"firstspike.kernels.{module}")


def on_device_of(tensor: Tensor) -> AbstractContextManager[None]:
    """Launch on the GPU that holds the tensor, whichever is the current one."""
    return torch.cuda.device_of(tensor)  # type: ignore[no-untyped-call]
