"""Pooling of spike frames."""

import torch.nn.functional as F
from torch import Tensor, nn

from firstspike import kernels
from firstspike.errors import FirstspikeError


class AvgPool2d(nn.Module):
    """Average pooling: `[T, B, C, H, W]` in, `[T, B, C, H/n, W/n]` out.

    If every input sums to 1 over time, so does every output: pooling keeps the one-spike property. A pooled
    spike is a spike at the coarser position with weight 1/n^2.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, spikes: Tensor) -> Tensor:
        check_pooling(spikes, self.size)
        return kernels.avg_pool(spikes, self.size)

    def extra_repr(self) -> str:
        return f"{self.size} x {self.size}"


class MaxPool2d(AvgPool2d):
    """Max pooling, only as the baseline of the paper's ablation.

    It breaks the one-spike property: a window whose neurons fire at different steps passes on a spike at
    each of these steps, so its output sums to more than 1 over time.
    """

    def forward(self, spikes: Tensor) -> Tensor:
        check_pooling(spikes, self.size)
        pooled = F.max_pool2d(spikes.flatten(0, 1), self.size)
        return pooled.view(*spikes.shape[:2], *pooled.shape[1:])


def check_pooling(spikes: Tensor, size: int) -> None:
    """Refuse what cannot be pooled; windows of one place pool nothing."""
    if size == 1:
        return
    if spikes.dim() != 5 or min(spikes.shape[3:]) < size:
        raise FirstspikeError(
            f"Pooling takes [T, B, C, H, W] with H and W at least {size}, but was given {list(spikes.shape)}."
        )
