"""Where data sets live on this machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def data_root() -> Path:
    """`$FIRSTSPIKE_DATA`, or `firstspike/` in the platform's cache folder. It need not exist yet."""
    chosen = os.environ.get("FIRSTSPIKE_DATA")
    if chosen:
        return Path(chosen).expanduser()
    return _cache_folder() / "firstspike"


def _cache_folder() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
