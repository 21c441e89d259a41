"""What the GPU's clocks and power do while something is measured, as nvidia-smi tells."""

import contextlib
import os
import pty
import statistics
import subprocess
import threading
import time
from typing import Any

REASONS = {
    0x1: "idle",
    0x2: "application clocks",
    0x4: "power cap (software)",
    0x8: "slowdown (hardware)",
    0x10: "sync boost",
    0x20: "thermal (software)",
    0x40: "thermal (hardware)",
    0x80: "power brake (hardware)",
}
FIELDS = [
    "clocks.sm,clocks.mem,power.draw.instant,clocks_event_reasons.active",
    "clocks.sm,clocks.mem,power.draw,clocks_throttle_reasons.active",
]
"""What to ask for; the second as older drivers name it."""

EVERY_MS = 50


class Watch:
    """Samples of clocks and power, taken by a process of nvidia-smi from now until `stop`; none without one."""

    def __init__(self) -> None:
        self.samples: list[tuple[float, float, float, float, int]] = []
        """Time, SM and memory clock in MHz, power in W, reasons as bits."""
        self.process: subprocess.Popen[bytes] | None = None
        command = ["nvidia-smi", "--id=0", "--format=csv,noheader,nounits"]
        for fields in FIELDS:
            query = [*command, f"--query-gpu={fields}"]
            if _works(query):
                here, there = (
                    pty.openpty()
                )  # to a terminal each line is written at once, to a pipe perhaps not
                self.process = subprocess.Popen([*query, f"--loop-ms={EVERY_MS}"], stdout=there)
                os.close(there)
                threading.Thread(target=self._read, args=(here,), daemon=True).start()
                break

    def between(self, start: float, end: float) -> dict[str, Any] | None:
        """Clocks, power and what held them down between two `time.monotonic()`; None without a sample."""
        seen = [sample for sample in self.samples if start <= sample[0] <= end]
        if not seen:
            return None
        _, sm, memory, power, reasons = zip(*seen, strict=True)
        bits = {bit for bit in REASONS for sample in reasons if sample & bit}
        return {
            "samples": len(seen),
            "sm_mhz": statistics.median(sm),
            "sm_mhz_least": min(sm),
            "memory_mhz": statistics.median(memory),
            "power_w": round(statistics.mean(power), 1),
            "power_w_most": max(power),
            "held_down_by": [REASONS[bit] for bit in sorted(bits)],
        }

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()

    def _read(self, terminal: int) -> None:
        with contextlib.suppress(OSError), os.fdopen(terminal) as lines:  # the error is how a terminal ends
            for line in lines:
                with contextlib.suppress(ValueError):  # "[N/A]", where a machine does not tell
                    sm, memory, power, reasons = line.split(",")
                    values = float(sm), float(memory), float(power), int(reasons, 16)
                    self.samples.append((time.monotonic(), *values))


def _works(query: list[str]) -> bool:
    try:
        return subprocess.run(query, capture_output=True, timeout=20, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
