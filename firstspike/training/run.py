"""The run folder: what a run was, what it did, and what came out.

recipe.json         the recipe, resolved
provenance.json     command, commit, versions, machine
metrics.jsonl       one line per epoch (and per noteworthy event), only ever appended to
checkpoints/        to resume from; gone once the run is finished
model/              the trained network
summary.json        the final measures
accuracy.png, raster.png
output.log          what it printed, where it was trained beside others (--jobs)
"""

import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from firstspike.config import from_dict, to_dict
from firstspike.errors import FirstspikeError
from firstspike.training.recipe import Recipe

if sys.platform != "win32":
    import fcntl


class Run:
    """A run folder on disk."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    @classmethod
    def create(cls, recipe: Recipe, folder: str | Path | None = None, own_model: str = "") -> "Run":
        """A new folder for a recipe; by default `runs/<recipe>-<time>-seed<seed>`.

        `own_model` describes the network, where it is the user's own and not the recipe's.
        """
        run = cls(folder or new_folder(f"{recipe.name}-{{}}-seed{recipe.seed}"))
        if run.recipe_path.exists():
            raise FirstspikeError(
                f"{run.folder} already holds a run: continue it with `firstspike resume {run.folder}`, or give "
                "another folder."
            )
        try:
            run.folder.mkdir(parents=True, exist_ok=True)
            write_json(run.folder / "provenance.json", provenance() | {"own_model": own_model or None})
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
    def own_model(self) -> str:
        """A description of the network this run trains, if it is the user's own; else nothing."""
        try:
            return json.loads((self.folder / "provenance.json").read_text()).get("own_model") or ""
        except (OSError, ValueError):
            return ""

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
        try:
            return json.loads(path.read_text()) if path.exists() else None
        except ValueError as error:
            raise FirstspikeError(f"{path} is damaged ({error}): delete it and resume the run.") from error

    def finish(self, summary: dict[str, Any]) -> None:
        """Write the final measures. From then on the run is finished, and needs no checkpoint."""
        with self.writing():
            write_json(self.folder / "summary.json", summary)
        shutil.rmtree(self.checkpoints, ignore_errors=True)

    def log(self, kind: str, **values: Any) -> None:
        """Append a line to metrics.jsonl."""
        line = json.dumps({"kind": kind, "time": datetime.now(UTC).isoformat(timespec="seconds"), **values})
        with self.writing(), self.log_path.open("a") as file:
            file.write(line + "\n")

    @property
    def log_path(self) -> Path:
        return self.folder / "metrics.jsonl"

    def log_size(self) -> int:
        """Bytes logged so far, all of them on the disk."""
        if not self.log_path.exists():
            return 0
        with self.writing(), self.log_path.open("ab") as file:
            os.fsync(file.fileno())
            return file.tell()

    def rewind_log(self, size: int) -> None:
        """Take back what was logged after `size` bytes: those steps are done again, and logged again."""
        if self.log_path.exists() and self.log_path.stat().st_size > size:
            with self.writing():
                os.truncate(self.log_path, size)

    def metrics(self, kind: str) -> list[dict[str, Any]]:
        """The logged lines of one kind."""
        if not self.log_path.exists():
            return []
        lines = []
        for text in self.log_path.read_text().splitlines():
            try:
                line = json.loads(text)
            except ValueError:
                continue  # being written, or cut short by a kill
            if line.get("kind") == kind:
                lines.append(line)
        return lines

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other processes from training in this folder; the system lets go of it if this one is killed."""
        path = self.folder / ".lock"
        with self.writing():
            lock = path.open("a")
        with lock:
            try:
                _lock(lock.fileno())
            except BlockingIOError as error:
                raise FirstspikeError(
                    f"Another process is training in {self.folder}: wait for it, or stop it first."
                ) from error
            yield
            path.unlink(missing_ok=True)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """In this block, what the system refuses to write is told in a sentence."""
        try:
            yield
        except OSError as error:
            reason = error.strerror or error
            raise FirstspikeError(
                f"Could not write to {self.folder}: {reason}. Put that right, then `firstspike resume {self.folder}`."
            ) from error


def new_folder(pattern: str) -> Path:
    """A path under runs/ named by the time, which replaces the braces in `pattern`."""
    return Path("runs") / pattern.format(datetime.now(UTC).strftime("%Y%m%d-%H%M%S"))


def provenance() -> dict[str, Any]:
    """What is needed to repeat a result: command, commit, versions, machine, time."""
    from firstspike import __version__

    packages = ("torch", "numpy", "numba", "triton", "safetensors")
    return {
        "command": command(),
        "commit": commit(),
        "firstspike": __version__,
        "python": platform.python_version(),
        **{name: found for name in packages if (found := _version(name))},
        "cuda": torch.version.cuda,
        "machine": _machine(),
        "processes": int(os.environ.get("WORLD_SIZE", "1")),
        "system": platform.platform(),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def command() -> str:
    """The command line, as one would type it again."""
    program = Path(sys.argv[0])
    name = "firstspike" if program.name in ("firstspike", "__main__.py") else str(program)
    return shlex.join([name, *sys.argv[1:]])


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _machine() -> str:
    cores = f"{platform.machine()} CPU, {os.cpu_count()} cores"
    if not torch.cuda.is_available():
        return cores
    count = torch.cuda.device_count()
    return f"{torch.cuda.get_device_name()}{f' x {count}' if count > 1 else ''}; {cores}"


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
    with whole(path) as part:
        part.write_text(json.dumps(values, indent=2) + "\n")


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A path to write to, which becomes `path` at the end of the block: whole, or not at all."""
    part = path.with_name(f".{path.stem}.part{path.suffix}")
    try:
        yield part
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def _lock(descriptor: int) -> None:
    """Lock an open file, or raise BlockingIOError; where there are no locks (some network disks), do without."""
    if sys.platform == "win32":
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        return
