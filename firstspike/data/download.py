"""Fetching one file: it resumes where it was cut, is checked against its digest, and is renamed only when whole."""

from __future__ import annotations

import hashlib
import http.client
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from firstspike.data.sources import Download
from firstspike.errors import FirstspikeError

Progress = Callable[[str, int, int | None], None]
"""Called with the file's name, the bytes that are there, and the bytes there will be (None where unknown)."""
_CHUNK = 1 << 18
_TRIES = 3
_TIMEOUT = 30.0


def silent(file: str, done: int, total: int | None) -> None:
    """Report no progress."""


def fetch(download: Download, folder: Path, progress: Progress = silent) -> Path:
    """Fetch `download` into `folder`; what is left of a broken attempt is a `.part` file that the next one
    continues."""
    target = folder / download.file
    part = target.with_name(target.name + ".part")
    troubles: list[str] = []
    for url in download.urls:
        trouble = _fetch_from(url, part, download.file, progress)
        if trouble is None:
            found = _md5(part)
            if found == download.md5:
                part.replace(target)
                return target
            # Not worth continuing: these are other bytes. A mirror may still have the right ones.
            part.unlink()
            trouble = f"its md5 is {found}, expected {download.md5}; refused"
        troubles.append(f"{url}: {trouble}")
    raise FirstspikeError(f"{download.file} could not be fetched ({'; '.join(troubles)}).")


def _fetch_from(url: str, part: Path, name: str, progress: Progress) -> str | None:
    """Bring `part` to its full length from `url`; what went wrong, or None."""
    trouble = "no answer"
    for _ in range(_TRIES):
        try:
            if _continue(url, part, name, progress):
                return None
            trouble = "the connection was cut"
        except urllib.error.HTTPError as error:
            error.close()
            return f"the server answered {error.code} {error.reason}"
        except (OSError, http.client.HTTPException) as error:
            trouble = str(getattr(error, "reason", error)) or type(error).__name__
    return trouble


def _continue(url: str, part: Path, name: str, progress: Progress) -> bool:
    """One connection: append what is missing to `part`. Whether it is complete now."""
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "firstspike"})
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        reply = urllib.request.urlopen(request, timeout=_TIMEOUT)
    except urllib.error.HTTPError as error:
        # Nothing lies beyond what is there: it was whole, and the digest tells whether it is right.
        if error.code == 416 and have:
            error.close()
            return True
        raise
    with reply:
        if reply.status != 206:
            have = 0  # a server without ranges sends the file from its beginning
        length = reply.headers.get("Content-Length")
        total = have + int(length) if length is not None else None
        with part.open("ab" if have else "wb") as out:
            while chunk := reply.read(_CHUNK):
                out.write(chunk)
                have += len(chunk)
                progress(name, have, total)
    return total is None or have == total


def _md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "md5").hexdigest()
