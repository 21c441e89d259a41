"""Which trained network is meant: by a run folder, a model folder, or a name in the package."""

from dataclasses import dataclass
from pathlib import Path

from firstspike.errors import FirstspikeError
from firstspike.models import Network, Twin, load_either
from firstspike.models.shipped import FOLDER
from firstspike.models.storage import CONFIG_NAME
from firstspike.training.recipes import RECIPES
from firstspike.training.run import Run


@dataclass(frozen=True)
class Found:
    """A trained network and where it came from."""

    name: str
    model: Network | Twin
    folder: Path
    """Where its weights lie."""
    run: Run | None
    """The run that trained it, where the folder tells."""
    ships: bool
    """Whether it is one of the package's own."""


def find_model(given: str | Path) -> Found:
    """Read the network of a run folder, of a model folder, or of the package by its name."""
    path = Path(given)
    ships = not path.exists() and len(path.parts) == 1 and (FOLDER / path).is_dir()
    path = FOLDER / path if ships else path
    if not path.exists():
        raise FirstspikeError(f"There is no run or model folder {given}{_instead(path)}")
    if (path / CONFIG_NAME).is_file():
        above = path.parent if path.name == "model" and (path.parent / "recipe.json").is_file() else None
        return Found(
            (above or path).resolve().name, load_either(path), path, Run(above) if above else None, ships
        )
    run = Run(path)
    if not run.recipe_path.is_file():
        raise FirstspikeError(f"{path} is neither a run folder nor the folder of a saved model.")
    if not (run.model / CONFIG_NAME).is_file():
        if run.summary:
            raise FirstspikeError(
                f"{path} was kept without its weights: `firstspike train {path} --out FOLDER` trains it again."
            )
        raise FirstspikeError(f"{path} has no trained model yet: finish it with `firstspike resume {path}`.")
    return Found(path.resolve().name, load_either(run.model), run.model, run, ships)


def _instead(path: Path) -> str:
    """What to do about a folder that is not there: train the recipe of that name, or take a network that ships."""
    if len(path.parts) > 1 and path.name in RECIPES:
        return f": train it first, `firstspike train {path.name} --out {path}`."
    shipped = ", ".join(sorted(folder.name for folder in FOLDER.iterdir()))
    return f", and no network of that name in the package, which has {shipped}."
