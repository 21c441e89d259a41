"""The method as pure functions of tensors: the readable truth that everything faster is tested against."""

from firstspike.functional.decoding import (
    Decay,
    Prediction,
    TieRule,
    first_spike,
    mean_membrane,
    predict,
    temporal_weighting,
    temporal_weights,
)
from firstspike.functional.encoding import Encoding, direct, latency
from firstspike.functional.neuron import NeuronState, amos, amos_step, charge, first_crossing
from firstspike.functional.normalisation import (
    NormalisationScope,
    ettfs_init_,
    ettfs_std,
    fan_in,
    kaiming_init_,
    normalise_weight,
    scale_channels,
)
from firstspike.functional.surrogate import ATAN, Surrogate, SurrogateKind
from firstspike.functional.times import MAX_STEPS, spike_times, spikes_at

__all__ = [
    "ATAN",
    "MAX_STEPS",
    "Decay",
    "Encoding",
    "NeuronState",
    "NormalisationScope",
    "Prediction",
    "Surrogate",
    "SurrogateKind",
    "TieRule",
    "amos",
    "amos_step",
    "charge",
    "direct",
    "ettfs_init_",
    "ettfs_std",
    "fan_in",
    "first_crossing",
    "first_spike",
    "kaiming_init_",
    "latency",
    "mean_membrane",
    "normalise_weight",
    "predict",
    "scale_channels",
    "spike_times",
    "spikes_at",
    "temporal_weighting",
    "temporal_weights",
]
