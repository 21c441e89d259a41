"""Typed dataclasses to and from plain JSON values, strictly."""

import dataclasses
import difflib
import types
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from firstspike.errors import FirstspikeError

T = TypeVar("T")


def to_dict(config: Any) -> dict[str, Any]:
    """A dataclass (and those inside it) as JSON values."""
    return dataclasses.asdict(config)


def from_dict(kind: type[T], values: Any, where: str = "") -> T:
    """Rebuild a dataclass from JSON values; a field that is unknown, missing or mistyped is refused by name.

    `where` is the path of `values` inside the whole, for the error.
    """
    if not isinstance(values, Mapping):
        raise FirstspikeError(f"Expected a table of fields for {where or kind.__name__}, found {values!r}.")
    hints = get_type_hints(kind)
    fields = {field.name: field for field in dataclasses.fields(kind) if field.init}  # type: ignore[arg-type]
    for name in values:
        if name not in fields:
            near = difflib.get_close_matches(name, fields, n=3) or list(fields)
            raise FirstspikeError(f"Unknown field {_path(where, name)!r}: did you mean {' or '.join(near)}?")
    for name, field in fields.items():
        if (
            name not in values
            and field.default is dataclasses.MISSING
            and field.default_factory is dataclasses.MISSING
        ):
            raise FirstspikeError(f"The field {_path(where, name)!r} is missing.")
    return kind(**{name: _convert(hints[name], value, _path(where, name)) for name, value in values.items()})


def _convert(kind: Any, value: Any, where: str) -> Any:
    """`value` as the annotated type `kind`, or an error that says what was expected."""
    origin, arguments = get_origin(kind), get_args(kind)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return from_dict(kind, value, where)
    if origin is Literal:
        if value in arguments:
            return value
        raise FirstspikeError(f"{where} is {value!r}: choose one of {', '.join(map(str, arguments))}.")
    if origin in (Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        candidates = [argument for argument in arguments if argument is not type(None)]
        for candidate in candidates[:-1]:
            try:
                return _convert(candidate, value, where)
            except FirstspikeError:
                continue
        return _convert(candidates[-1], value, where)
    if origin is tuple and isinstance(value, list | tuple):
        inner = arguments[0] if len(arguments) == 2 and arguments[1] is Ellipsis else None
        kinds = [inner] * len(value) if inner is not None else list(arguments)
        if len(kinds) == len(value):
            return tuple(
                _convert(k, v, f"{where}[{i}]") for i, (k, v) in enumerate(zip(kinds, value, strict=True))
            )
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if isinstance(kind, type) and type(value) is kind:
        return value
    raise FirstspikeError(f"{where} is {value!r}, but should be {getattr(kind, '__name__', kind)}.")


def _path(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name
