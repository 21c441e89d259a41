"""Where a network stands between two steps, and what one step gives."""

from typing import NamedTuple

from torch import Tensor

from firstspike.kernels import Past
from firstspike.kernels.step import take_samples
from firstspike.nn.neuron import LayerState


class State(NamedTuple):
    """Where a network stands between two steps. A value: keep it, copy it, start from it again."""

    t: int
    """The step to come."""
    neurons: tuple[LayerState | None, ...]
    """The neurons of each layer; None before the first step and for layers without neurons."""
    source: Tensor
    """The standardised input that `start` was given."""
    current: tuple[Tensor, Tensor | None] | None
    """The first layer's constant current `[1, B, ...]` and bias, under direct encoding."""

    def keep(self, samples: Tensor) -> "State":
        """The state of some samples of the batch only (indices, or a boolean mask)."""
        neurons = tuple(neuron and neuron.keep(samples) for neuron in self.neurons)
        current = self.current and (self._kept_current(neurons[0], samples), self.current[1])
        return State(self.t, neurons, self.source[samples], current)

    def _kept_current(self, kept: LayerState | None, samples: Tensor) -> Tensor:
        """The constant current of some samples: the one that the first layer has kept already, if it has."""
        assert self.current is not None
        first, current = self.neurons[0], self.current[0]
        if isinstance(first, Past) and isinstance(kept, Past) and first.currents[0] is current:
            return kept.currents[0]
        return take_samples(current, samples)


class Step(NamedTuple):
    """What the output layer did at one step."""

    spikes: Tensor
    """`[B, classes]`, 0 or 1."""
    membrane: Tensor
    """`[B, classes]`."""
