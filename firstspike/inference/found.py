"""An answer of the native core."""

from typing import Any

import torch

from firstspike.inference.answer import Answer

TENSORS = ("label", "steps", "tied", "silent", "membrane", "spikes")


class Found(Answer):
    """An `Answer` whose tensors are made when they are first looked at.

    A small network answers within tens of microseconds, and six tensors would take five more.
    """

    __slots__ = ("_core",)

    def __init__(self, core: Any, layers: tuple[str, ...], engine: str, times: bool) -> None:
        self._core, self.layers, self.engine = core, layers, engine
        if not times:
            self.times = None

    def __getattr__(self, name: str) -> Any:
        """Only asked for what is not set yet."""
        value: Any
        if name in TENSORS:
            value = torch.from_numpy(getattr(self._core, name))
        elif name == "times":
            value = dict(zip(self.layers, map(torch.from_numpy, self._core.times), strict=True))
        else:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        setattr(self, name, value)
        return value

    def __reduce__(self) -> tuple[Any, ...]:
        """Copied and pickled as a plain `Answer`."""
        return Answer, (*(getattr(self, name) for name in TENSORS), self.layers, self.times, self.engine)
