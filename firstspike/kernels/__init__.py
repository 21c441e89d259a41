"""The functions that training and inference spend their time in, made fast where the device allows it.

Each has the signature and the result of its namesake in `firstspike.functional`, which it falls back to.
"""

from firstspike.kernels.neuron import amos, avg_pool
from firstspike.kernels.step import Past, Steps, Wanted, amos_steps
from firstspike.kernels.weight import normalise_weight

__all__ = ["Past", "Steps", "Wanted", "amos", "amos_steps", "avg_pool", "normalise_weight"]
