"""A plan: which commands run on the lent machine, in which lanes, and how long they are expected to take.

stop_after = 1500                    # seconds from the start: what still trains then is stopped and brought home
flags = "--no-tensorboard"           # of every `firstspike train` and `firstspike paper make`

[[lane]]
name = "cifar100"
sets = ["cifar100"]                  # it begins when these data sets are there
after = ["cifar10"]                  # ... and these lanes have ended; lanes run side by side otherwise

[[lane.run]]                         # its commands, one after another
command = "firstspike train cifar100-relu --out runs/cifar100-relu"
seconds = 170
"""

import shlex
import tomllib
from dataclasses import dataclass
from pathlib import Path

from firstspike.config import from_dict
from firstspike.errors import FirstspikeError


@dataclass(frozen=True)
class Command:
    """What to run, as it would be typed, and the seconds that it is expected to take."""

    command: str
    seconds: float

    @property
    def words(self) -> list[str]:
        return shlex.split(self.command)


@dataclass(frozen=True)
class Lane:
    """Commands that run one after another, once what they need is there."""

    name: str
    run: tuple[Command, ...]
    sets: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """All lanes. Those that a lane comes after stand before it."""

    lane: tuple[Lane, ...]
    stop_after: float
    flags: str = ""


def read_plan(path: Path) -> Plan:
    """The plan in a file, its flags added to the commands; what is wrong with it is one sentence."""
    try:
        plan = from_dict(Plan, tomllib.loads(path.read_text()))
        lanes = tuple(flagged(lane, plan.flags) for lane in plan.lane)
        check_names(lanes)
    except (OSError, ValueError, FirstspikeError) as error:
        raise SystemExit(f"{path}: {error}") from error
    return Plan(lanes, plan.stop_after, plan.flags)


def flagged(lane: Lane, flags: str) -> Lane:
    """A lane whose trainings have `flags` too."""

    def add(one: Command) -> Command:
        trains = one.words[:2] == ["firstspike", "train"] or one.words[:3] == ["firstspike", "paper", "make"]
        return Command(
            f"{' '.join(one.command.split())} {flags}".strip() if trains else one.command, one.seconds
        )

    return Lane(lane.name, tuple(map(add, lane.run)), lane.sets, lane.after)


def check_names(lanes: tuple[Lane, ...]) -> None:
    """Refuse two lanes of one name, and one that comes after a lane that does not stand before it."""
    before = set[str]()
    for lane in lanes:
        if not lane.name.isidentifier() or lane.name in before:
            raise FirstspikeError(
                f"A lane is called {lane.name!r}: give each its own name, of letters, digits and _."
            )
        if unknown := set(lane.after) - before:
            raise FirstspikeError(
                f"The lane {lane.name} comes after {', '.join(unknown)}, which does not stand before."
            )
        before.add(lane.name)
