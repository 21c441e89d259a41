"""Changing one field of a recipe by its dotted name, from text, as strictly as the command line does."""

import dataclasses
import difflib
import json
from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

from firstspike.config import from_dict, to_dict
from firstspike.errors import FirstspikeError
from firstspike.training.recipe import Recipe


def override(recipe: Recipe, name: str, text: str) -> Recipe:
    """`recipe` with the field `name` (as in `optimizer.lr`) set to what `text` says."""
    kinds = dict(_fields(Recipe))
    if name not in kinds:
        near = difflib.get_close_matches(name, kinds, n=3, cutoff=0.5)
        near = near or [field for field in kinds if field.startswith(f"{name.split('.')[0]}.")]
        hint = f"did you mean {', '.join(near)}?" if near else "`firstspike train --help` lists them all."
        raise FirstspikeError(f"Unknown field {name!r}: {hint}")
    values = to_dict(recipe)
    *groups, last = name.split(".")
    table = values
    for group in groups:
        table = table[group]
    table[last] = _value(kinds[name], text)
    return from_dict(Recipe, values)


def _fields(kind: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The dotted names and types of all fields, those of dataclasses inside it included."""
    for name, hint in get_type_hints(kind).items():
        if dataclasses.is_dataclass(hint):
            yield from _fields(hint, f"{prefix}{name}.")
        else:
            yield prefix + name, hint


def _value(kind: Any, text: str) -> Any:
    """What `text` means where a `kind` is expected; `from_dict` then checks it."""
    kinds = get_args(kind) or (kind,)
    if text.lower() == "none" and type(None) in kinds:
        return None
    if text.lower() in ("true", "false") and bool in kinds:
        return text.lower() == "true"
    if int not in kinds and float not in kinds:
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text
