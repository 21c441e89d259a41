"""One lane: its commands one after another, in a process of its own. A command that fails stops nothing else.

    python lane.py WORK NAME        # started by `lanes.py start`

In WORK/lanes/NAME: lane.json, what to run; pid; for the N-th command N.log and, once it is over, N.status (its exit
status and seconds); and `ended`, once the lane is over.
"""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

POLL_SECONDS = 0.2


def run_lane(work: Path, name: str) -> None:
    """Wait for what the lane needs and run its commands; SIGTERM ends the one that runs, and begins no other."""
    folder = work / "lanes" / name
    lane = json.loads((folder / "lane.json").read_text())
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: asked.append(number))
    while not asked and waits_for(work, lane):
        time.sleep(POLL_SECONDS)
    for number, words in enumerate(lane["commands"], start=1):
        if not asked:
            run(words, folder, number, asked)
    (folder / "ended").touch()


def run(words: list[str], folder: Path, number: int, asked: list[int]) -> None:
    """Run a command to its end, or until it has followed a request to stop."""
    began, told = time.monotonic(), False
    with (folder / f"{number}.log").open("wb") as log:
        words = [
            "/usr/bin/env",
            *resolved(words),
        ]  # which fails as the command does, where there is no such program
        child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        while child.poll() is None:
            if asked and not told:
                child.terminate()
                told = True
            time.sleep(POLL_SECONDS)
    (folder / f"{number}.status").write_text(f"{child.returncode} {time.monotonic() - began:.0f}")


def resolved(words: list[str]) -> list[str]:
    """A command, its program run by this Python."""
    programs = {"firstspike": [sys.executable, "-m", "firstspike"], "python": [sys.executable]}
    return [*programs.get(words[0], words[:1]), *words[1:]]


def waits_for(work: Path, lane: dict[str, Any]) -> list[str]:
    """What a lane needs and what is not there yet: data sets, and the end of other lanes."""
    sets = [name for name in lane["sets"] if not (work / "data" / name).is_dir()]
    return sets + [name for name in lane["after"] if not is_over(work / "lanes" / name)]


def is_over(folder: Path) -> bool:
    """Whether a lane has ended, or its process is gone."""
    if (folder / "ended").exists():
        return True
    try:
        pid = (folder / "pid").read_text()
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return (folder / "pid").exists()
    return state == "Z"


if __name__ == "__main__":
    run_lane(Path(sys.argv[1]), sys.argv[2])
