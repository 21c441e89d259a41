"""Runs of the command line in processes of their own, which can be killed.

They are forked from a server that has imported everything already: a start takes milliseconds, not seconds.
"""

import contextlib
import json
import multiprocessing
import os
import signal
import socket
import sys
import unittest.mock
from dataclasses import replace
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from firstspike.config import to_dict
from firstspike.data import Augment
from firstspike.nn import Normalisation
from firstspike.training import Recipe, Run
from firstspike.training.optimizer import OptimizerConfig
from firstspike.training.recipe import DataConfig, NetConfig
from tests.training.small import blobs

# Only for other processes: Numba refuses to compile once its threads run and this says another number.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(
    [
        "firstspike.cli.train",
        "firstspike.kernels.neuron_numba",
        "torch._dynamo",
        "matplotlib.figure",
        "tensorboard",
    ]
)


def everything_random(epochs: int = 3, **changes: Any) -> Recipe:
    """A recipe with all that draws random numbers or keeps state: 19 steps an epoch."""
    base = Recipe(
        name="small",
        epochs=epochs,
        batch_size=16,
        T=3,
        data=DataConfig(blobs(), validation=0.2),
        augment=Augment(crop=1, flip=True, cutout=2, mixup=0.2, cutmix=1.0),
        network=NetConfig("C4K3-C4K3-P2-FC16-FC4", dropout=0.3),
        normalisation=Normalisation(variance=4.0),
        optimizer=OptimizerConfig("muon", lr=0.02, ema=0.9, clip=5.0, weight_decay=1e-4),
    )
    return replace(base, **changes)


def write_recipe(recipe: Recipe, folder: Path) -> str:
    path = folder / "given.json"
    path.write_text(json.dumps(to_dict(recipe)))
    return str(path)


def start(args: list[str], log: Path, **env: str) -> ForkServerProcess:
    """Start `firstspike ARGS`, its words going to the file `log`."""
    process = _context.Process(target=_run, args=(args, str(log), env), daemon=True)
    with unittest.mock.patch.dict(os.environ, ONE_THREAD):  # for the server: it starts with the first process
        process.start()
    return process


def _run(args: list[str], log: str, env: dict[str, str]) -> None:
    from firstspike.cli import main

    os.environ.update(env)
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(out, 1)
    os.dup2(out, 2)
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
    sys.argv = ["firstspike", *args]
    main(args)


def start_many(args: list[list[str]], log: Path) -> list[ForkServerProcess]:
    """Start processes as torchrun would, each with its arguments."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = str(free.getsockname()[1])
    env = {"MASTER_ADDR": "localhost", "MASTER_PORT": port, "WORLD_SIZE": str(len(args))}
    return [
        start(own, log.with_suffix(f".{rank}"), RANK=str(rank), LOCAL_RANK=str(rank), **env)
        for rank, own in enumerate(args)
    ]


def end(process: ForkServerProcess, seconds: float = 120) -> int:
    """Wait for a process; its exit status."""
    process.join(seconds)
    if process.exitcode is None:
        process.kill()
        raise AssertionError("the process hangs")
    return process.exitcode


def stop(process: ForkServerProcess, number: signal.Signals) -> int:
    assert process.pid is not None
    with contextlib.suppress(ProcessLookupError):  # it may have come to its end meanwhile
        os.kill(process.pid, number)
    return end(process)


def outcome(folder: Path) -> tuple[bytes, dict[str, Any], list[dict[str, Any]]]:
    """What must be the same of two runs, to the last bit: weights, summary and log, apart from times."""
    run = Run(folder)
    assert run.summary is not None, "the run is not finished"
    summary = {
        name: value for name, value in run.summary.items() if name not in ("test_seconds", "last_epoch")
    }
    timed = ("time", "images_per_second")
    lines = [json.loads(line) for line in run.log_path.read_text().splitlines()]
    kept = [line for line in lines if line["kind"] != "resumed"]
    epochs = [{name: value for name, value in line.items() if name not in timed} for line in kept]
    return (run.model / "model.safetensors").read_bytes(), summary, epochs
