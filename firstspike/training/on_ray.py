"""A sweep on Ray: its runs side by side, on one machine or on a cluster whose machines share the folder."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from firstspike.config import from_dict, to_dict
from firstspike.errors import FirstspikeError
from firstspike.training.loop import Options, fit, resume
from firstspike.training.recipe import Recipe
from firstspike.training.run import Run
from firstspike.training.sweep import Sweep

STOPPED = "stopped; resumable"


class Caller(NamedTuple):
    """Where the user is and what was typed, for workers elsewhere."""

    folder: str
    command: list[str]


def run_on_ray(sweep: Sweep, folder: Path, options: Options, tell: Callable[[str], None]) -> bool:
    """Train all runs that are not finished, one GPU each where there are GPUs; whether none had to stop early.

    `tell` hears of each one's end.
    """
    try:
        import ray
    except ImportError as error:
        raise FirstspikeError(
            "--ray needs Ray, which is not installed: pip install 'firstspike[ray]', or leave out --ray to train "
            "one run after the other."
        ) from error
    ray.init(ignore_reinit_error=True, log_to_driver=False)
    try:
        gpus = 1 if ray.cluster_resources().get("GPU", 0) else 0
        train = ray.remote(num_cpus=1, num_gpus=gpus)(train_one)
        caller, options_given, ends = Caller(os.getcwd(), sys.argv), to_dict(options), []
        waiting = {}
        for variant in sweep.variants:
            run = Run((folder / variant.folder).absolute())
            if run.summary is None:
                task = train.remote(caller, str(run.folder), to_dict(variant.recipe), options_given)
                waiting[task] = variant
        while waiting:
            (done, *_), _ = ray.wait(list(waiting))
            ends.append(ray.get(done))
            tell(f"{waiting.pop(done).folder}: {ends[-1]}")
    finally:
        ray.shutdown()
    return STOPPED not in ends


def train_one(caller: Caller, folder: str, recipe: dict[str, Any], options: dict[str, Any]) -> str:
    """Train one run in a worker, from wherever it stands; returns how it ended."""
    sys.argv = caller.command  # for the record
    if Path(caller.folder).is_dir():  # relative paths in the recipe are the user's
        os.chdir(caller.folder)
    run, chosen = Run(folder), from_dict(Options, options)
    try:
        if run.recipe_path.exists():
            resume(folder, options=chosen)
        else:
            fit(from_dict(Recipe, recipe), folder, options=chosen)
    except FirstspikeError as error:
        if run.recipe_path.exists():
            run.log("failed", sentence=str(error))
        return f"failed: {error}"
    return "finished" if run.summary else STOPPED
