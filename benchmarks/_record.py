"""A result file that grows row by row, so that a run that is cut short loses nothing."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from _gpu import write


class Record:
    """Sections of rows, written to a file after each; past `limit` seconds, what is left is named and not run."""

    def __init__(self, path: str | None, commit: str | None, limit: float | None) -> None:
        self.path, self.commit, self.limit = path, commit, limit
        self.start = time.monotonic()
        self.content: dict[str, Any] = {"limit_s": limit, "skipped": []}

    def put(self, **facts: Any) -> None:
        self.content |= facts
        seconds = round(time.monotonic() - self.start, 1)
        write(self.path, self.commit, **self.content, seconds=seconds)

    def add(self, section: str, name: str, take: Callable[[], dict[str, Any] | None]) -> bool:
        """Measure a row, if there is time; False where there was none, or no row.

        One failure must not cost the other rows: it is told in the file.
        """
        start = time.monotonic()
        if self.limit is not None and start - self.start > self.limit:
            self.content["skipped"].append(name)
            print(f"{name}: skipped", flush=True)
            self.put()
            return False
        try:
            row = take()
        except Exception as error:
            row = {"name": name, "error": f"{type(error).__name__}: {error}"[:600]}
            print(f"{name} failed: {error}", flush=True)
        if row is None:
            return False
        row["took_s"] = round(time.monotonic() - start, 2)
        self.content.setdefault(section, []).append(row)
        self.put()
        return True

    def add_all(self, section: str, rows: Iterator[dict[str, Any]]) -> None:
        """Measure rows that come one after the other, while there is time."""
        while self.add(section, f"rest of {section}", partial(next, rows, None)):
            pass
