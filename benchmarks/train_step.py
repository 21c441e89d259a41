"""Training step of SCNN6: ours, other frameworks, and the convolutions alone, in one run.

    PYTHONPATH=. python3 benchmarks/train_step.py [--quick] [--out results/train_step.json]

`--quick` measures T = 8, batch 128 only; else T and the batch are swept too. Peers are measured where they
are installed, or found in `carry/peers`.
"""

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import _floor
import _peers
import torch
import torch.nn.functional as F
from _epoch import epoch_rows
from _gpu import captured, ceilings, row, write
from _kernels import kernel_rows, variant_rows

import firstspike
from firstspike import functional
from firstspike.nn import chain
from firstspike.training.optimizer import OptimizerConfig, make_optimizers

T, BATCH = 8, 128
STEPS = (2, 4, 8, 16, 32, 64)
PART = chain.PART_BYTES
BATCHES = (32, 64, 128, 256, 512, 1024)

Step = Callable[[], object]


def ours(T: int, batch: int, optimise: bool = True, graph: bool = False, recompute: int = 0) -> Step:
    """Our training step: forward, decoder, mean squared error, backward, Adam as training has it.

    Args:
        recompute: bytes of a layer's frames to work on at a time, and again in backward; 0 keeps all frames.
    """
    net = firstspike.build("SCNN6", input_shape=(3, 32, 32), T=T).cuda()
    net = net.to(memory_format=torch.channels_last).train()  # type: ignore[call-overload]
    net.compute_dtype, net.recompute = torch.bfloat16, recompute > 0
    chain.PART_BYTES = recompute or chain.PART_BYTES
    (optimizer,) = make_optimizers(net, OptimizerConfig("adamw", lr=1e-4))
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


def where_time_goes(step: Step, steps: int = 3) -> list[dict[str, Any]]:
    """The kernels of a step by their share of GPU time."""
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
    return sorted(kernels, key=lambda kernel: -kernel["ms"])[:30]


def main_rows(peers: bool) -> list[dict[str, Any]]:
    """All contenders at T = 8, batch 128."""
    rows = [
        row(f"floor, {frames} frames", partial(_floor.floor, frames, BATCH), BATCH, T=T)
        for frames in (T - 1, T)
    ]
    rows += [
        row("firstspike", partial(ours, T, BATCH), BATCH, T=T),
        row("firstspike, CUDA graph", partial(ours, T, BATCH, graph=True), BATCH, T=T),
        row("firstspike, without optimiser", partial(ours, T, BATCH, optimise=False), BATCH, T=T),
        row("firstspike, recompute", partial(ours, T, BATCH, recompute=PART), BATCH, T=T),
        row(
            "firstspike, recompute, CUDA graph",
            partial(ours, T, BATCH, recompute=PART, graph=True),
            BATCH,
            T=T,
        ),
        row("firstspike, recompute, half the part", partial(ours, T, BATCH, recompute=PART // 2), BATCH, T=T),
        row("firstspike, recompute, T = 32", partial(ours, 32, BATCH, recompute=PART), BATCH, T=32),
    ]
    return rows + (peer_rows() if peers else [])


def peer_rows() -> list[dict[str, Any]]:
    """SpikingJelly and snnTorch at T = 8, batch 128, where they are present."""
    rows: list[dict[str, Any]] = []
    if reason := _peers.missing("spikingjelly.activation_based"):
        print(f"SpikingJelly left out: {reason}")
    else:
        network = partial(_peers.spikingjelly, T, BATCH)
        rows += [
            row("SpikingJelly, IF", partial(network, False, _peers.if_node), BATCH, T=T),
            row("SpikingJelly, IF, channels-last", partial(network, True, _peers.if_node), BATCH, T=T),
            row("SpikingJelly, AMOS loop", partial(network, True, _peers.LoopAMOS), BATCH, T=T),
            row(
                "SpikingJelly, AMOS loop, compiled", partial(network, True, _peers.compiled_loop), BATCH, T=T
            ),
        ]
    if reason := _peers.missing("snntorch"):
        print(f"snnTorch left out: {reason}")
    else:
        rows.append(row("snnTorch, Leaky", partial(_peers.snntorch, T, BATCH), BATCH, T=T))
    return rows


def sweep_rows(peers: bool) -> list[dict[str, Any]]:
    """Ours, the floor and SpikingJelly's IF over T and over the batch."""
    rows = []
    sweep = [(steps, BATCH) for steps in STEPS if steps != T] + [
        (T, size) for size in BATCHES if size != BATCH
    ]
    for steps, size in sweep:
        at = f"T = {steps}, batch {size}"
        rows.append(row(f"floor, {at}", partial(_floor.floor, steps - 1, size), size, T=steps))
        rows.append(row(f"firstspike, {at}", partial(ours, steps, size), size, T=steps))
        if peers and not _peers.missing("spikingjelly.activation_based"):
            network = partial(_peers.spikingjelly, steps, size, True, _peers.if_node)
            rows.append(row(f"SpikingJelly, IF, {at}", network, size, T=steps))
    return rows


def ratios(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Every row's images/s over the floor's, T - 1 frames."""
    rates = {row["name"]: row["images_per_s"] for row in rows if "images_per_s" in row}
    floor = rates.get(f"floor, {T - 1} frames")
    return {name: round(rate / floor, 4) for name, rate in rates.items()} if floor else {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="T = 8, batch 128 only")
    parser.add_argument("--no-peers", action="store_true", help="leave out other frameworks")
    parser.add_argument("--no-epochs", action="store_true", help="leave out the epochs of small networks")
    parser.add_argument("--out", help="where to write the result (JSON)")
    parser.add_argument("--commit", help="the commit measured, where there is no git")
    arguments = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    limits = ceilings()
    print(f"copy {limits['copy_tb_s']:.2f} TB/s, bf16 product {limits['bf16_tflop_s']:.0f} TFLOP/s")
    single = kernel_rows(limits["copy_tb_s"])
    rows = main_rows(peers=not arguments.no_peers)
    compared = ratios(rows)
    profile = where_time_goes(ours(T, BATCH))
    variants = variant_rows()
    epochs = [] if arguments.no_epochs else epoch_rows()
    if not arguments.quick:
        rows += sweep_rows(peers=not arguments.no_peers)
    arithmetic = limits["bf16_tflop_s"] * 1e12 / _floor.operations(T - 1)
    write(
        arguments.out,
        arguments.commit,
        ceilings=limits,
        arithmetic_limit_images_per_s=round(arithmetic),
        rows=rows,
        ratio_to_floor=compared,
        kernels=single,
        variants=variants,
        epochs=epochs,
        profile=profile,
    )
    print("\nwhere the time of a step goes (ms, calls, kernel)")
    for entry in profile[:16]:
        print(f"{entry['ms']:8.3f} {entry['calls']:5.0f}  {entry['kernel'][:90]}")
    print(f"\narithmetic limit {arithmetic:.0f} images/s; over the floor with {T - 1} frames:")
    for name, ratio in compared.items():
        print(f"{name:<44} {ratio:6.3f}")


if __name__ == "__main__":
    main()
