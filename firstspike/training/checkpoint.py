"""Checkpoints: the whole state of a run, written so that a kill at any moment loses nothing.

A checkpoint is a folder `checkpoints/<steps>` with `state.safetensors` (all tensors) and `state.json` (all else,
and the digest of the tensors). It is written under another name and renamed when it is whole. The last two
are kept.
"""

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from firstspike.errors import FirstspikeError

KEPT = 2


def write(folder: Path, step: int, state: dict[str, Any]) -> Path:
    """Write `state` (nested dicts and lists of tensors and JSON values) as the checkpoint of `step`."""
    final = folder / f"{step:09d}"
    if damage(final) is None:  # this very step is safe already: there is nothing to gain by risking it
        return final
    part = folder / f".{step:09d}.part"
    try:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        tensors: dict[str, Tensor] = {}
        plain = _detach(state, "", tensors)
        save_file(tensors, part / "state.safetensors")
        digest = _digest(part / "state.safetensors")
        (part / "state.json").write_text(json.dumps({"digest": digest, "state": plain}))
        for path in (*part.iterdir(), part):
            _sync(path)
        shutil.rmtree(final, ignore_errors=True)
        os.replace(part, final)
        _sync(folder)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(part, ignore_errors=True)
        kept = "The one before it is kept: make" if _all(folder) else "Make"
        raise FirstspikeError(
            f"Could not write the checkpoint {final}: {error}. {kept} room and resume."
        ) from error
    _tidy(folder, final)
    return final


def find_last(folder: Path) -> tuple[Path | None, list[str]]:
    """The newest checkpoint that is whole (None if there is none), and a warning for each one that is not."""
    warnings: list[str] = []
    for path in reversed(_all(folder)):
        reason = damage(path)
        if reason is None:
            return path, warnings
        warnings.append(f"The checkpoint {path} is damaged ({reason}): falling back to the one before it.")
    if warnings:
        warnings.append("No checkpoint is whole: starting from the beginning.")
    return None, warnings


def damage(path: Path) -> str | None:
    """What is wrong with a checkpoint, or None if it is whole."""
    try:
        written = json.loads((path / "state.json").read_text())
        if _digest(path / "state.safetensors") != written["digest"]:
            return "its tensors are not the ones that were written"
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def read(path: Path) -> dict[str, Any]:
    """The state in a checkpoint that is whole."""
    written = json.loads((path / "state.json").read_text())
    state: dict[str, Any] = _attach(written["state"], load_file(path / "state.safetensors"))
    return state


def _tidy(folder: Path, newest: Path) -> None:
    """Keep `newest` and the one before it. Later ones were damaged: the run has gone back to before them."""
    paths = _all(folder)
    current = paths.index(newest)
    for path in (*paths[: max(current + 1 - KEPT, 0)], *paths[current + 1 :], *folder.glob(".*.part")):
        shutil.rmtree(path, ignore_errors=True)


def _all(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("[0-9]*") if path.is_dir())


def _detach(tree: Any, name: str, tensors: dict[str, Tensor]) -> Any:
    """`tree` with each tensor replaced by its name, and the tensors by these names."""
    if isinstance(tree, Tensor):
        tensors[name] = tree.detach().cpu().contiguous().clone()
        return {"tensor": name}
    if isinstance(tree, dict):
        return {"dict": [[key, _detach(value, f"{name}.{key}", tensors)] for key, value in tree.items()]}
    if isinstance(tree, list | tuple):
        return [_detach(value, f"{name}.{index}", tensors) for index, value in enumerate(tree)]
    return tree


def _attach(tree: Any, tensors: dict[str, Tensor]) -> Any:
    """The inverse of `_detach`."""
    if isinstance(tree, dict):
        if "tensor" in tree:
            return tensors[tree["tensor"]]
        return {key: _attach(value, tensors) for key, value in tree["dict"]}
    return [_attach(value, tensors) for value in tree] if isinstance(tree, list) else tree


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()


def _sync(path: Path) -> None:
    """Make sure that a file or folder has reached the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
