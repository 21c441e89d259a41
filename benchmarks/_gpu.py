"""What the GPU benchmarks share: timing with events, the machine's description, the result file."""

import datetime
import gc
import itertools
import json
import platform
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from _watch import Watch

ROOT = Path(__file__).resolve().parent.parent


def measure(
    step: Callable[[], object],
    repeats: int = 20,
    warmup: int = 5,
    seconds: float | None = None,
    watch: Watch | None = None,
) -> dict[str, Any]:
    """Milliseconds of a call: median, and the 10th and 90th percentile; and its peak memory in GiB.

    `host_ms` is how long one call keeps the host while the GPU is idle: where it is about `ms`, the GPU waits for
    Python and launches.

    Args:
        seconds: how long to repeat, instead of `repeats` times; at least 5 times, and after 3 for warming up.
        watch: who tells what clocks and power did meanwhile.
    """
    for _ in range(warmup if seconds is None else 3):
        step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    start = time.monotonic()
    step()
    host = time.monotonic() - start
    torch.cuda.synchronize()
    if seconds is not None:
        repeats = max(5, min(100, int(seconds / (time.monotonic() - start))))
    events = [torch.cuda.Event(enable_timing=True) for _ in range(repeats + 1)]
    events[0].record()
    for event in events[1:]:
        step()
        event.record()
    torch.cuda.synchronize()
    times = sorted(start.elapsed_time(end) for start, end in itertools.pairwise(events))
    result: dict[str, Any] = {
        "ms": round(statistics.median(times), 4),
        "ms_p10": round(times[len(times) // 10], 4),
        "ms_p90": round(times[-1 - len(times) // 10], 4),
        "host_ms": round(1e3 * host, 4),
        "peak_gib": round(max(torch.cuda.max_memory_allocated(), getattr(step, "peak", 0)) / 2**30, 3),
        "repeats": repeats,
    }
    if watch is not None:
        result["gpu"] = watch.between(start, time.monotonic())
    return result


def row(
    name: str,
    make: Callable[[], Callable[[], object]],
    batch: int,
    seconds: float | None = None,
    watch: Watch | None = None,
    **facts: Any,
) -> dict[str, Any]:
    """One measured row; a failure becomes the row's `error`, so that the others are still measured."""
    result: dict[str, Any] = {"name": name, "batch": batch, **facts}
    try:
        step = make()
        result |= measure(step, seconds=seconds, watch=watch)
        result["images_per_s"] = round(batch / result["ms"] * 1e3, 1)
        del step
    except Exception as error:
        result["error"] = f"{type(error).__name__}: {error}"[:600]
    gc.collect()
    torch.cuda.empty_cache()
    print(format_row(result), flush=True)
    return result


def format_row(result: dict[str, Any]) -> str:
    """A row for the terminal."""
    if "error" in result:
        return f"{result['name']:<44} failed: {result['error'][:200]}"
    spread = f"({result['ms_p10']:.2f} to {result['ms_p90']:.2f})"
    rate = f"{result['images_per_s']:>9.0f} images/s"
    gpu = result.get("gpu")
    power = f" {gpu['sm_mhz']:5.0f} MHz {gpu['power_w']:4.0f} W" if gpu else ""
    return f"{result['name']:<44} {result['ms']:8.2f} ms {spread:<20} {rate} {result['peak_gib']:6.2f} GiB{power}"


@dataclass(frozen=True)
class Captured:
    """A CUDA graph, and the bytes in use at most while it was captured: replaying it allocates nothing."""

    graph: torch.cuda.CUDAGraph
    peak: int

    def __call__(self) -> None:
        self.graph.replay()


def captured(step: Callable[[], object], calls: int = 1) -> Captured:
    """`calls` of a step as one CUDA graph, after a warm-up on a side stream as capture demands."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    torch.cuda.reset_peak_memory_stats()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            step()
    return Captured(graph, torch.cuda.max_memory_allocated())


def ceilings() -> dict[str, float]:
    """The two measured ceilings: memory (read plus written bytes of a copy) and bf16 matrix arithmetic."""
    source, target = torch.randn(2, 2**30, device="cuda")
    copy = measure(lambda: target.copy_(source))["ms"]
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    product = measure(lambda: a @ b)["ms"]
    return {"copy_tb_s": 2 * 2**32 / copy / 1e9, "bf16_tflop_s": 2 * 8192**3 / product / 1e9}


def machine() -> dict[str, Any]:
    """Where the figures come from."""
    return {
        "gpu": torch.cuda.get_device_name(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "triton": _version("triton"),
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
    }


def write(path: str | None, commit: str | None, **content: Any) -> None:
    """The result file: what was measured, with the command, the commit and the machine."""
    record = {
        "command": shlex.join(["python3", *sys.argv]),
        "commit": commit or _commit(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        **content,
    }
    if path:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(json.dumps(record, indent=2) + "\n")


def _commit() -> str | None:
    command = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return found.stdout.strip() or None


def _version(package: str) -> str | None:
    try:
        return str(__import__(package).__version__)
    except ImportError:
        return None
