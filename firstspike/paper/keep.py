"""Runs as results/ keeps them: all that tables and figures are made of, without weights."""

import shutil
from pathlib import Path

from firstspike.paper.runs import DIAGNOSTICS, is_over
from firstspike.training import Run
from firstspike.training.run import whole

WHOLE = ("recipe.json", "provenance.json", "summary.json")


def over_in(folder: Path) -> list[Run]:
    """Runs in a folder that are finished, or have failed."""
    return [run for path in sorted(folder.glob("*/recipe.json")) if is_over(run := Run(path.parent))]


def keep_all(folder: Path, out: Path) -> list[Run]:
    """Copy all runs in a folder that are over; returns the copies."""
    return [keep(run, out / run.folder.name) for run in over_in(folder)]


def keep(run: Run, out: Path) -> Run:
    """Copy a run: its epochs without what was seen of the layers meanwhile, and three looks at the currents."""
    (out / DIAGNOSTICS).mkdir(parents=True, exist_ok=True)
    for name in WHOLE:
        if (run.folder / name).exists():
            shutil.copyfile(run.folder / name, out / name)
    lines = run.log_path.read_text().splitlines(keepends=True)
    with whole(out / run.log_path.name) as part:
        part.write_text("".join(line for line in lines if not line.startswith('{"kind": "layers"')))
    looks = sorted((run.folder / DIAGNOSTICS).glob("epoch-*.json"))
    for path in {*looks[:2], *looks[-1:]}:  # before training, after the first epoch, after the last
        shutil.copyfile(path, out / DIAGNOSTICS / path.name)
    if not looks:
        (out / DIAGNOSTICS).rmdir()
    return Run(out)
