"""Being asked to stop: by a signal, or by the clock."""

import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Any, Literal, Self

Reason = Literal["the time limit", "SIGINT", "SIGTERM"]


class StopRequest:
    """Inside the block, SIGTERM and SIGINT ask to stop instead of killing; a second SIGINT kills as usual.

    `reason` says which signal it was, or that the `deadline` (of `time.monotonic`) has passed.
    """

    def __init__(self, deadline: float | None = None) -> None:
        self.deadline = deadline
        self.signal: Reason | None = None
        self._before: dict[signal.Signals, Any] = {}

    @property
    def reason(self) -> Reason | None:
        """Why to stop now; None to go on."""
        if self.signal:
            return self.signal
        if self.deadline is not None and time.monotonic() >= self.deadline:
            return "the time limit"
        return None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.signal = "SIGINT" if number == signal.SIGINT else "SIGTERM"
        if number == signal.SIGINT:
            signal.signal(signal.SIGINT, self._before[signal.SIGINT])
