"""Architectures: their grammar, the zoo, networks, and networks as files."""

from firstspike.models.build import build, build_from
from firstspike.models.check import LayerCount, OneSpikeReport, one_spike_check
from firstspike.models.config import NetworkConfig, Pooling
from firstspike.models.grammar import parse
from firstspike.models.network import Network
from firstspike.models.rate import RateTwin
from firstspike.models.shipped import pretrained
from firstspike.models.state import State, Step
from firstspike.models.storage import load, load_either, save
from firstspike.models.twin import Twin, start_from
from firstspike.models.units import as_unit
from firstspike.models.zoo import ZOO, resolve

__all__ = [
    "ZOO",
    "LayerCount",
    "Network",
    "NetworkConfig",
    "OneSpikeReport",
    "Pooling",
    "RateTwin",
    "State",
    "Step",
    "Twin",
    "as_unit",
    "build",
    "build_from",
    "load",
    "load_either",
    "one_spike_check",
    "parse",
    "pretrained",
    "resolve",
    "save",
    "start_from",
]
