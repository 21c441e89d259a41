"""An image or a stream in, a class and the time it took out: each sample stops at its first output spike."""

from firstspike.inference.answer import Answer
from firstspike.inference.audit import Agreement, Audit, agreement, audit
from firstspike.inference.batched import Batched
from firstspike.inference.engine import Engine
from firstspike.inference.infer import infer
from firstspike.inference.native import available
from firstspike.inference.reference import reference
from firstspike.inference.stream import Stream

__all__ = [
    "Agreement",
    "Answer",
    "Audit",
    "Batched",
    "Engine",
    "Stream",
    "agreement",
    "audit",
    "available",
    "infer",
    "reference",
]
