"""A sweep on Ray: its runs side by side, on one machine or on a cluster whose machines share the folder."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

from firstspike.config import to_dict
from firstspike.errors import FirstspikeError
from firstspike.training.loop import Options
from firstspike.training.sweep import Sweep
from firstspike.training.worker import STOPPED, Caller, train_one


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
        for variant, run in sweep.unfinished(folder.absolute()):
            task = train.remote(caller, str(run.folder), to_dict(variant.recipe), options_given)
            waiting[task] = variant
        while waiting:
            (done, *_), _ = ray.wait(list(waiting))
            ends.append(ray.get(done))
            tell(f"{waiting.pop(done).folder}: {ends[-1]}")
    finally:
        ray.shutdown()
    return STOPPED not in ends
