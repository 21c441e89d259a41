"""Packages that only some exports need."""

import importlib
from typing import Any

from firstspike.errors import FirstspikeError


def need(module: str, extra: str) -> Any:
    """Import a module, or say how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise FirstspikeError(
            f"This needs {module}, which could not be imported ({error}): pip install 'firstspike[{extra}]'."
        ) from error
