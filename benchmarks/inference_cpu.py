"""Inference on the CPU: the engine beside plain PyTorch, other frameworks and the ReLU twin, in one run.

    PYTHONPATH=. python3 benchmarks/inference_cpu.py --out results/benchmarks/inference_cpu.json

Contenders take turns, several calls each, over the same real test images; medians with the 10th and 90th
percentile. Peers are imported, or found in `carry/peers` or the folder that FIRSTSPIKE_PEERS names; an absent one
is left out, and the output says so. `--model NAME=FOLDER:DATASET` adds a trained network.
"""

import argparse
import datetime
import json
import math
import os
import platform
import shlex
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import _cpu_contenders as ways
import torch
from _gpu import _commit
from torch import Tensor

from firstspike.data import load
from firstspike.inference import Engine, agreement, infer
from firstspike.inference.audit import audit_all
from firstspike.models import Network, build, pretrained
from firstspike.models import load as load_model
from firstspike.models.build import next_shape
from firstspike.models.table import _token
from firstspike.nn import Conv2d, Dropout, Spiking

SETTINGS = ((1, 1), (1, 64), (2, 1), (2, 64))
"""Threads and batch."""
LARGE = 100_000_000
"""Products of a dense pass from which on a network is large: no batches of 64, fewer images to calibrate, audit."""
WARM = 3
"""Calls at the start of each turn that are not counted."""


def contenders(net: Network, threads: int, calibration: Tensor, folder: Path) -> dict[str, ways.Call]:
    """Every way to run the network that can be made here."""
    twin = folder / "twin.onnx"
    makers: dict[str, Any] = {
        "engine float32": partial(ways.engine, net, "float32", threads, calibration),
        "engine int8": partial(ways.engine, net, "int8", threads, calibration),
        "engine int8-all": partial(ways.engine, net, "int8-all", threads, calibration),
        "PyTorch, early stop": partial(ways.Dense, net, True),
        "PyTorch, all steps": partial(ways.Dense, net, False),
        "SpikingJelly, all steps": partial(ways.spikingjelly, net),
        "snnTorch, all steps": partial(ways.snntorch, net),
        "ReLU twin, PyTorch": partial(ways.Twin, net),
        "ReLU twin, ONNX Runtime": lambda: ways.onnx_session(ways.onnx_twin(net, twin), threads),
        "ReLU twin, ONNX Runtime int8": lambda: ways.onnx_session(ways.onnx_int8(twin, calibration), threads),
    }
    made = {}
    for name, make in makers.items():
        try:
            made[name] = make()
        except ImportError as error:
            print(f"{name} left out: {error}")
    return made


