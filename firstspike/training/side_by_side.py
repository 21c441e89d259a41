"""Runs side by side on one machine, each in a process of its own: small networks leave a GPU mostly idle."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, NamedTuple

from firstspike.config import to_dict
from firstspike.errors import FirstspikeError
from firstspike.training.interrupt import StopRequest
from firstspike.training.loop import Options
from firstspike.training.recipe import Recipe
from firstspike.training.run import Run
from firstspike.training.worker import FAILED_STATUS

LOG_NAME = "output.log"
WORKER = "firstspike.training.worker"
POLL_SECONDS = 0.1

End = Literal["finished", "failed", "stopped", "broken"]
"""How a run ended. `failed` is a verdict on the run (NaN, say), which the run folder tells; `broken` is a process
that ended in any other way (out of memory, killed)."""


class Job(NamedTuple):
    """A run to train."""

    name: str
    run: Run
    recipe: Recipe


def check_jobs(jobs: int, ray: bool = False) -> None:
    """Refuse a number of jobs that makes no sense here."""
    if jobs < 1:
        raise FirstspikeError(f"--jobs is {jobs}: give 1 or more, the number of runs to train at a time.")
    if jobs > 1 and ray:
        raise FirstspikeError("--jobs and --ray both train runs side by side: give one of them.")
    if jobs > 1 and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise FirstspikeError(
            "--jobs starts processes of its own: use it without torchrun, which trains one run in many processes."
        )


def side_by_side(
    jobs: Sequence[Job], at_once: int, options: Options, tell: Callable[[str], None], worker: str = WORKER
) -> dict[str, End]:
    """Train runs, some at once, from wherever they stand; returns how each ended, by its name.

    A signal or the end of `max_minutes`, which are those of all together, stops all of them with a checkpoint.

    Args:
        tell: hears of the start and the end of each.
        worker: the module that trains one, as `firstspike.training.worker` does.
    """
    waiting, going = deque(jobs), list[Child]()
    ends: dict[str, End] = {job.name: "stopped" for job in jobs}
    stopping = False
    with StopRequest(options.deadline()) as stop:
        try:
            while waiting or going:
                if stop.reason and not stopping:
                    stopping = True
                    tell(f"Stopped by {stop.reason}; resumable.")
                    waiting.clear()
                    for child in going:
                        child.process.terminate()
                while waiting and len(going) < at_once:
                    going.append(Child(waiting.popleft(), worker, options, environment(at_once)))
                    number = len(jobs) - len(waiting)
                    tell(f"[{number}/{len(jobs)}] {going[-1].job.name}: training")
                for child in [one for one in going if one.process.poll() is not None]:
                    going.remove(child)
                    ends[child.job.name] = child.end(stopping)
                    tell(child.told(ends[child.job.name]))
                time.sleep(POLL_SECONDS)
        finally:
            for child in going:
                child.kill()
    return ends


def refuse_broken(ends: dict[str, End], remedy: str) -> None:
    """An error that names the runs whose process broke off, if there are any, and how to go on."""
    names = [name for name, end in ends.items() if end == "broken"]
    if names:
        raise FirstspikeError(
            f"{', '.join(names)} broke off: see {LOG_NAME} in the run folder, and go on with {remedy}."
        )


def environment(at_once: int) -> dict[str, str]:
    """That of this process, with the cores shared out unless the user has done so."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    share = str(max(1, cores // at_once))
    return {"OMP_NUM_THREADS": share, "NUMBA_NUM_THREADS": share, **os.environ}


@dataclass
class Child:
    """A process that trains one run; what it prints goes to output.log in the run folder."""

    job: Job
    worker: str
    options: Options
    env: dict[str, str]
    process: subprocess.Popen[str] = field(init=False)
    started: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        with self.job.run.writing():
            self.log.parent.mkdir(parents=True, exist_ok=True)
            with self.log.open("a") as log:
                self.process = subprocess.Popen(
                    [sys.executable, "-m", self.worker],
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=self.env,
                    text=True,
                    start_new_session=True,  # Ctrl-C comes to us, and we tell them
                )
        options = replace(self.options, max_minutes=None)  # the clock is ours, too
        caller = (os.getcwd(), sys.argv)
        given = (caller, str(self.job.run.folder), to_dict(self.job.recipe), to_dict(options))
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # how it ended is seen later
            self.process.stdin.write(json.dumps(given) + "\n")
            self.process.stdin.flush()

    @property
    def log(self) -> Path:
        return self.job.run.folder / LOG_NAME

    def end(self, stopping: bool) -> End:
        """How the process, which is over, has ended."""
        self.close()
        status = self.process.returncode
        if self.job.run.summary is not None:
            return "finished"
        if status == 0 or (stopping and status == -signal.SIGTERM):
            return "stopped"
        return "failed" if status == FAILED_STATUS else "broken"

    def told(self, end: End) -> str:
        """The line that tells of its end."""
        seconds = f"{time.monotonic() - self.started:.0f} s"
        if end == "finished":
            test = (self.job.run.summary or {})["test"]
            shown = [
                f"{name} {test[name]:.2f} %" for name in ("strict", "potential", "accuracy") if name in test
            ]
            return f"{self.job.name}: {', '.join([*shown, seconds])}"
        if end == "stopped":
            return f"{self.job.name}: stopped, {seconds}"
        return f"{self.job.name} {end}, {seconds}: {self.last_words()}"

    def last_words(self) -> str:
        """The last line it printed, or the signal that it was killed by."""
        status = self.process.returncode
        if status < 0:
            return f"killed by {signal.Signals(-status).name}"
        lines = self.log.read_text(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), f"status {status}")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.close()

    def close(self) -> None:
        if self.process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()
