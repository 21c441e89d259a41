"""The event-driven CPU engine of firstspike. Used through `firstspike.inference`."""

from firstspike_native._core import Core, Stream, instruction_sets

INTERFACE = 2
"""Raised whenever what Python and the core say to each other changes."""

__all__ = ["INTERFACE", "Core", "Stream", "instruction_sets"]
