"""What is exported: a run folder, a saved model, a network of the package, or a network at hand."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firstspike.errors import FirstspikeError
from firstspike.models import Network, load, pretrained
from firstspike.models.shipped import FOLDER
from firstspike.models.storage import CONFIG_NAME
from firstspike.training.run import Run


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
    path = Path(given)
    if not path.exists() and (FOLDER / path).is_dir() and len(path.parts) == 1:
        return _source(path.name, pretrained(path.name), FOLDER / path, FOLDER / path, ships=True)
    if (path / CONFIG_NAME).is_file():
        run = path.parent if path.name == "model" else path
        return _source((run if run != path else path).resolve().name, load(path), path, run)
    if (path / "recipe.json").is_file():
        if not (path / "model").is_dir():
            raise FirstspikeError(
                f"{path} has no trained model yet: finish it with `firstspike resume {path}`."
            )
        return _source(path.resolve().name, load(path / "model"), path / "model", path)
    if path.exists():
        raise FirstspikeError(f"{path} is neither a run folder nor the folder of a saved model.")
    shipped = ", ".join(sorted(folder.name for folder in FOLDER.iterdir()))
    raise FirstspikeError(
        f"There is no run or model folder {path}, and no network of that name in the package, which has {shipped}."
    )


def _source(name: str, net: Network, folder: Path, run: Path, ships: bool = False) -> Source:
    summary = Run(run).summary or {}
    recipe, provenance = _read(run / "recipe.json"), _read(run / "provenance.json")
    return Source(name, net, folder, summary.get("test"), recipe, provenance, ships)


def _read(path: Path) -> dict[str, Any] | None:
    """A JSON file of a run, if there is one."""
    if not path.is_file():
        return None
    try:
        values = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise FirstspikeError(f"{path} is damaged: {error}.") from error
    return values if isinstance(values, dict) else None
