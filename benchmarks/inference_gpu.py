"""Inference of SCNN6 on the GPU: all T steps against early stopping, where answered samples leave the batch.

    PYTHONPATH=. python3 benchmarks/inference_gpu.py [--model FOLDER:DATASET] [--limit SECONDS] [--out FILE.json]

Without a trained model the network is a fresh one on noise, of which those samples are taken that answer when they
should: after 2 steps on average, and after 1.15 as a trained SCNN6 does on CIFAR10. What early stopping saves
depends on nothing else. With `--model` there is first a trained network, on its test set. The file is written after
every row; past `--limit` the rows that are left are named in it, and not measured.
"""

import argparse
import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from _gpu import ceilings, row
from _kernels import inference_rows
from _record import Record
from torch import Tensor

import firstspike
from firstspike import data
from firstspike.errors import FirstspikeError
from firstspike.functional import spike_times
from firstspike.inference import Batched, batched
from firstspike.models import Network, load
from firstspike.nn import Spiking

BATCHES = (128, 512, 1024)
SHARES = {"fresh 2.0": (0.35, 0.40, 0.17, 0.06, 0.02), "fresh 1.15": (0.913, 0.039, 0.032, 0.016)}
"""The share of the samples that answer at each step; the second as a trained SCNN6's on CIFAR10."""
THRESHOLD = 0.5
"""Of all neurons of the fresh network: with 1, nothing reaches its output at the first step."""

Step = Callable[[], object]
Way = Callable[[Tensor], Tensor]


@torch.no_grad()
def all_steps(net: Network, images: Tensor) -> Tensor:
    """The step `[B]` (from 0) of each sample's first output spike, T for silence; layer by layer."""
    return net(images).spike_times.amin(1)


@torch.no_grad()
def step_by_step(net: Network, images: Tensor) -> Tensor:
    """The same one step after the other, every sample to the end."""
    state, spikes = net.start(images), []
    for _ in range(net.T):
        step, state = net.step(None, state)
        spikes.append(step.spikes)
    return spike_times(torch.stack(spikes)).amin(1)


def early(ready: Batched, images: Tensor) -> Tensor:
    """The same, where answered samples leave the batch; each layer's spikes are counted on the way."""
    return spike_times(ready.run(images).spikes).amin(1)


def answers(ready: Batched, images: Tensor) -> Tensor:
    """All that `infer` gives: input checked, labels, ties, membranes, spikes; its steps counted from 0."""
    answer = ready(images)
    return torch.where(answer.silent, ready.net.T, answer.steps - 1).to(torch.uint8)


def ways(net: Network, graphs: bool) -> dict[str, Way]:
    """What is compared, by name, for the same network."""
    batched.GRAPH_UP_TO = 2**31 if graphs else 0
    ready = Batched(net)
    stopping = {"early stopping": partial(early, ready), "early stopping, answers": partial(answers, ready)}
    if graphs:
        return {f"{name}, graphs": way for name, way in stopping.items()}
    plain = {"all steps": partial(all_steps, ready.net), "step by step": partial(step_by_step, ready.net)}
    return plain | stopping


def fresh(T: int) -> Network:
    """A network without training through which a bright image passes at the first step."""
    net = firstspike.build("SCNN6", (3, 32, 32), T=T).eval().cuda()
    net.compute_dtype = torch.bfloat16
    for layer in net.layers:
        if isinstance(layer, Spiking):
            layer.neuron.threshold = THRESHOLD
    return net


def answering(net: Network, shares: Sequence[float], count: int) -> Tensor:
    """Images of which such shares answer at the first step, the second and so on; the darker, the later."""
    images = noise(1024)
    images *= torch.logspace(-1.5, 0, len(images), device=images.device).view(-1, 1, 1, 1)
    ready = batched.ready(net)
    first = torch.cat([all_steps(ready, part) for part in images.split(128)])
    parts = []
    for step, share in enumerate(shares):
        found = (first == step).nonzero().flatten()
        if not len(found):
            raise FirstspikeError(
                f"No sample of the fresh network answers at step {step + 1}: change THRESHOLD."
            )
        wanted = round(share * count) if step else count - sum(round(other * count) for other in shares[1:])
        parts.append(found[torch.randint(len(found), (wanted,), device=found.device)])
    chosen = torch.cat(parts)
    return images[chosen[torch.randperm(count, device=chosen.device)]]


