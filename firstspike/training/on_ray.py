"""A sweep on Ray: its runs side by side, on one machine or on a cluster whose machines share the folder."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from firstspike.config import from_dict, to_dict
from firstspike.errors import FirstspikeError
from firstspike.training.loop import Options, fit, resume
from firstspike.training.recipe import Recipe
from firstspike.training.run import Run
from firstspike.training.sweep import Sweep


def run_on_ray(sweep: Sweep, folder: Path, options: Options, tell: Callable[[str], None]) -> None:
    """Train all runs that are not finished, one GPU each where there are GPUs; `tell` hears of each one's end."""
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
        here, given = os.getcwd(), to_dict(replace(options, tensorboard=False))
        waiting = {
            train.remote(
                here, str((folder / variant.folder).absolute()), to_dict(variant.recipe), given
            ): variant
            for variant in sweep.variants
            if Run(folder / variant.folder).summary is None
        }
        while waiting:
            (done, *_), _ = ray.wait(list(waiting))
            tell(f"{waiting.pop(done).folder}: {ray.get(done)}")
    finally:
        ray.shutdown()


def train_one(here: str, folder: str, recipe: dict[str, Any], options: dict[str, Any]) -> str:
    """Train one run in a worker, from wherever it stands; returns how it ended."""
    if Path(here).is_dir():  # relative paths in the recipe are the user's
        os.chdir(here)
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
    return "finished" if run.summary else "stopped; resumable"
