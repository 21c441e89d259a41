"""Bring home what lanes have made: one .tar.gz a call, in parts that are small enough to come back.

A finished run comes once, without checkpoints, and with its network where that is small; what does not fit comes with
the next call. A run that is not finished comes every time as far as it is, and so do the lanes' logs: should the
machine be lost, its curves are not.
"""

import io
import tarfile
from collections.abc import Iterable
from pathlib import Path

MIB = 2**20
ROOM = 60 * MIB
"""Of a call: 64 MiB come back, in at most 8 files."""
PART = 15 * MIB
"""Of a file, which may have 16 MiB."""
MODEL = 12 * MIB
"""A network that is larger stays where it is."""
LEFT_OUT = ("checkpoints", "tensorboard")


def bring_home(work: Path, out: Path, again: bool = False) -> str:
    """Pack into `out` what has not been brought home yet, and `again` what has where there is room.

    Returns a line that says what comes.
    """
    listed, runs = work / "home.txt", work / "tree/runs"
    calls = listed.read_text().splitlines() if listed.exists() else []
    before = {name for call in calls for name in call.split()}
    finished = sorted(path.parent for path in runs.rglob("summary.json"))
    fresh = [run for run in finished if arcname(run, work) not in before]
    unfinished = sorted({path.parent for path in runs.rglob("recipe.json")} - set(finished))
    known = [run for run in finished if again and run not in fresh]

    chosen = fitting([*fresh, *unfinished, *known])
    packed = pack([*others(work), *(path for run in chosen for path in files_of(run))], work)
    write_parts(packed, out / f"home-{len(calls) + 1:02d}.tar.gz")
    home = [run for run in fresh if run in chosen]
    with listed.open("a") as file:
        file.write(" ".join(arcname(run, work) for run in home) + "\n")
    names = [run.relative_to(runs).as_posix() for run in home]
    return told(names, len(fresh) - len(home), len(unfinished), len(packed))


def told(home: list[str], later: int, unfinished: int, size: int) -> str:
    """What comes with this call."""
    parts = [f"{len(home)} finished runs ({', '.join(home) or 'none'})"]
    parts += [f"{later} more with the next call"] if later else []
    parts += [f"{unfinished} as far as they are"] if unfinished else []
    return f"home: {'; '.join(parts)}; {size / MIB:.1f} MiB"


def fitting(runs: list[Path]) -> list[Path]:
    """Those runs that fit into one call, the first ones first."""
    chosen, room = [], ROOM
    for run in runs:
        size = sum(path.stat().st_size for path in files_of(run))
        if size <= room:
            chosen.append(run)
            room -= size
    return chosen


def files_of(run: Path) -> list[Path]:
    """The files of a run folder that come home."""
    found = [path for path in sorted(run.rglob("*")) if path.is_file() and not path.name.startswith(".")]
    model = [path for path in found if (run / "model") in path.parents]
    too_large = sum(path.stat().st_size for path in model) > MODEL
    left_out = [run / name for name in (*LEFT_OUT, *(["model"] if too_large else []))]
    return [path for path in found if not any(folder in path.parents for folder in left_out)]


def others(work: Path) -> list[Path]:
    """What belongs to no single run: the lanes' logs, the tables of sweeps, and single files in runs/."""
    runs = work / "tree/runs"
    found = [
        *work.glob("lanes/*/*.log"),
        *runs.glob("*"),
        *runs.rglob("sweep.json"),
        *runs.rglob("results.*"),
    ]
    return sorted(path for path in found if path.is_file())


def pack(files: Iterable[Path], work: Path) -> bytes:
    """Files as a .tar.gz. Each is read first: what is still written to may grow meanwhile."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for path in files:
            content, entry = path.read_bytes(), tarfile.TarInfo(arcname(path, work))
            entry.size, entry.mtime = len(content), path.stat().st_mtime
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def arcname(path: Path, work: Path) -> str:
    """Where something lies at home: runs in runs/, logs of lanes in runs/lanes/."""
    tree = work / "tree"
    return (
        path.relative_to(tree).as_posix()
        if tree in path.parents
        else f"runs/{path.relative_to(work).as_posix()}"
    )


def write_parts(content: bytes, path: Path) -> None:
    """An archive as PATH.0, PATH.1, ..., to be put together by `cat PATH.*`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for number, first in enumerate(range(0, len(content), PART)):
        path.with_name(f"{path.name}.{number}").write_bytes(content[first : first + PART])


def put_away(folder: Path, root: Path) -> None:
    """At home: what has come back into `folder`, call by call, so that what is newer stays."""
    for first in sorted(folder.rglob("home-*.tar.gz.0"), key=lambda path: path.name):
        parts = sorted(first.parent.glob(f"{first.stem}.*"))
        with tarfile.open(fileobj=io.BytesIO(b"".join(path.read_bytes() for path in parts))) as archive:
            archive.extractall(root, filter="data")
            print(f"{first.stem}: {len(archive.getmembers())} files")
