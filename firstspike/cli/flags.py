"""How values are read from the command line, and how their flags look in the help."""

import types
from typing import Any, Union, get_args, get_origin

from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

registry = ConstructorRegistry()

_NAMES = {int: "a whole number", float: "a number"}
_METAVARS = {int: "INT", float: "NUMBER", str: "TEXT"}


@registry.primitive_rule
def _plain(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    """Numbers, refused in words; and text."""
    if info.type not in _METAVARS:
        return None
    return _spec(info.type, optional=False)


@registry.primitive_rule
def _optional(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    """A value or `none`."""
    if get_origin(info.type) not in (Union, types.UnionType):
        return None
    inner = [kind for kind in get_args(info.type) if kind is not type(None)]
    if len(inner) != 1 or len(get_args(info.type)) != 2 or not isinstance(inner[0], type):
        return None
    return _spec(inner[0], optional=True)


def _spec(kind: Any, optional: bool) -> PrimitiveConstructorSpec[Any]:
    def read(words: list[str]) -> Any:
        if optional and words[0].lower() == "none":
            return None
        try:
            return kind(words[0])
        except ValueError:
            expected = _NAMES.get(kind, kind.__name__) + (" or none" if optional else "")
            raise ValueError(f"{words[0]!r} is not {expected}.") from None

    def is_instance(value: Any) -> bool:
        allowed = (int, float) if kind is float else kind
        return (optional and value is None) or (isinstance(value, allowed) and not isinstance(value, bool))

    return PrimitiveConstructorSpec(
        nargs=1,
        metavar=_METAVARS.get(kind, kind.__name__.upper()),
        instance_from_str=read,
        is_instance=is_instance,
        str_from_instance=lambda value: ["none" if value is None else str(value)],
    )
