"""What is exported: a run folder, a saved model, a network of the package, or a network at hand."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firstspike.errors import FirstspikeError
from firstspike.models import Network
from firstspike.training.find import find_model


@dataclass(frozen=True)
class Source:
    """A trained network, and what is known of its training."""

    name: str
    net: Network
    folder: Path | None = None
    """Where its weights lie."""
    test: dict[str, Any] | None = None
    """Its measures on the test set: `measure.Measures` as a dictionary."""
    recipe: dict[str, Any] | None = None
    provenance: dict[str, Any] | None = None
    ships: bool = False
    """Whether it is one of the package's own."""


def find_source(given: Network | str | Path) -> Source:
    """The network that is meant by a run folder, a model folder, the name of a network in the package, or itself."""
    if isinstance(given, Network):
        return Source(given.config.architecture, given)
    found = find_model(given)
    if not isinstance(found.model, Network):
        raise FirstspikeError(f"{given} holds a ReLU twin: only spiking networks are exported.")
    if found.run is None:
        return Source(found.name, found.model, found.folder, ships=found.ships)
    told = found.run.folder
    summary, recipe, provenance = (
        _read(told / f"{name}.json") for name in ("summary", "recipe", "provenance")
    )
    return Source(
        found.name, found.model, found.folder, (summary or {}).get("test"), recipe, provenance, found.ships
    )


def _read(path: Path) -> dict[str, Any] | None:
    """A JSON file of a run, if there is one."""
    if not path.is_file():
        return None
    try:
        values = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise FirstspikeError(f"{path} is damaged: {error}.") from error
    return values if isinstance(values, dict) else None
