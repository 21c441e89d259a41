"""Train, measure and run time-to-first-spike networks, in which every neuron fires at most once."""

__version__ = "0.1.0"

from firstspike import functional, nn
from firstspike.errors import FirstspikeError
from firstspike.models import ZOO, Network, NetworkConfig, build, load, one_spike_check, save
from firstspike.nn import Neuron, Normalisation

__all__ = [
    "ZOO",
    "FirstspikeError",
    "Network",
    "NetworkConfig",
    "Neuron",
    "Normalisation",
    "__version__",
    "build",
    "functional",
    "load",
    "nn",
    "one_spike_check",
    "save",
]
