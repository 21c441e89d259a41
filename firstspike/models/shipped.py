"""Trained networks that ship inside the package."""

from pathlib import Path

from firstspike.errors import FirstspikeError
from firstspike.models.network import Network
from firstspike.models.storage import load

FOLDER = Path(__file__).parent / "pretrained"


def pretrained(name: str) -> Network:
    """A trained network of the package, by the name of its recipe: `pretrained("fashion-mnist-scnn5")`."""
    folder = FOLDER / name
    if not folder.is_dir():
        known = ", ".join(sorted(path.name for path in FOLDER.iterdir()))
        raise FirstspikeError(f"There is no trained network {name!r} in the package: choose from {known}.")
    return load(folder / "model")
