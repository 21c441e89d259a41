"""All that changes while a network trains, in one place that can be saved and restored."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from firstspike.data import Batch, Batches, Dataset, hold_out
from firstspike.data.steps import ROLLED_PARTS
from firstspike.errors import FirstspikeError
from firstspike.functional.decoding import mean_membrane
from firstspike.kernels.heap import keep_heap
from firstspike.models import Network, Twin, as_unit, build_from, start_from
from firstspike.nn import Output, Readout
from firstspike.training.capture import StaticStep, can_capture
from firstspike.training.distributed import Place
from firstspike.training.find import find_model
from firstspike.training.loss import logits_loss, rate_loss, spiking_loss
from firstspike.training.meter import Meter
from firstspike.training.optimizer import MovingAverage, make_optimizers, set_rate
from firstspike.training.recipe import Recipe


class Trainer:
    """A network being trained by a recipe: data, network, optimisers, moving average and position.

    Args:
        model: a network of the user's own to train instead of the recipe's; any module that takes a batch's
            images and gives an `Output` (or logits, for `unit="relu"`).
    """

    def __init__(self, recipe: Recipe, place: Place, model: nn.Module | None = None) -> None:
        self.recipe, self.place = recipe, place
        if not self.on_cuda:
            keep_heap()
        torch.manual_seed(recipe.seed)
        self.train_set, self.validation_set = training_sets(recipe)
        # Read now, so that a missing one is found before the training and not after it.
        self.test_set = test_set(recipe) if place.leads else None
        self.config = recipe.network_config(self.train_set)
        self.model = (model or make_model(recipe, self.train_set)).to(place.device).train()
        self.network = self.model.net if isinstance(self.model, Twin) else self.model
        fast = recipe.precision == "bfloat16" or (recipe.precision == "auto" and place.device.type == "cuda")
        self.compute_dtype = torch.bfloat16 if fast else None
        if isinstance(self.network, Network):
            self.network.compute_dtype = self.compute_dtype
        self.wrapped = place.wrap(self.model)
        self.optimizers = make_optimizers(self.model, recipe.optimizer, alone=place.world == 1)
        self.average = MovingAverage(self.model, recipe.optimizer.ema) if recipe.optimizer.ema else None
        self.teacher = load_teacher(recipe, place, self.compute_dtype)
        self.batches = Batches(
            self.train_set,
            recipe.batch_size,
            seed=recipe.seed,
            augment=recipe.augment,
            device=place.device,
            rank=place.rank,
            world=place.world,
        )
        self.epoch = self.step = 0
        self.meter = Meter(place)
        self.capture = True
        """Whether to replay the step as a CUDA graph, where that can be done."""
        self.static_step: StaticStep | None = None
        self.seen: dict[str, Any] = {"since": {}, "told": []}
        """Collapses: since which step each was seen, and those that were told of. A watch fills it in."""
        if recipe.schedule.grow and not isinstance(self.network, Network):
            raise FirstspikeError(
                "schedule.grow changes the steps of a firstspike.Network, which this model is not: leave it out."
            )
        # Each process draws its own dropout masks; the weights above are the same in all of them.
        torch.manual_seed(recipe.seed + 1_000_003 * place.rank)
        torch.backends.cudnn.benchmark = True

    @property
    def steps_taken(self) -> int:
        return self.epoch * len(self.batches) + self.step

    def train_step(self, batch: Batch) -> None:
        """Forward, loss, backward, update."""
        set_rate(self.optimizers, self.rate_factor(self.step))
        self.learn(batch)
        if self.average:
            self.average.update(self.model)
        self.step += 1

    def rate_factor(self, step: int) -> float:
        """The share of the peak learning rates at a step of this epoch."""
        recipe = self.recipe
        return recipe.schedule.factor(self.epoch + step / len(self.batches), recipe.epochs)

    def learn(self, batch: Batch) -> None:
        """The part of a step that is the same at every step."""
        recipe = self.recipe
        output = self.wrapped(self.to_format(batch.images))
        loss = self.loss(output, batch)
        if self.place.world > 1 and isinstance(output, Output):
            loss = (
                loss + 0 * output.spikes.sum()
            )  # processes wait for a gradient of all that the output came from
        loss.backward()  # type: ignore[no-untyped-call]
        if recipe.optimizer.clip:
            nn.utils.clip_grad_norm_(self.model.parameters(), recipe.optimizer.clip)
        for optimizer in self.optimizers:
            optimizer.step()
        self.meter.add(loss, output, batch)

    def take_steps(self) -> None:
        """Give the network the time steps that the schedule asks for in this epoch, on the same weights."""
        recipe, net = self.recipe, self.network
        T = recipe.schedule.steps(self.epoch, recipe.epochs, recipe.T)
        if recipe.schedule.grow and isinstance(net, Network) and net.T != T:
            net.set_fall(net.config.fall, net.config.lift, T)
            self.static_step = None  # it holds the steps there were

    def rest_of_epoch(self) -> Iterator[None]:
        """Train on the batches that are left of the epoch, one at each turn."""
        self.take_steps()
        if not self.capture or not can_capture(self):
            for batch in self.batches.epoch(self.epoch, self.step):
                self.zero_grad()
                self.train_step(batch)
                yield
            return
        self.static_step = static_step = self.static_step or StaticStep(self)
        static_step.begin()
        while self.step < len(self.batches):
            static_step()
            yield

    def zero_grad(self) -> None:
        for optimizer in self.optimizers:
            optimizer.zero_grad()

    def loss(self, output: Output | Tensor, batch: Batch) -> Tensor:
        """The recipe's loss for a batch."""
        recipe = self.recipe
        teacher = None
        if self.teacher is not None:
            with torch.no_grad():
                answer = self.teacher(self.to_format(batch.images))
                teacher = as_logits(answer, recipe.loss.sharpness)
        if isinstance(output, Output):
            threshold = self.output_threshold(output)
            return spiking_loss(output, batch, recipe.loss, recipe.decoder, threshold, teacher)
        if recipe.network.unit.startswith("rate"):
            return rate_loss(output, batch, recipe.loss)
        return logits_loss(output, batch, recipe.loss, teacher)

    def output_threshold(self, output: Output) -> float | Tensor:
        """V of the output neurons, for the membrane of all steps but the last.

        Of a threshold that falls, the loss asks for its mean: the fall then puts in order what is near it.
        """
        for module in reversed(list(self.network.modules())):
            if isinstance(module, Readout) and isinstance(module.neuron.threshold, nn.Parameter):
                return module.neuron.threshold_for(output.membrane[: len(output.spikes) - 1])
        return self.recipe.neuron.threshold

    def to_format(self, images: Tensor) -> Tensor:
        """Channels-last, as convolutions are fastest: images `[B, C, H, W]`, or event frames `[T, B, C, H, W]`."""
        if images.dim() < 4 or not isinstance(self.network, Network):  # another's may want to `view` them
            return images
        return images.movedim(-3, -1).contiguous().movedim(-1, -3)

    def state(self) -> dict[str, Any]:
        """Everything that the rest of the run depends on. All processes take part."""
        return {
            "epoch": self.epoch,
            "step": self.step,
            "model": dict(self.model.state_dict()),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "average": self.average and {"updates": self.average.updates, "values": self.average.values},
            "seen": self.seen,
            "meter": self.place.sum(self.meter.sums.clone()),
            "random": self.place.gather(torch.get_rng_state()),
            "cuda_random": self.place.gather(torch.cuda.get_rng_state(self.place.device))
            if self.on_cuda
            else [],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from what `state` returned."""
        self.static_step = None  # it trains the tensors that are replaced here
        self.epoch, self.step = state["epoch"], state["step"]
        self.model.load_state_dict(state["model"])
        for optimizer, values in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(values)
        if self.average and state["average"]:
            self.average.updates = state["average"]["updates"]
            self.average.values = [value.to(self.place.device) for value in state["average"]["values"]]
        self.seen = state["seen"]
        self.meter.reset()
        if self.place.leads:  # the sums are over all processes
            self.meter.sums += state["meter"].to(self.place.device)
        self._restore_random(state)

    def _restore_random(self, state: dict[str, Any]) -> None:
        """Go on drawing dropout masks as before; with another number of processes, draw others."""
        if len(state["random"]) != self.place.world:
            torch.manual_seed(self.recipe.seed + 1_000_003 * self.place.rank + 7_919 * (1 + self.steps_taken))
            return
        torch.set_rng_state(state["random"][self.place.rank].cpu())
        if self.on_cuda and state["cuda_random"]:
            torch.cuda.set_rng_state(state["cuda_random"][self.place.rank].cpu(), self.place.device)

    @property
    def on_cuda(self) -> bool:
        return self.place.device.type == "cuda"


def training_sets(recipe: Recipe) -> tuple[Dataset, Dataset | None]:
    """The training set, and what the recipe holds out of it."""
    T = recipe.T if recipe.encoding == "frames" else None
    data, parts = recipe.data, ROLLED_PARTS if recipe.augment.roll else 1
    whole = data.load("train", T, parts)
    if not data.validation:
        return whole, None
    held = data.validation if data.validation < 1 else int(data.validation)
    return hold_out(whole, held, data.validation_seed, data.validation_last)


def test_set(recipe: Recipe) -> Dataset:
    """What a finished run is tested on."""
    return recipe.data.load("test", recipe.T if recipe.encoding == "frames" else None)


def make_model(recipe: Recipe, train_set: Dataset) -> nn.Module:
    """The recipe's network or its twin, from scratch or from another's weights."""
    net = build_from(recipe.network_config(train_set))
    if recipe.network.start_from:
        start_from(net, find_model(recipe.network.start_from).model)
        net.train()
    return as_unit(net, recipe.network.unit)


def load_teacher(recipe: Recipe, place: Place, compute_dtype: torch.dtype | None) -> nn.Module | None:
    """The network to distil from, where the recipe does."""
    if not recipe.loss.distil:
        return None
    teacher = find_model(str(recipe.network.teacher)).model.to(place.device)
    if isinstance(teacher, Twin):  # a spiking one keeps its membranes at the scale they were trained at
        teacher = Twin(teacher.net.fuse())
    for module in teacher.modules():
        if isinstance(module, Network):
            module.compute_dtype = compute_dtype
    return teacher.eval().requires_grad_(False)


def as_logits(answer: Output | Tensor, sharpness: float) -> Tensor:
    """A teacher's answer `[B, C]`; a membrane counts as sharply as in the threshold loss."""
    return sharpness * mean_membrane(answer.membrane) if isinstance(answer, Output) else answer
