"""How threads wait for work, decided before PyTorch is imported.

GNU's OpenMP, which PyTorch and numba run on under Linux, lets a thread that waits spin for a millisecond. Where two
processes share the cores, each then waits for the other's spinning: both are several times slower than half as fast.
Spinning a hundredth as long costs next to nothing (docs/training.md, "On the CPU").
"""

import os

os.environ.setdefault("GOMP_SPINCOUNT", "3000")
