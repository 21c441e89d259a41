"""Inference on a stream: one frame at a time, an answer as soon as there is one."""

from typing import Any

import torch
from torch import Tensor

from firstspike.errors import FirstspikeError
from firstspike.functional.decoding import TieRule
from firstspike.inference import native
from firstspike.inference.answer import Answer
from firstspike.inference.engine import Engine
from firstspike.inference.found import Found
from firstspike.inference.given import check_ties
from firstspike.inference.plan import UnsupportedError
from firstspike.inference.reference import Tally
from firstspike.models import Network, State


class Stream:
    """Takes frames one by one: `stream.push(frame)` is None, or the `Answer` (of one sample) once there is one.

    An answer comes at the first output spike, or after T frames; the next frame then starts anew. A frame is the
    input of one step, `[C, H, W]`: an event frame; for a network of direct input the image at this step (the same
    image each time is what `infer` does); for latency coding the spikes of this step.

    Args:
        net: a network, or an `Engine` (for int8 weights, say).
        ties: as in `infer`.
        times: as in `infer`.
    """

    def __init__(self, net: Network | Engine, ties: TieRule = "potential", times: bool = False) -> None:
        check_ties(ties)
        self.ties, self.times = ties, times
        self._engine = net if isinstance(net, Engine) else _find_engine(net)
        self._net = self._engine.net if self._engine else net.fuse()  # type: ignore[union-attr]
        self._native: Any = self._engine and self._engine.open_stream()
        self._state: State | None = None
        self._tally: Tally | None = None

    @property
    def steps(self) -> int:
        """Frames taken since the last answer."""
        if self._native is not None:
            return int(self._native.steps_done)
        return 0 if self._state is None else self._state.t

    def reset(self) -> None:
        """Forget the frames taken since the last answer."""
        self._state = self._tally = None
        if self._native is not None:
            self._native.reset()

    def push(self, frame: Tensor) -> Answer | None:
        """One step: the frame `[C, H, W]` of this moment in; the answer out, if it came."""
        self._check(frame)
        if self._engine is None:
            return self._step(frame[None])
        given = self._engine.prepare(frame[None])
        found = self._native.push(given.data_ptr(), given.numel(), self.ties == "potential", self.times)
        if found is None:
            return None
        return Found(found, self._engine.layers, self._engine.name, self.times)

    @torch.no_grad()
    def _step(self, frame: Tensor) -> Answer | None:
        if self._state is None or self._tally is None:
            self._state = self._net.start(torch.zeros_like(frame))
            self._tally = Tally(self._net, 1, frame.device, self.times)
        step, self._state = self._net.step(frame, self._state)
        only = torch.zeros(1, dtype=torch.int64, device=frame.device)
        if not bool(self._tally.take(only, step, self._state, self.ties)):
            return None
        answer = self._tally.answer()
        self._state = self._tally = None
        return answer

    def _check(self, frame: Tensor) -> None:
        shape = tuple(self._net.config.input_shape)
        if tuple(frame.shape) != shape:
            raise FirstspikeError(f"A frame has shape {list(shape)} here, but this one {list(frame.shape)}.")
        if not frame.is_floating_point():
            raise FirstspikeError(f"A frame must be floating point, not {frame.dtype}: use frame.float().")
        if not bool(torch.isfinite(frame).all()):
            raise FirstspikeError("The frame has NaN or infinite values: check where it comes from.")
        if self._net.config.encoding == "latency" and not bool(((frame == 0) | (frame == 1)).all()):
            raise FirstspikeError(
                "A frame of a latency-coded network is its spikes at this step, 0 or 1: for whole images use infer."
            )


def _find_engine(net: Network) -> Engine | None:
    """The engine of a network, where there can be one."""
    if not native.available():
        return None
    try:
        return Engine(net)
    except UnsupportedError:
        return None
