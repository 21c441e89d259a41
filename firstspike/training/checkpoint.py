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
        raise FirstspikeError(
            f"Could not write the checkpoint {final}: {error}. The one before it is kept: make room and resume."
        ) from error
    for old in _all(folder)[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    return final


def read_last(folder: Path) -> tuple[dict[str, Any] | None, list[str]]:
    """The newest checkpoint that is whole (None if there is none), and a warning for each one that is not."""
    warnings: list[str] = []
    for path in reversed(_all(folder)):
        try:
            written = json.loads((path / "state.json").read_text())
            if _digest(path / "state.safetensors") != written["digest"]:
                raise ValueError("its tensors are not the ones that were written")
            state = _attach(written["state"], load_file(path / "state.safetensors"))
        except (OSError, ValueError, KeyError, SafetensorError) as error:
            warnings.append(f"The checkpoint {path} is damaged ({error}): falling back to the one before it.")
            continue
        return state, warnings
    return None, warnings


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
