"""A process that trains one run of many: started by `side_by_side`, or by Ray.

    python -m firstspike.training.worker

It reads what to train as a line of JSON from its input, which stays open as long as whoever started it lives.
"""

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from firstspike.config import from_dict
from firstspike.errors import FirstspikeError
from firstspike.training.distributed import find_place
from firstspike.training.loop import Options, Progress
from firstspike.training.recipe import Recipe
from firstspike.training.run import Run
from firstspike.training.sweep import start_or_go_on

STOPPED = "stopped; resumable"
FAILED_STATUS = 2
"""Exit status of a process whose run failed in training (NaN, say), which the run folder tells of."""

Training = Callable[[Run, Recipe, Options], Iterator[Progress]]
"""The training of a run, from wherever it stands to its end."""


class Caller(NamedTuple):
    """Where the user is and what was typed, for workers elsewhere."""

    folder: str
    command: list[str]


def plainly(run: Run, recipe: Recipe, options: Options) -> Iterator[Progress]:
    """The training of `firstspike train` and `resume`."""
    return start_or_go_on(run, recipe, find_place(options.device), options)


def train_one(
    caller: Caller,
    folder: str,
    recipe: dict[str, Any],
    options: dict[str, Any],
    training: Training = plainly,
) -> str:
    """Train one run, from wherever it stands; returns how it ended."""
    sys.argv = caller.command  # for the record
    if Path(caller.folder).is_dir():  # relative paths in the recipe are the user's
        os.chdir(caller.folder)
    run = Run(folder)
    try:
        progress = training(run, from_dict(Recipe, recipe), from_dict(Options, options))
    except FirstspikeError as error:
        return f"not started: {error}"
    try:
        for standing in progress:
            if standing.message:
                print(standing.message, flush=True)
    except FirstspikeError as error:
        run.log("failed", sentence=str(error))
        return f"failed: {error}"
    return "finished" if run.summary else STOPPED


def serve(training: Training = plainly) -> None:
    """Train the run that the input describes, and end with a status that says how it went."""
    caller, folder, recipe, options = json.loads(sys.stdin.readline())
    threading.Thread(target=_stop_with_caller, daemon=True).start()
    ended = train_one(Caller(*caller), folder, recipe, options, training)
    print(ended, flush=True)
    sys.exit({"failed": FAILED_STATUS, "not started": 1}.get(ended.partition(":")[0], 0))


def _stop_with_caller() -> None:
    """Stop, with a checkpoint, once the input ends: whoever started this process is gone."""
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    serve()
