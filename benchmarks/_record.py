"""A result file that grows row by row, so that a run that is cut short loses nothing."""

import time
from collections.abc import Iterable
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

    def add(self, section: str, name: str, rows: Iterable[dict[str, Any]]) -> None:
        """Take rows one after the other, as they are measured, while there is time."""
        kept = self.content.setdefault(section, [])
        rows, start = iter(rows), time.monotonic()
        while True:
            if self.limit is not None and start - self.start > self.limit:
                self.content["skipped"].append(name)
                print(f"{name}: skipped, or what is left of it", flush=True)
                return self.put()
            try:
                row = next(rows)
            except StopIteration:
                return None
            except Exception as error:  # one failure must not cost the other sections
                self.content.setdefault("errors", []).append(
                    {"name": name, "error": f"{type(error).__name__}: {error}"[:600]}
                )
                print(f"{name} failed: {error}", flush=True)
                return self.put()
            end = time.monotonic()
            kept.append(row | {"took_s": round(end - start, 2)})
            start = end
            self.put()
