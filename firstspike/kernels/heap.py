"""Memory that a training on the CPU takes again and again: kept, rather than asked of the system each time."""

import ctypes
import functools
import sys

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3
NEVER = -1
TOP_PAD = 2**28
"""Bytes that the heap grows by at least."""


@functools.cache
def keep_heap() -> bool:
    """Let glibc keep what is freed, for the whole process; returns whether it does.

    A step of training frees what it took, and the next takes as much. By default glibc maps every large block
    anew, and the system clears it page by page: a quarter of the time of a step of SCNN7 (docs/training.md).
    Elsewhere than under glibc nothing happens.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    settings = ((M_MMAP_THRESHOLD, NEVER), (M_TRIM_THRESHOLD, NEVER), (M_TOP_PAD, TOP_PAD))
    return all(mallopt(name, value) for name, value in settings)
