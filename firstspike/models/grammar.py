"""The architecture grammar: `C20K5-P2-C40K5-P2-FC1000-FC10`.

| token      | layer                                                                              |
|------------|------------------------------------------------------------------------------------|
| `C{m}K{k}` | convolution to m channels with a k x k kernel; K3 is padded by 1, others not at all |
| `P{n}`     | n x n pooling                                                                      |
| `FC{n}`    | fully connected to n neurons; the last one is the output                           |
| `{...}*n`  | the part in braces n times                                                         |

Tokens are joined by `-`; groups may stand inside groups.
"""

import itertools
import re
from dataclasses import dataclass
from typing import NoReturn

from firstspike.errors import FirstspikeError


@dataclass(frozen=True)
class Conv:
    channels: int
    kernel: int

    @property
    def padding(self) -> int:
        return 1 if self.kernel == 3 else 0

    def __str__(self) -> str:
        return f"C{self.channels}K{self.kernel}"


@dataclass(frozen=True)
class Pool:
    size: int

    def __str__(self) -> str:
        return f"P{self.size}"


@dataclass(frozen=True)
class Dense:
    neurons: int

    def __str__(self) -> str:
        return f"FC{self.neurons}"


Token = Conv | Pool | Dense
_Placed = tuple[Token, int]
"""A token and where it stands in the string."""

_TOKEN = re.compile(r"C(?P<channels>\d+)K(?P<kernel>\d+)|P(?P<size>\d+)|FC(?P<neurons>\d+)")
_REPEAT = re.compile(r"\*(\d+)")
_MOST_LAYERS = 1000


def parse(spec: str) -> list[Token]:
    """The tokens of an architecture string, groups written out.

    A bad string raises an error that quotes it and points at the bad place.
    """
    tokens, end = _sequence(spec, 0, depth=0)
    if end < len(spec):
        _refuse(spec, end, "expected '-' or the end here")
    last, place = tokens[-1]
    if not isinstance(last, Dense):
        _refuse(spec, place, "the last layer is the output and must be FC{classes}")
    for (before, _), (after, place) in itertools.pairwise(tokens):
        if isinstance(before, Dense) and not isinstance(after, Dense):
            _refuse(spec, place, f"{after} cannot follow the fully connected {before}")
    return [token for token, _ in tokens]


def _sequence(spec: str, start: int, depth: int) -> tuple[list[_Placed], int]:
    """Tokens and groups joined by '-' from `start`; also where they end."""
    tokens: list[_Placed] = []
    position = start
    while True:
        part, position = (
            _group(spec, position, depth) if spec[position : position + 1] == "{" else _token(spec, position)
        )
        tokens += part
        if len(tokens) > _MOST_LAYERS:
            _refuse(spec, start, f"this makes more than {_MOST_LAYERS} layers")
        if spec[position : position + 1] != "-":
            return tokens, position
        position += 1


def _group(spec: str, start: int, depth: int) -> tuple[list[_Placed], int]:
    if depth > 8:
        _refuse(spec, start, "groups are nested more than 8 deep")
    tokens, end = _sequence(spec, start + 1, depth + 1)
    if spec[end : end + 1] != "}":
        _refuse(spec, end, "expected '-' or a closing '}' here")
    repeat = _REPEAT.match(spec, end + 1)
    if not repeat or not 1 <= int(repeat[1]) <= _MOST_LAYERS:
        _refuse(spec, end + 1, "a group is followed by how often to repeat it, as in '{C256K3}*3'")
    return tokens * int(repeat[1]), repeat.end()


def _token(spec: str, start: int) -> tuple[list[_Placed], int]:
    match = _TOKEN.match(spec, start)
    if not match:
        _refuse(spec, start, "expected C{channels}K{kernel}, P{size}, FC{neurons} or a group {...}*n here")
    values = {name: int(value) for name, value in match.groupdict().items() if value}
    if 0 in values.values():
        _refuse(spec, start, f"the sizes in {match[0]} must be at least 1")
    kinds: list[type[Conv | Pool | Dense]] = [Conv, Pool, Dense]
    kind = next(kind for kind in kinds if set(values) == set(kind.__dataclass_fields__))
    return [(kind(**values), start)], match.end()


def _refuse(spec: str, position: int, reason: str) -> NoReturn:
    raise FirstspikeError(f"Cannot read the architecture:\n  {spec}\n  {' ' * position}^ {reason}")
