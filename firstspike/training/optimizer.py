"""Optimisers, and which of them trains which parameter."""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from firstspike.errors import FirstspikeError
from firstspike.nn import Synapse
from firstspike.training.adam import DeferringAdamW, large_synapses
from firstspike.training.muon import Muon

OptimizerKind = Literal["sgd", "adamw", "muon"]
ScheduleKind = Literal["cosine", "constant"]


@dataclass(frozen=True)
class OptimizerConfig:
    """How weights are updated."""

    kind: OptimizerKind = "sgd"
    """SGD with Nesterov momentum; AdamW; or Muon on hidden convolutions with AdamW on all else."""
    lr: float = 0.1
    """Peak learning rate (of AdamW, under muon)."""
    momentum: float = 0.9
    """Momentum of SGD."""
    weight_decay: float = 0.0
    """Decay of weights; gains, biases and thresholds are not decayed."""
    beta2: float = 0.999
    """AdamW's second beta."""
    muon_lr: float = 0.04
    """Peak learning rate of Muon."""
    muon_momentum: float = 0.95
    """Momentum of Muon."""
    muon_dense: bool = False
    """Train hidden fully connected weights by Muon too."""
    clip: float = 0.0
    """Largest norm of the whole gradient; 0 does not clip."""
    ema: float = 0.0
    """Decay of the moving average of weights that is evaluated and saved; 0 keeps none."""

    def __post_init__(self) -> None:
        if self.kind not in get_args(OptimizerKind):
            raise FirstspikeError(f"Unknown optimiser {self.kind!r}: choose sgd, adamw or muon.")
        if not (self.lr > 0 and self.muon_lr > 0):
            raise FirstspikeError(f"Learning rates must be positive, not {self.lr} and {self.muon_lr}.")
        if self.clip < 0 or self.weight_decay < 0:
            raise FirstspikeError(
                f"clip and weight_decay must not be negative, but are {self.clip} and {self.weight_decay}."
            )
        if not (0 <= self.momentum < 1 and 0 <= self.muon_momentum < 1 and 0 <= self.beta2 < 1):
            raise FirstspikeError("momentum, muon_momentum and beta2 lie in [0, 1).")
        if not 0 <= self.ema < 1:
            raise FirstspikeError(f"The moving average's decay lies in [0, 1), not {self.ema}.")


@dataclass(frozen=True)
class Schedule:
    """How the learning rate changes over the run."""

    kind: ScheduleKind = "cosine"
    """Fall along a half cosine, or stay."""
    warmup: float = 0.5
    """Epochs of linear rise at the start."""
    final: float = 0.0
    """What the cosine ends at, as a share of the peak."""
    grow: tuple[int, ...] = ()
    """Time steps to train with before T: `4` trains with 4 first, `2 4` with 2 and then 4; fewer cost less."""
    grow_at: tuple[float, ...] = ()
    """When to go on to the next of these, and last to T: shares of the epochs, as many as there are in `grow`."""

    def __post_init__(self) -> None:
        if self.kind not in get_args(ScheduleKind):
            raise FirstspikeError(f"Unknown schedule {self.kind!r}: choose cosine or constant.")
        rising = all(before < after for before, after in pairwise((0.0, *self.grow_at, 1.0)))
        if len(self.grow) != len(self.grow_at) or not rising:
            raise FirstspikeError(
                f"schedule.grow is {self.grow} and schedule.grow_at {self.grow_at}: give for each number of steps "
                "the share of the epochs, rising between 0 and 1, at which training goes on to the next."
            )

    def steps(self, epoch: int, epochs: int, T: int) -> int:
        """The time steps to train with in an epoch, of a network that has T in the end."""
        return next(
            (few for few, share in zip(self.grow, self.grow_at, strict=True) if epoch < share * epochs), T
        )

    def factor(self, epoch: float, epochs: float) -> float:
        """The share of the peak learning rate at a (fractional) epoch."""
        if epoch < self.warmup:
            return epoch / self.warmup
        if self.kind == "constant":
            return 1.0
        progress = (epoch - self.warmup) / max(epochs - self.warmup, 1e-9)
        return self.final + (1 - self.final) * 0.5 * (1 + math.cos(math.pi * min(progress, 1.0)))


