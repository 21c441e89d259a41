"""The run folder: what a run was, what it did, and what came out.

recipe.json         the recipe, resolved
provenance.json     command, commit, versions, machine
metrics.jsonl       one line per epoch (and per noteworthy event), only ever appended to
checkpoints/        to resume from; gone once the run is finished
model/              the trained network
summary.json        the final measures
accuracy.png, raster.png
"""

import json
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from firstspike.config import from_dict, to_dict
from firstspike.errors import FirstspikeError
from firstspike.training.recipe import Recipe


class Run:
    """A run folder on disk."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    @classmethod
    def create(cls, recipe: Recipe, folder: str | Path | None = None) -> "Run":
        """A new folder for a recipe; by default `runs/<recipe>-<time>-seed<seed>`."""
        stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
        run = cls(folder or Path("runs") / f"{recipe.name}-{stamp}-seed{recipe.seed}")
        if run.recipe_path.exists():
            raise FirstspikeError(
                f"{run.folder} already holds a run: continue it with `firstspike resume {run.folder}`, or give "
                "another folder."
            )
        try:
            run.folder.mkdir(parents=True, exist_ok=True)
            write_json(run.folder / "provenance.json", provenance())
            write_json(run.recipe_path, to_dict(recipe))
        except OSError as error:
            raise FirstspikeError(f"Could not write to {run.folder}: {error.strerror or error}.") from error
        return run

    @property
    def recipe_path(self) -> Path:
        return self.folder / "recipe.json"

    @property
    def recipe(self) -> Recipe:
        """The recipe this run was started with."""
        try:
            return from_dict(Recipe, json.loads(self.recipe_path.read_text()))
        except FileNotFoundError as error:
            raise FirstspikeError(f"{self.folder} is not a run folder: it has no recipe.json.") from error
        except ValueError as error:
            raise FirstspikeError(f"{self.recipe_path} is damaged: {error}.") from error

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    @property
    def model(self) -> Path:
        return self.folder / "model"

    @property
    def summary(self) -> dict[str, Any] | None:
        """The final measures, or None while the run is not finished."""
        path = self.folder / "summary.json"
        return json.loads(path.read_text()) if path.exists() else None

    def finish(self, summary: dict[str, Any]) -> None:
        write_json(self.folder / "summary.json", summary)

    def log(self, kind: str, **values: Any) -> None:
        """Append a line to metrics.jsonl."""
        line = json.dumps({"kind": kind, "time": datetime.now(UTC).isoformat(timespec="seconds"), **values})
        try:
            with (self.folder / "metrics.jsonl").open("a") as file:
                file.write(line + "\n")
        except OSError as error:
            raise FirstspikeError(f"Could not write to {self.folder}: {error.strerror or error}.") from error

    def metrics(self, kind: str) -> list[dict[str, Any]]:
        """The logged lines of one kind; of lines for the same epoch, written again after a kill, the last."""
        path = self.folder / "metrics.jsonl"
        if not path.exists():
            return []
        lines: dict[Any, dict[str, Any]] = {}
        for text in path.read_text().splitlines():
            try:
                line = json.loads(text)
            except ValueError:
                continue  # a line cut short by a kill
            if line.get("kind") == kind:
                lines[line.get("epoch", len(lines))] = line
        return list(lines.values())


def provenance() -> dict[str, Any]:
    """What is needed to repeat a result: command, commit, versions, machine, time."""
    from firstspike import __version__

    cuda = torch.cuda.is_available()
    return {
        "command": " ".join(sys.argv),
        "commit": commit(),
        "firstspike": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "machine": torch.cuda.get_device_name()
        if cuda
        else f"{platform.machine()} CPU, {os.cpu_count()} cores",
        "system": platform.platform(),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def commit() -> str:
    """The commit of the source tree, `+changes` if it is not clean; or FIRSTSPIKE_COMMIT where there is no git."""
    if told := os.environ.get("FIRSTSPIKE_COMMIT"):
        return told
    git = ["git", "-C", str(Path(__file__).parent)]
    try:
        head = subprocess.run(
            [*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True
        ).stdout.strip()
        dirty = subprocess.run(
            [*git, "status", "--porcelain"], capture_output=True, text=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head + ("+changes" if dirty.strip() else "")


def write_json(path: Path, values: Any) -> None:
    """Write a file whole or not at all."""
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(values, indent=2) + "\n")
    os.replace(part, path)
