"""Training step of SCNN6: ours, other frameworks, and the convolutions alone, in one run.

    PYTHONPATH=. python3 benchmarks/train_step.py [--quick] [--limit SECONDS] [--out results/train_step.json]

`--quick` measures T = 8, batch 128 only; else T and the batch are swept too. Peers are measured where they
are installed, or found in `carry/peers`. What matters most comes first, and the file is written after every row;
past `--limit` the rows that are left are named in it, and not measured.
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import _floor
import _peers
import torch
import torch.nn.functional as F
from _epoch import epoch_rows
from _gpu import captured, ceilings, row
from _kernels import kernel_rows, variant_rows
from _record import Record
from _watch import Watch

import firstspike
from firstspike import functional
from firstspike.training.optimizer import OptimizerConfig, make_optimizers

T, BATCH = 8, 128
STEPS = (2, 4, 8, 16, 32, 64)
BATCHES = (32, 64, 128, 256, 512, 1024)
PEER_SIZES = ((4, BATCH), (16, BATCH), (64, BATCH), (T, 32), (T, 512))
"""T and batch at which SpikingJelly is measured in the sweeps."""

FLOOR = f"floor, {T - 1} frames"
PLAIN_FLOOR = f"floor, {T - 1} frames, plain layout"
OURS = "firstspike, CUDA graph"

Step = Callable[[], object]


LONG, SHORT = 1.0, 0.15
"""Seconds to repeat a step of the rows at T = 8, batch 128, long enough for clocks to settle; and of the sweeps."""


@dataclass(frozen=True)
class Row:
    """A row to be measured."""

    name: str
    make: Callable[[], Step]
    T: int = T
    batch: int = BATCH
    seconds: float = LONG

    def measure(self, watch: Watch) -> dict[str, Any]:
        return row(self.name, self.make, self.batch, self.seconds, watch, T=self.T)


def ours(
    T: int,
    batch: int,
    optimise: bool = True,
    graph: bool = False,
    recompute: bool = False,
    defer: bool = True,
) -> Step:
    """Our training step: forward, decoder, mean squared error, backward, Adam as training has it.

    Args:
        graph: replay the step as one CUDA graph, as training does.
        defer: whether the optimiser takes the gradient of large normalised weights before it is that of the weight.
    """
    with torch.device("cuda"):
        net = firstspike.build("SCNN6", input_shape=(3, 32, 32), T=T)
    net = net.to(memory_format=torch.channels_last).train()  # type: ignore[call-overload]
    net.compute_dtype, net.recompute = torch.bfloat16, recompute
    (optimizer,) = make_optimizers(net, OptimizerConfig("adamw", lr=1e-4), alone=defer)
    for group in optimizer.param_groups:
        group["capturable"] = graph
    images = torch.randn(batch, 3, 32, 32, device="cuda").to(memory_format=torch.channels_last)
    target = F.one_hot(torch.randint(10, (batch,), device="cuda"), 10).float()
    weights = functional.temporal_weights(T).cuda()

    def step() -> None:
        optimizer.zero_grad()
        logits = functional.temporal_weighting(net(images).spikes.float(), weights)
        F.mse_loss(logits, target).backward()
        if optimise:
            optimizer.step()

    return captured(step) if graph else step


def where_time_goes(steps: int = 3) -> Iterator[dict[str, Any]]:
    """The kernels of our step by their share of GPU time."""
    step = ours(T, BATCH)
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
    kernels = [
        {
            "kernel": event.key[:120],
            "ms": round(event.self_device_time_total / steps / 1e3, 4),
            "calls": event.count / steps,
        }
        for event in profile.key_averages()
        if event.self_device_time_total
    ]
    print("\nwhere the time of a step goes (ms, calls, kernel)")
    for entry in sorted(kernels, key=lambda kernel: -kernel["ms"])[:30]:
        print(f"{entry['ms']:8.3f} {entry['calls']:5.0f}  {entry['kernel'][:90]}")
        yield entry


def own_rows() -> list[Row]:
    """The floors and our step at T = 8, batch 128."""
    step = partial(ours, T, BATCH, graph=True)
    return [
        Row(FLOOR, partial(_floor.floor, T - 1, BATCH)),
        Row(OURS, step),
        Row("firstspike", partial(ours, T, BATCH)),
        Row(PLAIN_FLOOR, partial(_floor.floor, T - 1, BATCH, plain=True)),
        Row(f"{OURS}, gradients not deferred", partial(step, defer=False)),
        Row(f"{OURS}, without optimiser", partial(step, optimise=False, defer=False)),
        Row(f"{OURS}, recompute", partial(step, recompute=True)),
        Row(f"{OURS}, recompute, T = 32", partial(ours, 32, BATCH, graph=True, recompute=True), 32),
    ]


def peer_rows() -> list[Row]:
    """SpikingJelly and snnTorch at T = 8, batch 128, where they are present."""
    rows: list[Row] = []
    network = partial(_peers.spikingjelly, T, BATCH)
    if reason := _peers.missing("spikingjelly.activation_based"):
        print(f"SpikingJelly left out: {reason}")
    else:
        rows += [
            Row("SpikingJelly, IF", partial(network, False, _peers.if_node)),
            Row("SpikingJelly, IF, channels-last", partial(network, True, _peers.if_node)),
            Row("SpikingJelly, AMOS loop", partial(network, True, _peers.LoopAMOS)),
        ]
    if reason := _peers.missing("snntorch"):
        print(f"snnTorch left out: {reason}")
    else:
        rows.append(Row("snnTorch, Leaky", partial(_peers.snntorch, T, BATCH)))
    return rows


def compiled_rows() -> list[Row]:
    """The peer that takes 40 s to compile."""
    if _peers.missing("spikingjelly.activation_based"):
        return []
    network = partial(_peers.spikingjelly, T, BATCH, True, _peers.compiled_loop)
    return [Row("SpikingJelly, AMOS loop, compiled", network)]


def sweep_rows(peers: bool) -> list[Row]:
    """Ours, the floor and at some sizes SpikingJelly's IF, over T and over the batch."""
    rows = []
    sweep = [(steps, BATCH) for steps in STEPS if steps != T] + [
        (T, size) for size in BATCHES if size != BATCH
    ]
    peers = peers and not _peers.missing("spikingjelly.activation_based")
    for steps, size in sweep:
        at = f"T = {steps}, batch {size}"
        floor = partial(_floor.floor, steps - 1, size)
        rows.append(Row(f"floor, {at}", floor, steps, size, SHORT))
        rows.append(Row(f"{OURS}, {at}", partial(ours, steps, size, graph=True), steps, size, SHORT))
        if peers and (steps, size) in PEER_SIZES:
            network = partial(_peers.spikingjelly, steps, size, True, _peers.if_node)
            rows.append(Row(f"SpikingJelly, IF, channels-last, {at}", network, steps, size, SHORT))
    return rows


