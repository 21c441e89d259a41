"""Lanes of commands on the lent machine: side by side, and in each one command after another.

    python gpu/lanes.py check PLAN          at home: is the plan right, does it fit, and which calls are to be sent
    python3 gpu/lanes.py start PLAN         on the lent machine: begin its lanes, which outlive the call
    python3 gpu/lanes.py wait SECONDS       begin the plans in gpu/plans/now, tell how each lane stands, bring home
                                            what is finished, through $OUT
    python3 gpu/lanes.py stop               end all lanes, with a checkpoint
    python gpu/lanes.py home FOLDER         at home: lay out in runs/ what has come back somewhere in FOLDER

The working folder (/tmp/gpu, or --work) has data/ and site/ from unpack.py; tree/, a copy of this tree, which the
lanes run in; and lanes/NAME/ (see lane.py).
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from home import bring_home, put_away
from lane import is_over
from standing import gpu, standing

ROOT = Path(__file__).resolve().parents[1]
NOW = ROOT / "gpu/plans/now"
"""Plans that the next call of `wait` begins."""
WORK = Path("/tmp/gpu")
POLL_SECONDS = 0.2
STOP_SECONDS = 60.0
"""How long a training may take to write its checkpoint."""


def check(path: Path) -> None:
    """Refuse a plan that is not right; else tell how long it takes, and which calls are to be sent."""
    from calls import tell_calls
    from check import check_plan
    from plan import read_plan

    plan = read_plan(path)
    check_plan(plan, ROOT)
    tell_calls(path, plan, ROOT)


def start(path: Path, work: Path, commit: str) -> None:
    """Begin the lanes of a plan, each in a process that outlives this call; lanes begun before are left alone."""
    if str(ROOT) not in sys.path:  # in a call that names no PYTHONPATH
        sys.path.insert(0, str(ROOT))
    from plan import read_plan

    plan = read_plan(path)
    note, session = work / "session.json", {"started": time.time(), "stop_after": 0.0, "commit": commit}
    if note.exists():
        session = json.loads(note.read_text())
    else:
        copy_tree(work / "tree")
    session["stop_after"] = max(session["stop_after"], plan.stop_after)
    note.write_text(json.dumps(session))
    env = environment(work, commit, len(plan.lane)) | start_mps(work)
    for lane in plan.lane:
        folder = work / "lanes" / lane.name
        if folder.exists():
            print(f"{lane.name}: begun before")
            continue
        folder.mkdir(parents=True)
        what = {"commands": [one.words for one in lane.run], "sets": lane.sets, "after": lane.after}
        (folder / "lane.json").write_text(json.dumps(what))
        begin(lane.name, work, env)
        print(f"{lane.name}: begun, {len(lane.run)} commands")


def copy_tree(to: Path) -> None:
    """A copy of this tree to run in: the next call's tree takes the place of this one."""
    for path in ROOT.iterdir():
        if path.is_dir() and not path.name.startswith((".", "carry", "runs")):
            shutil.copytree(path, to / path.name, dirs_exist_ok=True)


def begin(name: str, work: Path, env: dict[str, str]) -> None:
    """Start the process of a lane."""
    tree, folder = work / "tree", work / "lanes" / name
    words = [sys.executable, str(tree / "gpu/lane.py"), str(work), name]
    with (folder / "lane.log").open("wb") as log:
        process = subprocess.Popen(
            words, cwd=tree, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    (folder / "pid").write_text(str(process.pid))


def environment(work: Path, commit: str, lanes: int) -> dict[str, str]:
    """That of the lanes: where data and packages lie, and the cores shared out."""
    share = str(max(1, (os.cpu_count() or 1) // lanes))
    own = {
        "PYTHONPATH": f"{work / 'tree'}{os.pathsep}{work / 'site'}",
        "PYTHONUNBUFFERED": "1",
        "FIRSTSPIKE_DATA": str(work / "data"),
        "FIRSTSPIKE_COMMIT": commit,
    }
    return {"OMP_NUM_THREADS": share, "NUMBA_NUM_THREADS": share, **os.environ, **own}


def start_mps(work: Path) -> dict[str, str]:
    """Let processes share the GPU by NVIDIA's MPS, where there is one; returns what they need to find it."""
    control, folder = shutil.which("nvidia-cuda-mps-control"), work / "mps"
    found = {"CUDA_MPS_PIPE_DIRECTORY": str(folder), "CUDA_MPS_LOG_DIRECTORY": str(folder)}
    if control is None or folder.exists():
        return found if control else {}
    folder.mkdir()
    with (folder / "begin.log").open("w") as log:  # no pipe: a daemon could keep it open
        status = subprocess.run([control, "-d"], env=os.environ | found, stdout=log, stderr=log).returncode
    print(f"MPS: {(folder / 'begin.log').read_text().strip() or 'begun'}")
    return found if status == 0 else {}


def wait(work: Path, seconds: float, out: Path, again: bool) -> None:
    """Begin the plans in `NOW`; sleep, as long as lanes run; tell how they stand; bring home what is finished.

    Once the plan's `stop_after` has passed, it ends all lanes.
    """
    if not (work / "session.json").exists():
        raise SystemExit(f"lanes: nothing has been started in {work}.")
    session, until = json.loads((work / "session.json").read_text()), time.time() + seconds
    for path in sorted(NOW.glob("*.toml")):
        start(path, work, session["commit"])
    session = json.loads((work / "session.json").read_text())
    stop_at = session["started"] + session["stop_after"]
    while time.time() < min(until, stop_at) and not all(map(is_over, lanes(work))):
        time.sleep(POLL_SECONDS)
    if time.time() >= stop_at:
        stop(work)
    print(f"{time.time() - session['started']:.0f} s after the start{gpu()}")
    for folder in lanes(work):
        print(*standing(work, folder), sep="\n")
    print(bring_home(work, out, again))


def stop(work: Path) -> None:
    """Ask all lanes to end, and wait until they have."""
    for folder in lanes(work):
        if not is_over(folder):
            print(f"{folder.name}: stopped")
            with contextlib.suppress(ProcessLookupError):
                os.kill(int((folder / "pid").read_text()), signal.SIGTERM)
    until = time.time() + STOP_SECONDS
    while time.time() < until and not all(map(is_over, lanes(work))):
        time.sleep(POLL_SECONDS)


def lanes(work: Path) -> list[Path]:
    """The folders of all lanes, in the order they were begun in."""
    return [
        path.parent for path in sorted(work.glob("lanes/*/pid"), key=lambda path: path.stat().st_mtime_ns)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, default=WORK, metavar="FOLDER")
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb in ("check", "start"):
        verbs.add_parser(verb).add_argument("plan", type=Path, metavar="PLAN")
    verbs.choices["start"].add_argument("--commit", default="unknown")
    verbs.add_parser("wait").add_argument("seconds", type=float, metavar="SECONDS")
    verbs.choices["wait"].add_argument(
        "--again", action="store_true", help="bring home again what there is room for"
    )
    verbs.add_parser("stop")
    verbs.add_parser("home").add_argument("folder", type=Path, metavar="FOLDER")
    given = parser.parse_args()
    if given.verb == "check":
        check(given.plan)
    elif given.verb == "start":
        start(given.plan, given.work, given.commit)
    elif given.verb == "wait":
        if "OUT" not in os.environ:
            sys.exit("lanes: $OUT is not set: give the folder that what is finished comes home through.")
        wait(given.work, given.seconds, Path(os.environ["OUT"]), given.again)
    elif given.verb == "home":
        put_away(given.folder, ROOT)
    else:
        stop(given.work)


if __name__ == "__main__":
    main()
