"""The rate-coded twin: the same synapses with neurons that are reset and fire again."""

from torch import Tensor

from firstspike.functional.rate import Reset, integrate_and_fire, mean_rate
from firstspike.models.network import Network
from firstspike.models.twin import Twin
from firstspike.nn import Spiking


class RateTwin(Twin):
    """A rate-coded network: images or event frames in, mean firing rates `[B, classes]` in [0, 1] out.

    It runs all T steps, whatever the input: the answer is the class that fires most often.
    """

    def __init__(self, net: Network, reset: Reset = "hard") -> None:
        super().__init__(net)
        net.skip_last_frame = False
        self.reset = reset

    @property
    def unit(self) -> str:
        return f"rate-{self.reset}"

    def forward(self, x: Tensor) -> Tensor:
        return mean_rate(self.trace(x)[self.net.names[-1]])

    def trace(self, x: Tensor) -> dict[str, Tensor]:
        """The spikes `[T, B, ...]` of every layer of neurons, by its name."""
        found: dict[str, Tensor] = {}
        spikes = self.net.encode(x)
        for name, layer in zip(self.net.names, self.net.layers, strict=True):
            if not isinstance(layer, Spiking):
                spikes = layer(spikes)
                continue
            current, neuron = layer.synapse(spikes), layer.neuron
            spikes = integrate_and_fire(
                current,
                neuron.threshold_for(current),
                self.reset,
                neuron.neuron.tau,
                neuron.neuron.surrogate,
            )
            found[name] = spikes
        return found
