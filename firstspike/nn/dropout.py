"""Dropout for networks in time."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firstspike.errors import FirstspikeError


class Dropout(nn.Module):
    """Dropout with one mask for all time steps: a dropped neuron is dropped for the whole sample.

    A fresh mask per step would drop a neuron's only spike at one step and keep a later silence, which is
    noise in time rather than a thinned network.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        if not 0 <= rate < 1:
            raise FirstspikeError(f"A dropout rate lies in [0, 1), not {rate}.")
        self.rate = rate

    def forward(self, spikes: Tensor) -> Tensor:
        if not self.training or self.rate == 0:
            return spikes
        return spikes * F.dropout(torch.ones_like(spikes[:1]), self.rate)

    def extra_repr(self) -> str:
        return f"{self.rate}"
