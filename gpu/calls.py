"""The calls of a session, word for word, and when its lanes are expected to be over."""

import itertools
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from carried import MANIFEST
from pack import CALL_MIB, MIB, mib, tree_bytes, weight
from plan import Plan

from firstspike.training.run import commit

SESSION_SECONDS = 1800
# As one session found them: the start of a machine, and what a call takes beside its command.
BEGIN_SECONDS, UPLOAD_SECONDS, POLL_SECONDS = 40, 18, 10
LAST_SECONDS = 90
"""What stopping, and bringing home what is left, may take."""
WAIT_SECONDS, TIMEOUT_SECONDS = 120, 300
WORK = "/tmp/gpu"


class Span(NamedTuple):
    """When a lane runs, in seconds from the first call."""

    name: str
    begins: float
    ends: float


BRIEF = """\
You drive a lent machine through the tool `run`. It is lost after 30 seconds without a call: so send each call of
this list as soon as the one before it has returned, whatever that printed. One call at a time; change no word; read,
edit and run nothing else, and think about nothing in between. If a call answers that no machine could be started,
send it again, up to four times. If the machine is lost on the way (a later call says "warm": false), begin again at
the first call if more than 900 s are left, else stop. Leave out the polls that are left once all lanes have ended. At
the end call `give_back`, and answer with the number of calls, the budget that is left, and `files_at` of each.
"""


def tell_calls(path: Path, plan: Plan, root: Path) -> None:
    """Print what is uploaded, when each lane is expected to run, and all calls under a brief for who sends them."""
    manifest = read_manifest(root, plan)
    folders = uploads(plan, manifest)
    tell_sizes(root, folders)
    spans = expected(plan, folders, manifest)
    for span in spans:
        print(f"{span.name}: from {span.begins:.0f} to {span.ends:.0f} s")
    ends, stops = max(span.ends for span in spans), BEGIN_SECONDS + UPLOAD_SECONDS + plan.stop_after
    print(f"expected to end at {ends:.0f} s, stopped at {stops:.0f} s; a session has {SESSION_SECONDS} s")
    if ends > stops or stops + LAST_SECONDS > SESSION_SECONDS:
        print(
            f"TOO LONG: it must end before it is stopped, and that {LAST_SECONDS} s before the session is over"
        )
    print(f"\n{BRIEF}", end="")
    number = 1
    for line, same in itertools.groupby(calls(path.resolve().relative_to(root), plan, folders)):
        last = number + len(list(same)) - 1
        print(f"\n{number}. {line}" if last == number else f"\n{number} to {last}, each: {line}")
        number = last + 1


def read_manifest(root: Path, plan: Plan) -> dict[str, Any]:
    """What has been packed; a set of the plan's that has not been is refused."""
    wanted = dict.fromkeys(name for lane in plan.lane for name in lane.sets)
    path = root / "carry-1" / MANIFEST
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"sets": {}}
    absent = [name for name in wanted if name not in found["sets"]]
    if absent or not found["sets"]:
        raise SystemExit(
            f"{', '.join(absent) or 'Nothing'} is not packed: run gpu/pack.py . {' '.join(wanted)}"
        )
    return found


def uploads(plan: Plan, manifest: dict[str, Any]) -> list[str]:
    """The folders to carry, those first whose sets are wanted first; one at least, for the packages in it."""
    sets = dict.fromkeys(name for lane in plan.lane for name in lane.sets)
    folders = [folder for name in sets for folder in holding(name, manifest)]
    return list(dict.fromkeys(folders)) or ["carry-1"]


def holding(name: str, manifest: dict[str, Any]) -> list[str]:
    """The folders that have pieces of a set."""
    wanted = {piece for file in manifest["sets"][name] for piece in file["pieces"]}
    return [folder for folder, pieces in manifest["folders"].items() if wanted & set(pieces)]


def tell_sizes(root: Path, folders: Sequence[str]) -> None:
    """How large each upload is; one that is too large is refused."""
    tree = tree_bytes(root)
    print(f"tree: {mib(tree)}")
    for folder in folders:
        size = tree + weight((root / folder).iterdir())
        print(f"{folder}: {mib(size)} with the tree")
        if size > CALL_MIB * MIB:
            raise SystemExit(f"{folder} and the tree are more than {CALL_MIB:g} MiB: pack again.")


def expected(plan: Plan, folders: list[str], manifest: dict[str, Any]) -> list[Span]:
    """When each lane is expected to run."""
    spans: dict[str, Span] = {}
    for lane in plan.lane:
        number = max((folders.index(one) for name in lane.sets for one in holding(name, manifest)), default=0)
        there = BEGIN_SECONDS + UPLOAD_SECONDS * (number + 1)
        begins = max([there, *(spans[name].ends for name in lane.after)])
        spans[lane.name] = Span(lane.name, begins, begins + sum(one.seconds for one in lane.run))
    return list(spans.values())


def calls(plan: Path, read: Plan, folders: list[str]) -> Iterator[str]:
    """All calls: uploads, the first of which starts the lanes; polls until they are stopped; and an end."""
    for number, folder in enumerate(folders):
        then = "wait 0" if number else f"start {plan} --commit {commit()}"
        command = (
            f"PYTHONPATH=. python3 gpu/unpack.py {folder} {WORK}; PYTHONPATH=. python3 gpu/lanes.py {then}"
        )
        yield call(command, folder)
    left = read.stop_after - UPLOAD_SECONDS * (len(folders) - 1)
    for _ in range(math.ceil(left / (WAIT_SECONDS + POLL_SECONDS))):
        yield call(f"python3 gpu/lanes.py wait {WAIT_SECONDS}")
    yield call("python3 gpu/lanes.py stop; python3 gpu/lanes.py wait 0 --again")


def call(command: str, folder: str = "") -> str:
    """A call as it is sent."""
    carry = f', "carry": ["{folder}"]' if folder else ""
    return f'run {{"timeout_s": {TIMEOUT_SECONDS}{carry}, "command":\n   "{command}"}}'
