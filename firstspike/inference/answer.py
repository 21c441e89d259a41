"""What a network answers, and what it took."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(eq=False, slots=True)
class Answer:
    """The answers for a batch, each given at the sample's first output spike (or after T steps of silence)."""

    label: Tensor
    """int64 `[B]`."""
    steps: Tensor
    """Steps taken, counted from 1; T for a silent sample. int64 `[B]`."""
    tied: Tensor
    """Whether more than one class fired first. bool `[B]`."""
    silent: Tensor
    """Whether no class fired. bool `[B]`."""
    membrane: Tensor
    """Membrane potential of the output at the step of the answer, `[B, classes]`."""
    spikes: Tensor
    """Spikes of each layer of neurons until the answer, int64 `[B, layers]`."""
    layers: tuple[str, ...]
    """Names of the layers of neurons."""
    times: dict[str, Tensor] | None
    """Spike times by layer where they were asked for: uint8 `[B, ...]`, T = not fired until the answer."""
    engine: str | None
    """The native engine that answered, as `float32, avx512`; None for the reference in PyTorch."""

    def __len__(self) -> int:
        return len(self.label)

    @property
    def gap(self) -> Tensor:
        """By how much the answer's membrane leads that of the best other class, `[B]`: its confidence.

        Negative where the tie rule prefers a class that another outdoes.
        """
        chosen = self.membrane.gather(1, self.label[:, None])[:, 0]
        others = self.membrane.scatter(1, self.label[:, None], -torch.inf)
        return chosen - others.amax(1)
