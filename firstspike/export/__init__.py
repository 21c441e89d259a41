"""The trained network, elsewhere: NIR, ONNX, SpikingJelly, safetensors.

What needs SpikingJelly is in `firstspike.export.spikingjelly`, which imports it.
"""

from firstspike.export.agreement import Agreement, agreement
from firstspike.export.from_nir import from_nir
from firstspike.export.nir_file import read_nir
from firstspike.export.to_nir import to_nir
from firstspike.export.to_onnx import step_model, whole_model
from firstspike.export.write import Target, write

__all__ = [
    "Agreement",
    "Target",
    "agreement",
    "from_nir",
    "read_nir",
    "step_model",
    "to_nir",
    "whole_model",
    "write",
]
