"""Train, measure and run time-to-first-spike networks, in which every neuron fires at most once."""

__version__ = "0.1.0"

import firstspike.threads  # noqa: F401  before anything imports torch
from firstspike import export, functional, nn
from firstspike.errors import FirstspikeError
from firstspike.inference import Answer, Engine, Stream, infer
from firstspike.models import ZOO, Network, NetworkConfig, build, load, one_spike_check, pretrained, save
from firstspike.nn import Neuron, Normalisation
from firstspike.training import Options, Recipe, Run, fit, get_recipe, resume

__all__ = [
    "ZOO",
    "Answer",
    "Engine",
    "FirstspikeError",
    "Network",
    "NetworkConfig",
    "Neuron",
    "Normalisation",
    "Options",
    "Recipe",
    "Run",
    "Stream",
    "__version__",
    "build",
    "export",
    "fit",
    "functional",
    "get_recipe",
    "infer",
    "load",
    "nn",
    "one_spike_check",
    "pretrained",
    "resume",
    "save",
]
