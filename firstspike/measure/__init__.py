"""What a trained network costs and achieves: accuracy, latency, spikes, energy, distributions."""

from firstspike.measure.distributions import currents, firing_times, weight_gradients
from firstspike.measure.energy import PAPER_HARDWARE, Energy, Hardware, estimate
from firstspike.measure.evaluate import Measures, evaluate
from firstspike.measure.rate import evaluate_rate
from firstspike.measure.synapses import Site, sites

__all__ = [
    "PAPER_HARDWARE",
    "Energy",
    "Hardware",
    "Measures",
    "Site",
    "currents",
    "estimate",
    "evaluate",
    "evaluate_rate",
    "firing_times",
    "sites",
    "weight_gradients",
]
