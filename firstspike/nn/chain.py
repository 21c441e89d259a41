"""A chain of layers, run with as little written to memory as the device allows."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from firstspike.kernels.layout import empty, is_channels_last
from firstspike.nn.layer import Readout, Spiking
from firstspike.nn.pooling import AvgPool2d
from firstspike.nn.synapse import Conv2d, Linear

PART_BYTES = 2**27
"""Frames of one layer that are worked on at a time where layers are recomputed."""


def run(
    layers: Sequence[nn.Module], spikes: Tensor, recompute: bool = False, then: nn.Module | None = None
) -> Any:
    """What calling one layer after the other gives.

    A layer of neurons and the average pool behind it run as one, unless a hook wants to see what is between.

    Args:
        recompute: keep neither spikes nor currents of convolutional layers for backward, which works them
            out once more, some samples at a time.
        then: the layer that comes next, which pooled frames are laid out for.
    """
    if recompute and torch.is_grad_enabled():
        return _run_recomputing(layers, spikes)
    for _, layer, pool, contiguous in parts(layers, then):
        spikes = layer.pooled(spikes, pool, contiguous) if pool > 1 else layer(spikes)  # type: ignore[operator]
    return spikes


class Part(NamedTuple):
    """A layer as it runs: with the average pool behind it, or alone."""

    number: int
    """Its place among all layers."""
    layer: nn.Module
    pool: int = 1
    """Side of the windows of the pool behind it."""
    contiguous: bool = False
    """Whether a fully connected layer reads what is pooled."""


def parts(layers: Sequence[nn.Module], then: nn.Module | None = None) -> Iterator[Part]:
    """The layers in order, pools together with the neurons before them where they may `fuse`."""
    index = 0
    while index < len(layers):
        layer, after = layers[index], layers[index + 1 : index + 2]
        if after and fuse(layer, after[0]):
            following = layers[index + 2] if index + 2 < len(layers) else then
            dense = isinstance(following, Spiking) and isinstance(following.synapse, Linear)
            yield Part(index, layer, after[0].size, dense)  # type: ignore[arg-type]
            index += 2
        else:
            yield Part(index, layer)
            index += 1


def fuse(layer: nn.Module, after: nn.Module) -> bool:
    """Whether two layers may run as one."""
    plain = type(layer) is Spiking and type(after) is AvgPool2d
    return plain and not is_watched(layer) and not is_watched(after)


def is_watched(module: nn.Module) -> bool:
    """Whether hooks wait for the module to be called."""
    return bool(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
    )


def _run_recomputing(layers: Sequence[nn.Module], spikes: Tensor) -> Any:
    """`run` in groups of layers, of which those that can be are recomputed; others run as they are."""
    groups = [(again, list(group)) for again, group in itertools.groupby(layers, is_recomputed)]
    following = [group[0] for _, group in groups[1:]]
    for (again, group), then in itertools.zip_longest(groups, following):
        if again and any(isinstance(layer, Spiking) for layer in group):
            parameters = [parameter for layer in group for parameter in layer.parameters()]
            spikes = _Recomputed.apply(group, then, spikes, *parameters)  # type: ignore[no-untyped-call]
        else:
            spikes = run(group, spikes, then=then)
    return spikes


def is_recomputed(layer: nn.Module) -> bool:
    """Whether samples pass the layer independently of each other, always in the same way and unwatched.

    Fully connected layers do, too, but have few frames beside their weights, which each part would have to
    normalise once more.
    """
    if is_watched(layer) or isinstance(layer, Readout):
        return False
    if isinstance(layer, Spiking):
        return isinstance(layer.synapse, Conv2d) and layer.synapse.normalisation.kind != "batch"
    return isinstance(layer, AvgPool2d)


class _Recomputed(torch.autograd.Function):
    """Layers that keep their input only, and run on some samples at a time: once forward, again in backward.

    What lies between the layers then never exists for the whole batch.
    """

    @staticmethod
    def forward(
        ctx: Any, layers: list[nn.Module], then: nn.Module | None, spikes: Tensor, *parameters: Tensor
    ) -> Tensor:
        ctx.layers, ctx.then, ctx.parts = layers, then, _parts(layers, spikes)
        ctx.save_for_backward(spikes, *parameters)
        whole = _Whole(spikes.shape[1])
        for part in ctx.parts:
            whole.put(part, run(layers, _take(spikes, part), then=then))
        return whole.frames  # type: ignore[return-value]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        spikes, *parameters = ctx.saved_tensors
        wanted = [parameter for parameter in parameters if parameter.requires_grad]
        wants_spikes, grad_spikes = ctx.needs_input_grad[2], _Whole(spikes.shape[1])
        sums: tuple[Tensor, ...] = ()
        for part in ctx.parts:
            inputs = _take(spikes, part).detach().requires_grad_(wants_spikes)
            with torch.enable_grad():
                result = run(ctx.layers, inputs, then=ctx.then)
            leaves = [*wanted, inputs] if wants_spikes else wanted
            grads = torch.autograd.grad(result, leaves, grad[:, part], materialize_grads=True)
            if wants_spikes:
                grad_spikes.put(part, grads[-1])
            new = grads[: len(wanted)]
            sums = torch._foreach_add(sums, new) if sums else new
        values = iter(sums)
        own = [next(values) if parameter.requires_grad else None for parameter in parameters]
        return None, None, grad_spikes.frames, *own


class _Whole:
    """Frames `[T, B, ...]` of all B samples, put together from parts, in the layout of the first."""

    def __init__(self, batch: int) -> None:
        self.batch = batch
        self.frames: Tensor | None = None

    def put(self, part: slice, frames: Tensor) -> None:
        if frames.shape[1] == self.batch:
            self.frames = frames
            return
        if self.frames is None:
            shape = [len(frames), self.batch, *frames.shape[2:]]
            self.frames = empty(shape, frames.dtype, frames.device, is_channels_last(frames))
        self.frames[:, part] = frames


def _parts(layers: list[nn.Module], spikes: Tensor) -> list[slice]:
    """The samples to work on together, in parts of one size as far as they go."""
    batch, positions = spikes.shape[1], spikes[0, 0, 0].numel() if spikes.numel() else 0
    channels = max(len(layer.synapse.weight) for layer in layers if isinstance(layer, Spiking))
    a_sample = max(1, len(spikes) * channels * positions * spikes.element_size())
    count = max(1, -(-batch // max(1, PART_BYTES // a_sample)))
    size = max(1, -(-batch // count))
    return [slice(start, start + size) for start in range(0, max(batch, 1), size)]


def _take(spikes: Tensor, part: slice) -> Tensor:
    """Some samples, all their frames one after the other in memory; a constant frame as it is."""
    taken = spikes[:, part]
    if taken.shape[1] == spikes.shape[1] or (len(spikes) > 1 and spikes.stride(0) == 0):
        return taken
    if is_channels_last(taken):
        return taken.movedim(2, -1).contiguous().movedim(-1, 2)
    return taken.contiguous()
