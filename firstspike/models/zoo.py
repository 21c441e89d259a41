"""The architectures of the paper, by name."""

import difflib
import re

from firstspike.errors import FirstspikeError
from firstspike.models.grammar import Dense, Token, parse

ZOO = {
    "FC1": "FC400-FC10",
    "FC2": "FC400-FC400-FC10",
    "SCNN1": "C16K5-P2-C32K5-P2-FC800-FC128-FC10",
    "SCNN2": "C6K5-P2-C16K5-P2-FC400-FC400-FC10",
    "SCNN3": "C32K3-P2-C64K3-P2-C128K3-P2-FC10",
    "SCNN4": "C40K5-P2-FC1000-FC10",
    "SCNN5": "C20K5-P2-C40K5-P2-FC1000-FC10",
    "SCNN6": "{{C256K3}*3-P2}*2-FC4096-FC10",
    "SCNN7": "{C128K3-P2}*5-FC512-FC11",
}


def resolve(architecture: str, classes: int | None = None) -> list[Token]:
    """The layers of a zoo name or an architecture string, the output set to `classes` where given."""
    looks_like_spec = any(sign in architecture for sign in "-{}*") or re.match(
        r"(C\d|P\d|FC\d+$)", architecture
    )
    if architecture in ZOO:
        tokens = parse(ZOO[architecture])
    elif looks_like_spec:
        tokens = parse(architecture)
    else:
        near = difflib.get_close_matches(architecture.upper(), ZOO, n=1)
        hint = f"did you mean {near[0]}?" if near else f"choose one of {', '.join(ZOO)}"
        raise FirstspikeError(
            f"Unknown architecture {architecture!r}: {hint} (Or write one, like 'C20K5-P2-FC100-FC10'.)"
        )
    return tokens if classes is None else [*tokens[:-1], Dense(classes)]
