"""Energy, estimated in the paper's three ways (spec, section 7) and from counted operations.

E1 = e_AC * sum over layers of T_inf * FLOPs(l) * r_l      T_inf * r_l: mean spikes of a neuron until the answer
E2 = a_stat * T_inf + a_dyn * N_s                          compared with rate coding's
E3 = T_inf * ceil(Ci / n) * ceil(Co / n) * H * W * e_mem   memory access of n x n crossbars
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from firstspike.errors import FirstspikeError
from firstspike.measure.synapses import Site


@dataclass(frozen=True)
class Hardware:
    """Constants of the hardware that energy is estimated for; the defaults are the paper's.

    Other hardware is another value: `Hardware("mine", accumulate=0.1, ...)`.
    """

    name: str = "45 nm CMOS, TrueNorth and SpikeSim, as in the paper"
    accumulate: float = 0.9
    """Energy of one accumulation, in pJ: 45 nm CMOS."""
    multiply_accumulate: float = 4.6
    """Energy of one multiplication and accumulation, in pJ: the same process, 32 bit floating point."""
    static: float = 0.6
    """E2's cost of a time step: TrueNorth, no unit."""
    dynamic: float = 0.4
    """E2's cost of a spike: TrueNorth, no unit."""
    crossbar: int = 64
    """Side n of a crossbar of synapses: SpikeSim, RRAM."""
    memory_access: float = 828.486
    """Energy of the memory accesses of one crossbar and output position in one step, in pJ: SpikeSim."""

    def __post_init__(self) -> None:
        for name, value in self.constants().items():
            if not (math.isfinite(value) and value >= 0):
                raise FirstspikeError(f"The hardware's {name} is {value:g}: give a number, 0 or more.")
        if self.crossbar < 1:
            raise FirstspikeError(f"The hardware's crossbar is {self.crossbar}: give its side, 1 or more.")

    def constants(self) -> dict[str, float]:
        """All but the name."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "name"}

    @property
    def label(self) -> str:
        """The name; where it is still the paper's and constants are not, those too."""
        paper = {field.name: field.default for field in fields(self)}
        own = [f"{name} {value:g}" for name, value in self.constants().items() if value != paper[name]]
        return f"{self.name}, but {', '.join(own)}" if own and self.name == paper["name"] else self.name


PAPER_HARDWARE = Hardware()


@dataclass(frozen=True)
class MemoryCase:
    """The layer that E3 is told for."""

    inputs: int = 256
    """Ci"""
    outputs: int = 256
    """Co"""
    height: int = 32
    width: int = 32

    def per_step(self, hardware: Hardware = PAPER_HARDWARE) -> float:
        """Energy of the memory accesses of one time step, in microjoule."""
        n = hardware.crossbar
        crossbars = math.ceil(self.inputs / n) * math.ceil(self.outputs / n)
        return crossbars * self.height * self.width * hardware.memory_access * 1e-6


PAPER_CASE = MemoryCase()
"""The paper's: 256 to 256 channels at 32 x 32, the second layer of SCNN6."""


@dataclass(frozen=True)
class Energy:
    """Estimates for one sample. All in microjoule but `e2`, which has no unit."""

    hardware: str
    e1: float
    """The paper's formula: dense operations times mean spikes a neuron, at `accumulate`."""
    e2: float
    """Steps and spikes, weighted; a number to be compared with another network's only."""
    e3: float
    """Memory access, for the paper's single layer of 256 to 256 channels at 32 x 32."""
    e3_network: float
    """The same summed over the layers of this network."""
    operations: float
    """Counted synaptic operations at `accumulate`, and the multiplications of the input."""


def estimate(
    sites: Sequence[Site],
    steps: float,
    layer_spikes: Mapping[str, float],
    sops: float,
    input_operations: float,
    hardware: Hardware = PAPER_HARDWARE,
) -> Energy:
    """The energy of one sample.

    Args:
        sites: the network's layers (`measure.sites`).
        steps: mean steps until the answer, T_inf.
        layer_spikes: mean spikes a sample of each layer.
        sops: mean synaptic operations a sample.
        input_operations: mean multiplications a sample of the input with the first weights.
    """
    rates = {site.name: layer_spikes[site.name] / math.prod(site.output_shape) for site in sites}
    return Energy(
        hardware=hardware.label,
        e1=hardware.accumulate * 1e-6 * sum(site.dense * rates[site.name] for site in sites),
        e2=spike_energy(steps, sum(layer_spikes.values()), hardware),
        e3=steps * PAPER_CASE.per_step(hardware),
        e3_network=steps * sum(_case(site).per_step(hardware) for site in sites),
        operations=1e-6 * (hardware.accumulate * sops + hardware.multiply_accumulate * input_operations),
    )


def spike_energy(steps: float, spikes: float, hardware: Hardware = PAPER_HARDWARE) -> float:
    """E2 = a_stat * T_inf + a_dyn * N_s."""
    return hardware.static * steps + hardware.dynamic * spikes


def _case(site: Site) -> MemoryCase:
    height, width = site.output_shape[1:] if len(site.output_shape) == 3 else (1, 1)
    return MemoryCase(site.input_shape[0], site.output_shape[0], height, width)
