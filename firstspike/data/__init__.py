"""Data sets, by name or by path, as uint8 tensors; and the batches a network trains on."""

from firstspike.data.augment import Augment
from firstspike.data.batches import Batch, Batches
from firstspike.data.dataset import Dataset
from firstspike.data.get import get
from firstspike.data.load import load
from firstspike.data.names import catalogue
from firstspike.data.presence import missing
from firstspike.data.root import data_root
from firstspike.data.sheet import contact_sheet
from firstspike.data.split import hold_out
from firstspike.data.standardise import standardisation
from firstspike.data.steps import to_steps
from firstspike.data.verify import verify

__all__ = [
    "Augment",
    "Batch",
    "Batches",
    "Dataset",
    "catalogue",
    "contact_sheet",
    "data_root",
    "get",
    "hold_out",
    "load",
    "missing",
    "standardisation",
    "to_steps",
    "verify",
]
