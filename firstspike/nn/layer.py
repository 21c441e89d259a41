"""Layers of spiking neurons: synapses in front of neurons."""

import copy
from typing import NamedTuple, Self

import torch
from torch import Tensor, nn

from firstspike.functional.neuron import first_crossing
from firstspike.functional.times import spike_times
from firstspike.kernels import Steps, Wanted
from firstspike.nn.neuron import AMOS, LayerState
from firstspike.nn.pooling import check_pooling
from firstspike.nn.synapse import Synapse


class Output(NamedTuple):
    """What the output layer did."""

    spikes: Tensor
    """`[T, B, classes]`, 0 or 1."""
    membrane: Tensor
    """`[T, B, classes]`, in float32 or wider; without the last step where training leaves it out."""

    @property
    def spike_times(self) -> Tensor:
        """uint8 `[B, classes]`, T = silent."""
        return spike_times(self.spikes)

    def with_forced_step(self) -> "Output":
        """Append the last step of training, in which all that have not fired do."""
        return Output(torch.cat([self.spikes, 1 - self.spikes.sum(0, keepdim=True)]), self.membrane)


class Spiking(nn.Module):
    """A hidden layer: spikes `[T, B, ...]` in, spikes of its neurons out."""

    def __init__(self, synapse: Synapse, neuron: AMOS) -> None:
        super().__init__()
        self.synapse, self.neuron = synapse, neuron

    def forward(self, spikes: Tensor) -> Tensor:
        return self.pooled(spikes)

    def pooled(self, spikes: Tensor, size: int = 1, contiguous: bool = False) -> Tensor:
        """The layer's spikes after average pooling, in one kernel where the device allows it.

        Args:
            contiguous: lay pooled frames out for a fully connected layer.
        """
        steps = len(spikes)
        constant = steps > 1 and spikes.stride(0) == 0
        current, bias = self.synapse.current(spikes[:1] if constant else spikes)
        check_pooling(current, size)
        return self.neuron(current, bias, steps, size, contiguous)  # type: ignore[no-any-return]

    def steps(self, spikes: Tensor, state: LayerState | None, t: int, wanted: Wanted | None = None) -> Steps:
        """Steps t, t+1, ...: spikes `[n, B, ...]` and the state after step t - 1 in (None before the first)."""
        current, bias = self.synapse.current(spikes)
        return self.neuron.steps(current, state, t, bias, wanted=wanted)

    def step(self, spikes: Tensor, state: LayerState | None, t: int) -> tuple[Tensor, LayerState]:
        """Step `t`: spikes `[B, ...]` and state (None before the first step) in, spikes and state out."""
        fired, _, state = self.steps(spikes[None], state, t)
        return fired[0], state

    def fuse(self) -> Self:
        """The same layer with plain weights: see `Synapse.fuse`."""
        return type(self)(self.synapse.fuse(), copy.deepcopy(self.neuron))


class Readout(Spiking):
    """The output layer: spikes `[T, B, ...]` in, an `Output` with spikes and membranes out."""

    def fuse(self) -> Self:
        """The same layer with plain weights and, where a bias can stand in for it, a threshold that stays.

        A threshold that falls by d a step is a current of d a step under a threshold higher by d; weights and
        bias are then scaled so that the threshold is V again. Membranes are scaled with them, all alike. A
        leaky neuron would lose some of that current: its threshold goes on falling.
        """
        fused = super().fuse()
        threshold, bias = self.neuron.threshold, fused.synapse.bias
        if isinstance(threshold, nn.Parameter) or not isinstance(threshold, Tensor) or len(threshold) < 2:
            return fused
        if self.neuron.neuron.tau is None and bias is not None:
            drop = threshold[0, 0] - threshold[1, 0]
            scale = self.neuron.neuron.threshold / (threshold[0, 0] + drop)
            with torch.no_grad():
                fused.synapse.weight.mul_(scale)
                bias.copy_((bias + drop) * scale)
            fused.neuron = AMOS(self.neuron.neuron)
            fused.neuron.force_last = self.neuron.force_last
        return fused

    def forward(self, spikes: Tensor) -> Output:  # type: ignore[override]
        current, bias = self.synapse.current(spikes)
        membrane = self.neuron.membrane(current, bias)
        neuron = self.neuron
        force_last = self.training if neuron.force_last is None else neuron.force_last
        overdrive = membrane - neuron.threshold_for(current)
        return Output(first_crossing(overdrive, force_last, neuron.neuron.surrogate), membrane)
