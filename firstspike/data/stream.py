"""Fetching ahead with worker threads, for sets that do not fit on the device."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")


def prefetched(jobs: Iterable[Callable[[], Result]], workers: int, ahead: int) -> Iterator[Result]:
    """The results of `jobs`, in their order, with up to `ahead` of them done or under way before they are asked for.

    Threads suffice: copying rows out of a (memory-mapped) tensor releases the interpreter lock.
    """
    pool = ThreadPoolExecutor(workers, thread_name_prefix="firstspike-data")
    waiting: deque[Future[Result]] = deque()
    try:
        for job in jobs:
            waiting.append(pool.submit(job))
            if len(waiting) > ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        # Also when the consumer stops early: nobody wants the rest of the epoch.
        pool.shutdown(cancel_futures=True)
