"""Which fall of the output's threshold suits a trained network: read off its membranes.

The threshold loss trains membranes, and the fall only says in which order and when they answer. So it can be chosen
when training is over: a network that is sure of itself wants another one than a network that never is, and one of
many classes wants more steps to tell them apart by than it was trained for.
"""

import copy
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import product

import torch
from torch import Tensor

from firstspike.data import Batch, Batches, Dataset
from firstspike.functional.decoding import predict
from firstspike.measure.evaluate import batches_of
from firstspike.models import Network
from firstspike.training.recipe import Recipe

SAMPLES = 10_000
"""At most so many samples are looked at."""
FIRST = tuple(0.25 * number for number in range(1, 17))
LAST = tuple(0.25 * number for number in range(-8, 7))
"""Where the threshold may begin and end, in V."""
AS_GOOD = 0.05
"""Points of accuracy within which fewer steps decide."""


@dataclass(frozen=True)
class Fall:
    """A fall of the output's threshold, and what it does on the samples it was chosen on."""

    T: int
    """Steps over which it falls."""
    fall: float
    lift: float
    strict: float
    """Accuracy in percent, ties going to the lowest class."""
    steps: float
    """Mean steps until the answer."""
    chosen_on: str = ""


def choose_fall(net: Network, recipe: Recipe, train: Dataset, held_out: Dataset | None) -> Fall:
    """The best fall for `net`: on the samples held out, or on training samples as no epoch has augmented them."""
    device = net.input_mean.device
    if held_out is not None:
        batches, where = batches_of(held_out, 256, device), held_out.split
    else:
        plain = replace(recipe.augment, mixup=0.0, cutmix=0.0)
        size = min(256, len(train))
        batches = Batches(train, size, seed=recipe.seed, augment=plain, device=device).epoch(recipe.epochs)
        where = f"{train.split}, augmented"
    membrane, labels = look(net, batches, max(net.T, recipe.network.answer_steps))
    found = best_fall(membrane, labels, net, recipe.network.mean_steps)
    return replace(found, chosen_on=f"{where}: {len(labels):,} samples")


@torch.no_grad()
def look(net: Network, batches: Iterable[Batch], T: int) -> tuple[Tensor, Tensor]:
    """The output's membranes `[T, N, C]` over T steps, and the labels `[N]`, of the first `SAMPLES` samples."""
    longer = copy.deepcopy(net)
    longer.set_fall(net.config.fall, net.config.lift, T)
    membranes, labels, count = [], [], 0
    for batch in batches:
        membranes.append(longer(batch.images).membrane)
        labels.append(batch.labels)
        count += len(batch.labels)
        if count >= SAMPLES:
            break
    return torch.cat(membranes, 1), torch.cat(labels)


def best_fall(membrane: Tensor, labels: Tensor, net: Network, mean_steps: float = 0.0) -> Fall:
    """The best of all falls over the steps of `net` or more, and of the one that it has.

    Args:
        membrane: `[T, N, C]`, of at least as many steps as `net` has.
        mean_steps: most steps until the answer, on average; 0 sets no limit. Where no fall is so fast, the fastest.
    """
    threshold = net.config.neuron.threshold
    found = [try_fall(membrane[: net.T], labels, threshold, net.config.fall, net.config.lift)]
    for T in range(net.T, len(membrane) + 1):
        for first, last in product(FIRST, LAST):
            if last <= first:
                fall, lift = (first - last) / 2, (first + last) / 2 - 1
                found.append(try_fall(membrane[:T], labels, threshold, fall, lift))
    limit = max(mean_steps, min(fall.steps for fall in found)) if mean_steps else float("inf")
    allowed = [fall for fall in found if fall.steps <= limit]
    enough = max(fall.strict for fall in allowed) - AS_GOOD
    return min((fall for fall in allowed if fall.strict >= enough), key=lambda fall: fall.steps)


def try_fall(membrane: Tensor, labels: Tensor, threshold: float, fall: float, lift: float) -> Fall:
    """What a fall does to membranes `[T, N, C]` of samples with `labels` `[N]`."""
    T, device = len(membrane), membrane.device
    levels = threshold * (1 + lift + torch.linspace(fall, -fall, T, device=device))
    step = torch.arange(T, dtype=torch.uint8, device=device)[:, None, None]
    times = torch.where(membrane >= levels[:, None, None], step, T).amin(0)
    answer = predict(times, membrane)
    strict = 100 * float((answer.label == labels).float().mean())
    return Fall(T, fall, lift, strict, float(answer.steps.float().mean()))
