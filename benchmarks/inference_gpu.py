"""Inference of SCNN6 on the GPU: all T steps against early stopping, where answered samples leave the batch.

    PYTHONPATH=. python3 benchmarks/inference_gpu.py [--model runs/x/model] [--out results/benchmarks/inference.json]

Without a trained model the network is a fresh one whose output threshold is set so that samples answer after
`--mean-steps` steps on average: what early stopping saves depends on nothing else.
"""

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from _gpu import row, write
from torch import Tensor

import firstspike
from firstspike.models import Network, load

BATCHES = (128, 512, 1024)

Step = Callable[[], object]


@torch.no_grad()
def all_steps(net: Network, images: Tensor) -> Tensor:
    """The step `[B]` (from 0) of each sample's first output spike, T for silence; layer by layer."""
    return net(images).spike_times.amin(1)


@torch.no_grad()
def step_by_step(net: Network, images: Tensor) -> Tensor:
    """The same one step after the other, every sample to the end."""
    state = net.start(images)
    first = torch.full((len(images),), net.T, device=images.device)
    for t in range(net.T):
        step, state = net.step(None, state)
        first = torch.where((step.spikes > 0).any(1) & (first == net.T), t, first)
    return first


@torch.no_grad()
def early(net: Network, images: Tensor, leave_at: float = 0.25) -> Tensor:
    """The same, where answered samples leave the batch once they make up the share `leave_at` of it.

    Leaving copies the state of those who stay, and asking who is done waits for the device: both pay only
    when enough of the batch is gone.
    """
    state = net.start(images)
    first = torch.full((len(images),), net.T, device=images.device)
    here = torch.arange(len(images), device=images.device)
    done = torch.zeros(len(images), dtype=torch.bool, device=images.device)
    for t in range(net.T):
        step, state = net.step(None, state)
        fired = (step.spikes > 0).any(1) & ~done
        first[here[fired]] = t
        done = done | fired
        gone = int(done.sum())
        if gone == len(here):
            break
        if gone >= leave_at * len(here):
            stay = (~done).nonzero().flatten()
            state, here, done = state.keep(stay), here[stay], done[stay]
    return first


def network(model: str | None, T: int, mean_steps: float, images: Tensor) -> Network:
    """A trained network, or a fresh one that answers after `mean_steps` on average; fused, in bfloat16."""
    net = load(model) if model else firstspike.build("SCNN6", (3, 32, 32), T=T)
    net = net.eval().fuse().cuda().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    net.compute_dtype = torch.bfloat16
    if not model:
        set_speed(net, images, mean_steps)
    return net


@torch.no_grad()
def set_speed(net: Network, images: Tensor, mean_steps: float) -> None:
    """Search the output threshold with which samples answer after `mean_steps` steps (counted from 1)."""
    low, high = 1e-3, 100.0
    for _ in range(30):
        net.readout.neuron.threshold = middle = (low * high) ** 0.5
        steps = (all_steps(net, images).float() + 1).clamp(max=net.T).mean().item()
        low, high = (low, middle) if steps > mean_steps else (middle, high)


def measured(net: Network, batch: int) -> list[dict[str, Any]]:
    """The three ways at one batch size; they must agree on every sample."""
    images = torch.rand(batch, 3, 32, 32, device="cuda").to(memory_format=torch.channels_last)
    expected = all_steps(net, images)
    rows = []
    for name, way in (("all steps", all_steps), ("step by step", step_by_step), ("early stopping", early)):
        agree = (way(net, images) == expected).float().mean().item()
        steps = (expected.float() + 1).clamp(max=net.T).mean().item()
        make: Callable[[], Step] = partial(partial, way, net, images)
        facts = {"T": net.T, "mean_steps": round(steps, 3), "agree": round(agree, 5)}
        rows.append(row(f"{name}, batch {batch}", make, batch, **facts))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", help="folder of a trained SCNN6")
    parser.add_argument("--T", type=int, default=8)
    parser.add_argument("--mean-steps", type=float, default=2.0, help="for a network without training")
    parser.add_argument("--out", help="where to write the result (JSON)")
    parser.add_argument("--commit", help="the commit measured, where there is no git")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = False  # the batch shrinks to sizes never seen before
    images = torch.rand(256, 3, 32, 32, device="cuda").to(memory_format=torch.channels_last)
    net = network(arguments.model, arguments.T, arguments.mean_steps, images)
    rows = [one for batch in BATCHES for one in measured(net, batch)]
    rates = {one["name"]: one["images_per_s"] for one in rows if "images_per_s" in one}
    speedup = {
        f"batch {batch}": round(
            rates[f"early stopping, batch {batch}"] / rates[f"all steps, batch {batch}"], 3
        )
        for batch in BATCHES
        if {f"early stopping, batch {batch}", f"all steps, batch {batch}"} <= rates.keys()
    }
    write(arguments.out, arguments.commit, rows=rows, early_stopping_over_all_steps=speedup)
    for batch, ratio in speedup.items():
        print(f"early stopping over all {net.T} steps, {batch}: {ratio:.2f}")


if __name__ == "__main__":
    main()
