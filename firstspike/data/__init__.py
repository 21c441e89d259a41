"""Data sets, by name or by path, as uint8 tensors; and the batches a network trains on."""

from firstspike.data.augment import Augment
from firstspike.data.batches import Batch, Batches
from firstspike.data.dataset import Dataset
from firstspike.data.load import load
from firstspike.data.names import catalogue
from firstspike.data.root import data_root
from firstspike.data.split import hold_out
from firstspike.data.standardise import standardisation

__all__ = [
    "Augment",
    "Batch",
    "Batches",
    "Dataset",
    "catalogue",
    "data_root",
    "hold_out",
    "load",
    "standardisation",
]
