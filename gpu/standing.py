"""How lanes stand, in words."""

import json
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

from lane import is_over, waits_for

STOPPED_STATUS = 3
"""What firstspike ends with where it was stopped, and can be resumed."""
LINES, WIDTH, TAIL_BYTES = 6, 240, 8192


def standing(work: Path, folder: Path) -> list[str]:
    """A line that says how a lane stands; below it, each command that did not finish, with its last words."""
    lane = json.loads((folder / "lane.json").read_text())
    commands = [shlex.join(words) for words in lane["commands"]]
    ends = {number: end for number in range(1, len(commands) + 1) if (end := end_of(folder, number))}
    lines = [f"{folder.name}: {where(work, folder, lane, list(ends.values()))}"]
    for number, (status, seconds) in ends.items():
        if status:
            how = "stopped" if status == STOPPED_STATUS else f"FAILED with status {status}"
            lines.append(f"  {how} after {seconds} s: {commands[number - 1]}")
            lines += [f"    {line}" for line in last_lines(folder / f"{number}.log")]
    return lines


def where(work: Path, folder: Path, lane: dict[str, Any], ends: list[tuple[int, int]]) -> str:
    """Where a lane stands: waiting, at a command, or at its end."""
    commands, number = lane["commands"], len(ends) + 1
    finished = f"{sum(status == 0 for status, _ in ends)} of {len(commands)} finished"
    if (folder / "ended").exists():
        return f"ended, {finished}"
    if is_over(folder):
        return f"GONE, {finished}: {' '.join(last_lines(folder / 'lane.log')[-1:])}"
    if not (folder / f"{number}.log").exists():
        return f"waits for {', '.join(waits_for(work, lane)) or 'its next command'}"
    said = " ".join(last_lines(folder / f"{number}.log")[-1:])
    return f"{number} of {len(commands)}, {shlex.join(commands[number - 1])} | {said}"


def end_of(folder: Path, number: int) -> tuple[int, int] | None:
    """Exit status and seconds of a command; None while it is not over."""
    path = folder / f"{number}.status"
    words = path.read_text().split() if path.exists() else []
    return (int(words[0]), int(words[1])) if len(words) == 2 else None


def last_lines(log: Path) -> list[str]:
    """The last lines of a log that say something, cut to a readable width."""
    if not log.exists():
        return []
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - TAIL_BYTES))
        lines = file.read().decode(errors="replace").splitlines()
    return [line.strip()[:WIDTH] for line in lines if line.strip()][-LINES:]


def gpu() -> str:
    """How busy the GPU is, where there is one."""
    if shutil.which("nvidia-smi") is None:
        return ""
    fields = "--query-gpu=utilization.gpu,memory.used,power.draw"
    asked = subprocess.run(["nvidia-smi", fields, "--format=csv,noheader"], capture_output=True, text=True)
    return f"; GPU {asked.stdout.strip()}"
