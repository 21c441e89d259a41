"""Being asked to stop: by a signal, or by the clock."""

import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Any, Self


class StopRequest:
    """Inside the block, SIGTERM and SIGINT ask to stop instead of killing; a second SIGINT kills as usual.

    `asked` turns true then, or when `max_minutes` have passed, and `reason` says which.
    """

    def __init__(self, max_minutes: float | None = None) -> None:
        self.deadline = None if max_minutes is None else time.monotonic() + 60 * max_minutes
        self.signal: str | None = None
        self._before: dict[signal.Signals, Any] = {}

    @property
    def asked(self) -> bool:
        return self.reason is not None

    @property
    def reason(self) -> str | None:
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
        self.signal = signal.Signals(number).name
        if number == signal.SIGINT:
            signal.signal(signal.SIGINT, self._before[signal.SIGINT])