def measure(calls: dict[str, ways.Call], images: Tensor, batch: int, seconds: float) -> list[dict[str, Any]]:
    """Take turns until `seconds` a contender are over; every turn is on the same images for all."""
    spans: dict[str, list[float]] = {name: [] for name in calls}
    turn = 20 if batch == 1 else 4
    begin = time.perf_counter()
    start = 0
    while time.perf_counter() - begin < seconds * len(calls):
        batches = [
            images[(start + index * batch) % (len(images) - batch + 1) :][:batch].clone()
            for index in range(turn)
        ]
        start = (start + turn * batch) % len(images)
        for name, call in calls.items():
            for index, given in enumerate(batches):
                before = time.perf_counter()
                call(given)
                after = time.perf_counter()
                if index >= (WARM if batch == 1 else 1):
                    spans[name].append(1e6 * (after - before))
    rows = []
    for name, values in spans.items():
        values.sort()
        median = statistics.median(values)
        row = {
            "name": name,
            "us": round(median, 1),
            "us_p10": round(values[len(values) // 10], 1),
            "us_p90": round(values[-1 - len(values) // 10], 1),
            "us_mean": round(statistics.fmean(values), 1),
            "images_per_s": round(batch / median * 1e6),
            "calls": len(values),
        }
        rows.append(row)
        spread = f"({row['us_p10']:.0f} to {row['us_p90']:.0f})"
        print(f"  {name:<32} {median:10.1f} us {spread:<18} {row['images_per_s']:>9,} images/s", flush=True)
    return rows


def work(net: Network, images: Tensor) -> dict[str, float]:
    """Adds that spikes cause, each counted by itself, over the products of one dense pass; where samples stop.

    The engine needs fewer: spikes that pooling brings together at one step are added as one.
    """
    answer = infer(net, images)
    shape, products, fans = net.config.input_shape, [], []
    for layer in net.layers:
        token = _token(layer)
        assert token is not None
        given, shape = shape, next_shape(shape, token)
        if isinstance(layer, Spiking):
            conv = isinstance(layer.synapse, Conv2d)
            products.append(layer.synapse.weight.numel() * (shape[1] * shape[2] if conv else 1))
            fans.append(products[-1] / math.prod(given))  # of a mean input, those at the border included
    spikes = answer.spikes.double().mean(0)
    adds = float((spikes[:-1] * torch.tensor(fans[1:], dtype=torch.float64)).sum())
    first = products[0] if net.config.encoding == "direct" else 0
    return {
        "mean_steps": round(float(answer.steps.double().mean()), 4),
        "answered_at_step_1": round(float((answer.steps == 1).double().mean()), 4),
        "spikes": round(float(spikes.sum()), 1),
        "adds_per_dense_product": round((first + adds) / sum(products), 4),
        "dense_products": sum(products),
    }


def without_dropout(net: Network) -> Network:
    """The fused network without the layers that only training knows, which other frameworks would have to run."""
    fused = net.fuse()
    layers = [layer for layer in fused.layers if not isinstance(layer, Dropout)]
    plain = Network(layers, replace(fused.config, dropout=0.0))
    plain.input_mean, plain.input_std = fused.input_mean, fused.input_std
    return plain.eval()


def measure_network(
    name: str, net: Network, dataset: str | None, seconds: float, most: int | None
) -> dict[str, Any]:
    """All contenders on one network, in all settings."""
    print(f"\n{name}")
    net = without_dropout(net)
    if dataset is None:
        images = calibration = torch.rand(256, *net.config.input_shape)
        facts: dict[str, Any] = {"images": "uniform noise, untrained weights: times only"}
    else:
        test = load(dataset, "test")
        images = test.images[:most].float() / 255
        large = work(net, images[:1])["dense_products"] >= LARGE
        calibration = load(dataset, "train").images[: 64 if large else 256].float() / 255
        exact = audit_all(Engine(net), images[: 20 if large else 1000], batch_size=5 if large else 250)
        plain = infer(net, images, threads=2)
        agreed = {
            weights: agreement(Engine(net, weights, calibration, 2)(images), plain, test.labels[:most])
            for weights in ("int8", "int8-all")
        }
        facts = {
            "images": f"{test.name}, {test.split}",
            "float32": {"spike_times": exact.neurons, "differing": exact.differing, "widest": exact.widest},
            **{weights: found.as_dict() for weights, found in agreed.items()},
        }
    facts |= work(net, images[:1000])
    print(json.dumps(facts))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for threads, batch in SETTINGS[::2] if facts["dense_products"] >= LARGE else SETTINGS:
            torch.set_num_threads(threads)
            print(f"{threads} thread{'s' * (threads > 1)}, batch {batch}")
            calls = contenders(net, threads, calibration, Path(folder))
            found = measure(calls, images, batch, seconds)
            rows += [{"threads": threads, "batch": batch} | row for row in found]
    least_disturbed = ratios(rows, "us_p10")
    return {"network": name} | facts | {"rows": rows, "ratios": ratios(rows), "ratios_p10": least_disturbed}


def ratios(rows: list[dict[str, Any]], key: str = "us") -> dict[str, float]:
    """How many times faster the engine is, at one thread and batch 1."""
    times = {row["name"]: row[key] for row in rows if (row["threads"], row["batch"]) == (1, 1)}
    found = {
        f"{ours} against {other}": round(time / times[ours], 2)
        for ours in ("engine float32", "engine int8", "engine int8-all")
        for other, time in times.items()
        if not other.startswith("engine")
    }
    print("ratios of the medians" if key == "us" else "ratios of the 10th percentiles")
    for pair, ratio in found.items():
        print(f"  {pair:<56} {ratio:6.2f}x")
    return found


def version(package: str) -> str | None:
    """Of an installed package, or None."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def machine() -> dict[str, Any]:
    """Where the figures come from."""
    with open("/proc/cpuinfo") as file:
        model = next(
            (line.split(":")[1].strip() for line in file if line.startswith("model name")), "unknown"
        )
    packages = ("onnxruntime", "spikingjelly", "snntorch", "numpy")
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "load_average": [round(value, 2) for value in os.getloadavg()],
        "instruction_set": Engine(pretrained("fashion-mnist-scnn5")).instruction_set,
        "python": platform.python_version(),
        "torch": torch.__version__,
        **{name: version(name) for name in packages},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", action="append", default=[], help="NAME=FOLDER:DATASET, a trained network")
    parser.add_argument("--untrained", action="append", default=[], help="a zoo name for 3 x 32 x 32 images")
    parser.add_argument("--seconds", type=float, default=3.0, help="for each contender in each setting")
    parser.add_argument("--most", type=int, help="test images at most, for classes and steps; all by default")
    parser.add_argument("--out", help="where to write the result (JSON)")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    before = machine()
    dataset = (
        "fashion-mnist" if (Path(os.environ.get("FIRSTSPIKE_DATA", "/")) / "fashion-mnist").is_dir() else ""
    )
    wanted: list[tuple[str, Network, str | None]] = [
        ("SCNN5", pretrained("fashion-mnist-scnn5"), dataset or "fashion-mnist-sample")
    ]
    for given in arguments.model:
        name, _, rest = given.partition("=")
        folder, _, data = rest.rpartition(":")
        wanted.append((name, load_model(folder), data))
    wanted += [
        (f"{name}, untrained", build(name, (3, 32, 32), T=4).eval(), None) for name in arguments.untrained
    ]
    found = []
    for name, net, data_name in wanted:
        found.append(measure_network(name, net, data_name, arguments.seconds, arguments.most))
        record = {
            "command": shlex.join(["python3", *sys.argv]),
            "commit": _commit(),
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "machine": before | {"load_average_after": [round(value, 2) for value in os.getloadavg()]},
            "networks": found,
        }
        if arguments.out:  # after each network: the next one may take long
            Path(arguments.out).parent.mkdir(parents=True, exist_ok=True)
            Path(arguments.out).write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
