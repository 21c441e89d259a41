"""Does the exported network fire at the same times elsewhere? 1,000 real images, every runtime that is installed.

    PYTHONPATH=. python3 benchmarks/export.py

writes results/benchmarks/export.json. NIR runs in Norse, SpikingJelly and a plain reading of NIR's definitions, ONNX
in onnxruntime; the adapters are those of the tests.
"""

import importlib.util
import json
from collections.abc import Callable
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from torch import Tensor

from firstspike.data import load
from firstspike.export import agreement, to_nir
from firstspike.models import pretrained
from firstspike.training.run import provenance, write_json
from tests.export import runtimes

NAME, DATA = "fashion-mnist-scnn5", "fashion-mnist-sample"
RESULT = Path(__file__).parent.parent / "results/benchmarks/export.json"
Run = Callable[[Tensor], dict[str, Tensor]]


def main() -> None:
    net = pretrained(NAME).fuse()
    images = load(DATA, "test").images.float() / 255
    layers = list(net.trace(images[:1])[1])
    runs: dict[str, Run] = {}
    if here("nir"):
        graph = to_nir(net)
        for name, packages in runtimes.NEEDS.items():
            if all(map(here, packages)):
                run = getattr(runtimes, name)(graph)
                runs[f"NIR, {name}"] = lambda x, run=run: dict(
                    zip(layers, run(net.encode(x)).values(), strict=True)
                )
    if here("onnx") and here("onnxruntime"):
        from tests.export.test_onnx import run_steps, run_whole

        runs["ONNX, step graph"] = lambda x: run_steps(net, x)
        runs["ONNX, whole graph"] = lambda x: {layers[-1]: run_whole(net, x)["spike_times"]}
    results: dict[str, Any] = {}
    for name, run in runs.items():
        parts = [agreement(net, x, run(x)) for x in images.split(100)]
        total = sum(parts[1:], parts[0])
        results[name] = asdict(total) | {"unexplained": total.unexplained}
        print(f"{name}: {total}", flush=True)
    packages = ("nir", "nirtorch", "norse", "spikingjelly", "onnx", "onnxruntime")
    versions = {package: version(package) for package in packages if here(package)}
    write_json(
        RESULT, {"network": NAME, "images": f"{DATA}, test", "results": results, **provenance(), **versions}
    )
    print(json.dumps(versions))


def here(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


if __name__ == "__main__":
    main()