def make_optimizers(net: nn.Module, config: OptimizerConfig, alone: bool = True) -> list[Optimizer]:
    """The optimisers of a network: one, or Muon and AdamW. Each group remembers its peak rate as `peak`.

    Args:
        alone: whether no other process waits for the gradients.
    """
    if next(net.parameters(), None) is None:
        raise FirstspikeError(
            f"{type(net).__name__} has no parameters to train: give it layers that have, or register them (a list of "
            "layers is a torch.nn.ModuleList)."
        )
    weights, others, matrices = [], [], []
    synapses = [module for module in net.modules() if isinstance(module, Synapse)]
    hidden = {id(synapse.weight): synapse.weight.dim() for synapse in synapses[1:-1]}
    decayed = {id(synapse.weight) for synapse in synapses}
    for parameter in net.parameters():
        dims = hidden.get(id(parameter), 0)
        if config.kind == "muon" and (dims == 4 or (dims == 2 and config.muon_dense)):
            matrices.append(parameter)
        elif id(parameter) in decayed:
            weights.append(parameter)
        else:
            others.append(parameter)
    groups = [
        {"params": weights, "weight_decay": config.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    optimizers: list[Optimizer] = []
    fused = next(net.parameters()).device.type == "cuda"
    if config.kind == "sgd":
        nesterov = config.momentum > 0
        optimizers.append(
            torch.optim.SGD(groups, config.lr, config.momentum, nesterov=nesterov, fused=fused or None)
        )
    else:
        betas = (0.9, config.beta2)
        taken = {id(parameter) for parameter in weights}
        whole = not alone or config.clip > 0  # somebody wants all gradients before the step
        large = [] if whole else [one for one in large_synapses(net) if id(one.weight) in taken]
        optimizers.append(
            DeferringAdamW(groups, config.lr, betas, large)
            if large
            else torch.optim.AdamW(groups, config.lr, betas, fused=fused)
        )
    if matrices:
        optimizers.append(Muon(matrices, config.muon_lr, config.muon_momentum, config.weight_decay))
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["peak"] = group["lr"]
    return optimizers


def set_rate(optimizers: list[Optimizer], factor: float) -> None:
    """Set every group to `factor` of its peak rate."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = group["peak"] * factor


class MovingAverage:
    """An exponential moving average of a network's parameters; its buffers are taken as they are.

    The decay rises from 0 in the first steps, so that the random start is soon forgotten.
    """

    def __init__(self, net: nn.Module, decay: float) -> None:
        self.decay = decay
        self.updates = 0
        self.values = [parameter.detach().clone() for parameter in net.parameters()]

    def update(self, net: nn.Module) -> None:
        self.move(net, self.weight())
        self.updates += 1

    def weight(self, ahead: int = 1) -> float:
        """The share of the network's parameters in the update that comes next, or so many `ahead`."""
        updates = self.updates + ahead
        return 1 - min(self.decay, (1 + updates) / (10 + updates))

    @torch.no_grad()
    def move(self, net: nn.Module, weight: float | Tensor) -> None:
        """Move the average towards the network's parameters; a `weight` on the device is not waited for."""
        parameters = [parameter.detach() for parameter in net.parameters()]
        if isinstance(weight, Tensor):
            for value, parameter in zip(self.values, parameters, strict=True):
                value.lerp_(parameter, weight)
        else:
            torch._foreach_lerp_(self.values, parameters, weight)

    @torch.no_grad()
    def swap(self, net: nn.Module) -> None:
        """Exchange the network's parameters with the average, in place; again to change back."""
        for parameter, value in zip(net.parameters(), self.values, strict=True):
            kept = parameter.detach().clone()
            parameter.copy_(value)
            value.copy_(kept)
