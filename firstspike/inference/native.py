"""The native core, where it is installed."""

from functools import cache
from importlib import import_module
from typing import Any

from firstspike.errors import FirstspikeError

INTERFACE = 2
"""What this version says to the core and expects from it."""


@cache
def find() -> tuple[Any, str]:
    """The module of the core, or None and why there is none."""
    try:
        module = import_module("firstspike_native")
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "firstspike_native":
            return None, "the native engine is not installed (pip install ./native builds it)"
        return None, f"the native engine is installed but cannot be loaded ({error}): build it again"
    if module.INTERFACE != INTERFACE:
        return None, "the native engine is of another version of firstspike: build it again"
    return module, ""


def available() -> bool:
    """Whether the native engine can be used."""
    return find()[0] is not None


def require() -> Any:
    """The core's module; an error says how to get it."""
    module, reason = find()
    if module is None:
        raise FirstspikeError(
            f"There is no Engine here: {reason}. firstspike.infer works without it, more slowly."
        )
    return module
