"""Training step on the CPU: ours, and other frameworks on the same layers, in one run.

    PYTHONPATH=. python3 benchmarks/train_cpu.py --out results/benchmarks/train_cpu.json

Each row is a process of its own, because how freed memory is kept (`kernels/heap.py`) is decided for a whole process.
Rows take turns, and each is the best of its rounds: forward, mean squared error, backward and Adam on random images,
in float32 where nothing else is said. Peers are imported, or found in `carry/peers` or the folder that
FIRSTSPIKE_PEERS names; an absent one is left out, and the output says so.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import firstspike
from firstspike import functional
from firstspike.kernels import neuron_cpu
from firstspike.kernels.heap import keep_heap
from firstspike.models import resolve
from firstspike.models.build import next_shape
from firstspike.models.grammar import Conv, Dense
from firstspike.training.optimizer import OptimizerConfig, make_optimizers
from firstspike.training.run import provenance, write_json

sys.path.append(os.environ.get("FIRSTSPIKE_PEERS", str(Path(__file__).parents[1] / "carry" / "peers")))

Step = Callable[[], object]
Forward = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Case:
    """What is trained: a network of the zoo on images or event frames of a shape."""

    architecture: str
    shape: tuple[int, int, int]
    classes: int
    T: int
    batch: int
    frames: bool

    def sample(self) -> tuple[Tensor, Tensor]:
        """A batch as every row gets it: images `[B, C, H, W]` or counts `[T, B, C, H, W]`, and one-hot labels."""
        torch.manual_seed(0)
        lead = (self.T, self.batch) if self.frames else (self.batch,)
        inputs = (
            torch.poisson(torch.full((*lead, *self.shape), 0.3))
            if self.frames
            else torch.randn(*lead, *self.shape)
        )
        return inputs, F.one_hot(torch.randint(self.classes, (self.batch,)), self.classes).float()


CASES = {
    "SCNN5, T = 8, batch 128": Case("SCNN5", (1, 28, 28), 10, 8, 128, False),
    "SCNN7, T = 4, batch 32, 64 x 64": Case("SCNN7", (2, 64, 64), 11, 4, 32, True),
}


def training_step(case: Case, net: nn.Module, output: Forward, optimizer: torch.optim.Optimizer) -> Step:
    """One step of learning; `output` gives `[B, classes]`."""
    inputs, target = case.sample()
    net.train()

    def step() -> None:
        optimizer.zero_grad()
        F.mse_loss(output(inputs), target).backward()
        optimizer.step()

    return step


def ours(case: Case, dtype: torch.dtype | None = None) -> Step:
    encoding = "frames" if case.frames else "direct"
    net = firstspike.build(case.architecture, case.shape, case.T, classes=case.classes, encoding=encoding)
    net.compute_dtype = dtype
    (optimizer,) = make_optimizers(net, OptimizerConfig("adamw", lr=1e-4))
    weights = functional.temporal_weights(case.T)

    def output(inputs: Tensor) -> Tensor:
        channels_last = inputs.movedim(-3, -1).contiguous().movedim(-1, -3)  # as the trainer does
        return functional.temporal_weighting(net(channels_last).spikes.float(), weights)

    return training_step(case, net, output, optimizer)


def kept(case: Case) -> Step:
    keep_heap()
    return ours(case)


def bfloat16(case: Case) -> Step:
    keep_heap()
    return ours(case, torch.bfloat16)


def reference(case: Case) -> Step:
    neuron_cpu.HAS_NUMBA = False
    return ours(case)


def spikingjelly(case: Case, neuron: Callable[[], nn.Module], autocast: bool = False) -> Step:
    """SpikingJelly's multi-step layers around `neuron`, its decoder the mean over time."""
    from spikingjelly.activation_based import functional as sj
    from spikingjelly.activation_based import layer

    modules: list[nn.Module] = []
    shape: tuple[int, ...] = case.shape
    for token in resolve(case.architecture, case.classes):
        if isinstance(token, Conv):
            modules += [
                layer.Conv2d(shape[0], token.channels, token.kernel, padding=token.padding, step_mode="m"),
                neuron(),
            ]
        elif isinstance(token, Dense):
            if len(shape) > 1:
                modules.append(layer.Flatten(step_mode="m"))
            modules += [layer.Linear(torch.Size(shape).numel(), token.neurons, step_mode="m"), neuron()]
        else:
            modules.append(layer.AvgPool2d(token.size, step_mode="m"))
        shape = next_shape(shape, token)
    net = nn.Sequential(*modules)

    def output(inputs: Tensor) -> Tensor:
        sj.reset_net(net)
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            spikes = net(inputs if case.frames else inputs.expand(case.T, *inputs.shape))
        return spikes.float().mean(0)  # type: ignore[no-any-return]

    return training_step(case, net, output, torch.optim.Adam(net.parameters(), lr=1e-4))


def if_nodes(case: Case) -> Step:
    from _peers import if_node

    return spikingjelly(case, if_node)


def amos_loops(case: Case) -> Step:
    from _peers import LoopAMOS

    return spikingjelly(case, LoopAMOS)