def ratios(rows: list[dict[str, Any]], floor: str) -> dict[str, float]:
    """The images/s of every row at T = 8, batch 128, over a floor's; of a sweep's rows, over their own floor's."""
    rates = {one["name"]: one["images_per_s"] for one in rows if "images_per_s" in one}
    found = {}
    for one in rows:
        name, here = one["name"], (one.get("T"), one.get("batch"))
        below = floor if here == (T, BATCH) else f"floor, T = {here[0]}, batch {here[1]}"
        if name in rates and below in rates:
            found[name] = round(rates[name] / rates[below], 4)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="T = 8, batch 128 only")
    parser.add_argument("--no-peers", action="store_true", help="leave out other frameworks")
    parser.add_argument("--no-epochs", action="store_true", help="leave out the epochs of small networks")
    parser.add_argument("--limit", type=float, help="seconds after which no other row is begun")
    parser.add_argument("--out", help="where to write the result (JSON)")
    parser.add_argument("--commit", help="the commit measured, where there is no git")
    arguments = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    record, watch = Record(arguments.out, arguments.commit, arguments.limit), Watch()
    limits = ceilings()
    arithmetic = limits["bf16_tflop_s"] * 1e12 / _floor.operations(T - 1)
    print(f"copy {limits['copy_tb_s']:.2f} TB/s, bf16 product {limits['bf16_tflop_s']:.0f} TFLOP/s")
    record.put(ceilings=limits, arithmetic_limit_images_per_s=round(arithmetic))

    def measure(rows: list[Row]) -> None:
        for planned in rows:
            record.add("rows", planned.name, partial(planned.measure, watch))
            done = record.content.get("rows", [])
            record.put(ratio_to_floor=ratios(done, FLOOR), ratio_to_plain_floor=ratios(done, PLAIN_FLOOR))

    peers = not arguments.no_peers
    measure(own_rows() + (peer_rows() if peers else []))
    if not arguments.quick:
        measure(sweep_rows(peers))
    record.add_all("kernels", kernel_rows(limits["copy_tb_s"]))
    record.add_all("profile", where_time_goes())
    measure(compiled_rows() if peers else [])
    if not arguments.no_epochs:
        record.add_all("epochs", epoch_rows())
    record.add_all("variants", variant_rows())
    watch.stop()
    print(f"\narithmetic limit {arithmetic:.0f} images/s; over the floor, channels-last and plain:")
    plain = record.content["ratio_to_plain_floor"]
    for name, ratio in record.content["ratio_to_floor"].items():
        print(f"{name:<48} {ratio:6.3f} {plain.get(name, 0):6.3f}")


if __name__ == "__main__":
    main()