def trained(model: str) -> tuple[Network, Tensor]:
    """A trained network and the images of its test set, from FOLDER:DATASET."""
    folder, _, dataset = model.rpartition(":")
    net = load(folder).eval().cuda()
    net.compute_dtype = torch.bfloat16
    return net, data.load(dataset, "test").images.cuda().float() / 255


def noise(count: int) -> Tensor:
    return torch.rand(count, 3, 32, 32, device="cuda").to(memory_format=torch.channels_last)


def mean(first: Tensor, T: int) -> float:
    """Mean steps until the answer, counted from 1."""
    return (first.float() + 1).clamp(max=T).mean().item()


def measured(name: str, net: Network, images: Sequence[Tensor]) -> Iterator[dict[str, Any]]:
    """All ways over the same batches in turn; they must agree on every sample."""
    batch = len(images[0])
    expected = torch.zeros(0)
    for graphs in (False, True):
        for kind, way in ways(net, graphs).items():
            if kind == "all steps":
                expected = torch.cat([way(part) for part in images])
            for _ in range(6):  # graphs of later rounds follow those of earlier ones
                found = torch.cat([way(part) for part in images])
            facts = {
                "T": net.T,
                "mean_steps": round(mean(expected, net.T), 3),
                "histogram": torch.bincount(expected.long(), minlength=net.T + 1).tolist(),
                "agree": round((found == expected).float().mean().item(), 5),
            }
            make = partial(in_turn, way, images)
            yield row(f"{name}, {kind}, batch {batch}", make, batch, **facts)


def trained_rows(model: str, batch: int) -> Iterator[dict[str, Any]]:
    """A trained network on its test set, without the last batch where that is smaller."""
    net, images = trained(model)
    yield from measured("trained", net, [part for part in images.split(batch) if len(part) == batch])


def fresh_rows(name: str, T: int, batch: int) -> Iterator[dict[str, Any]]:
    """A network without training, on images that answer when they should."""
    net = fresh(T)
    yield from measured(name, net, [answering(net, SHARES[name], batch) for _ in range(4)])


def in_turn(way: Way, images: Sequence[Tensor]) -> Step:
    """One batch a call, round and round."""
    batches = itertools.cycle(images)
    return lambda: way(next(batches))


def ratios(rows: list[dict[str, Any]]) -> dict[str, float]:
    """How many times as fast as all steps each way is, at the same batch size."""
    rates = {one["name"]: one["images_per_s"] for one in rows if "images_per_s" in one}
    found = {}
    for name, rate in rates.items():
        network, *_, batch = name.split(", ")
        whole = rates.get(f"{network}, all steps, {batch}")
        if whole and ", all steps, " not in name:
            found[name] = round(rate / whole, 3)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", action="append", default=[], help="FOLDER:DATASET, a trained network")
    parser.add_argument("--T", type=int, default=8, help="of the networks without training")
    parser.add_argument("--limit", type=float, help="seconds after which no other row is begun")
    parser.add_argument("--out", help="where to write the result (JSON)")
    parser.add_argument("--commit", help="the commit measured, where there is no git")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = False  # the batch shrinks to sizes never seen before
    record, limits = Record(arguments.out, arguments.commit, arguments.limit), ceilings()
    record.put(ceilings=limits)
    record.add_all("kernels", inference_rows(limits["copy_tb_s"]))
    for batch in BATCHES:
        for model in arguments.model:
            record.add_all("rows", trained_rows(model, batch))
        for name in SHARES:
            record.add_all("rows", fresh_rows(name, arguments.T, batch))
    found = ratios(record.content.get("rows", []))
    record.put(over_all_steps=found)
    for name, ratio in found.items():
        print(f"{name}: {ratio:.2f} times as fast as all steps")


if __name__ == "__main__":
    main()