def if_nodes_kept(case: Case) -> Step:
    keep_heap()
    return if_nodes(case)


def if_nodes_bfloat16(case: Case) -> Step:
    from _peers import if_node

    keep_heap()
    return spikingjelly(case, if_node, autocast=True)


def snntorch(case: Case) -> Step:
    """snnTorch's idiom: all layers once for each step, the neurons' state kept between steps."""
    import snntorch as snn

    synapses, neurons = nn.ModuleList(), nn.ModuleList()
    shape: tuple[int, ...] = case.shape
    tokens = resolve(case.architecture, case.classes)
    for token in tokens:
        if isinstance(token, Conv):
            synapses.append(nn.Conv2d(shape[0], token.channels, token.kernel, padding=token.padding))
        elif isinstance(token, Dense):
            synapses.append(nn.Linear(torch.Size(shape).numel(), token.neurons))
        else:
            synapses.append(nn.AvgPool2d(token.size))
        neurons.append(nn.Identity() if isinstance(synapses[-1], nn.AvgPool2d) else snn.Leaky(beta=1.0))
        shape = next_shape(shape, token)

    def output(inputs: Tensor) -> Tensor:
        membranes = [isinstance(neuron, snn.Leaky) and neuron.init_leaky() for neuron in neurons]
        total = torch.zeros(())
        for t in range(case.T):
            spikes = inputs[t] if case.frames else inputs
            for index, (synapse, neuron) in enumerate(zip(synapses, neurons, strict=True)):
                spikes = synapse(spikes.flatten(1) if isinstance(synapse, nn.Linear) else spikes)
                if isinstance(neuron, snn.Leaky):
                    spikes, membranes[index] = neuron(spikes, membranes[index])
            total = total + spikes
        return total / case.T

    return training_step(case, synapses, output, torch.optim.Adam(synapses.parameters(), lr=1e-4))


ROWS: dict[str, Callable[[Case], Step]] = {
    "firstspike": kept,
    "firstspike, bfloat16": bfloat16,
    "firstspike, memory not kept": ours,
    "firstspike, without numba": reference,
    "SpikingJelly, IF": if_nodes,
    "SpikingJelly, IF, memory kept": if_nodes_kept,
    "SpikingJelly, IF, memory kept, bfloat16": if_nodes_bfloat16,
    "SpikingJelly, AMOS loop": amos_loops,
    "snnTorch, Leaky": snntorch,
}


def measure(case: Case, make: Callable[[Case], Step], seconds: float) -> dict[str, float]:
    """Milliseconds of a step, after two that are not counted."""
    step = make(case)
    step()
    step()
    spans, begin = [], time.perf_counter()
    while time.perf_counter() - begin < seconds or len(spans) < 5:
        before = time.perf_counter()
        step()
        spans.append(1e3 * (time.perf_counter() - before))
    spans.sort()
    median = statistics.median(spans)
    return {
        "ms": round(median, 2),
        "ms_p10": round(spans[len(spans) // 10], 2),
        "ms_p90": round(spans[-1 - len(spans) // 10], 2),
        "images_per_s": round(1e3 * case.batch / median, 1),
        "steps": len(spans),
    }


def in_own_process(case: str, name: str, seconds: float) -> dict[str, float]:
    """`measure` in a fresh process; what it has to say instead, as an error."""
    command = [sys.executable, __file__, "--case", case, "--row", name, "--seconds", str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def rounds(case: str, seconds: float, count: int) -> list[dict[str, object]]:
    """All rows of a case, in turn `count` times, the fastest round of each: what disturbs a machine only slows it."""
    found: dict[str, dict[str, float]] = {}
    failed: dict[str, str] = {}
    for _ in range(count):
        for name in ROWS.keys() - failed.keys():
            try:
                result = in_own_process(case, name, seconds)
            except RuntimeError as error:
                failed[name] = str(error)
                print(f"{case}: {name} left out: {error}", flush=True)
                continue
            if name not in found or result["ms"] < found[name]["ms"]:
                found[name] = result
    own = found["firstspike"]["ms"]
    rows: list[dict[str, object]] = []
    for name in ROWS:
        if name in found:
            row = {"name": name, **found[name], "times_ours": round(found[name]["ms"] / own, 2)}
            rows.append(row)
            print(f"{case}: {name:<40} {row['ms']:9.1f} ms {row['times_ours']:6.2f}", flush=True)
        else:
            rows.append({"name": name, "error": failed[name]})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0, help="for each row in each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--case", choices=CASES, help="only this one")
    parser.add_argument(
        "--row", choices=ROWS, help="measure this row here, as every row is in its own process"
    )
    parser.add_argument("--out", type=Path, help="where to write the result (JSON)")
    arguments = parser.parse_args()
    if arguments.row:
        print(json.dumps(measure(CASES[arguments.case], ROWS[arguments.row], arguments.seconds)))
        return
    record: dict[str, object] = {**provenance(), "threads": torch.get_num_threads()}
    for case in [arguments.case] if arguments.case else CASES:
        record[case] = rounds(case, arguments.seconds, arguments.rounds)
        if arguments.out:
            write_json(arguments.out, record)


if __name__ == "__main__":
    main()
