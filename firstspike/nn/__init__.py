"""Modules: parameters around the functions of `firstspike.functional`. None of them keeps state."""

from firstspike.nn.dropout import Dropout
from firstspike.nn.layer import Output, Readout, Spiking
from firstspike.nn.neuron import AMOS, Neuron, ThresholdKind
from firstspike.nn.pooling import AvgPool2d, MaxPool2d
from firstspike.nn.synapse import Conv2d, Initialisation, Linear, Normalisation, NormalisationKind, Synapse

__all__ = [
    "AMOS",
    "AvgPool2d",
    "Conv2d",
    "Dropout",
    "Initialisation",
    "Linear",
    "MaxPool2d",
    "Neuron",
    "Normalisation",
    "NormalisationKind",
    "Output",
    "Readout",
    "Spiking",
    "Synapse",
    "ThresholdKind",
]
