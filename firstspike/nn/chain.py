"""A chain of layers, run with as little written to memory as the device allows."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from firstspike.kernels.layout import empty, empty_frames, is_channels_last
from firstspike.nn.layer import Readout, Spiking
from firstspike.nn.pooling import AvgPool2d
from firstspike.nn.synapse import Linear, Synapse


def run(layers: Sequence[nn.Module], spikes: Tensor, recompute: bool = False) -> Any:
    """What calling one layer after the other gives.

    A layer of neurons and the average pool behind it run as one, unless a hook wants to see what is between.

    Args:
        recompute: keep one byte a neuron for backward (its spike time) instead of T frames of spikes and of
            current, which backward then works out once more.
    """
    if recompute and torch.is_grad_enabled():
        return _run_recomputing(layers, spikes)
    index = 0
    while index < len(layers):
        layer, after = layers[index], layers[index + 1 : index + 3]
        if after and fuse(layer, after[0]):
            dense = len(after) > 1 and isinstance(after[1], Spiking) and isinstance(after[1].synapse, Linear)
            spikes = layer.pooled(spikes, after[0].size, contiguous=dense)  # type: ignore[operator]
            index += 2
        else:
            spikes = layer(spikes)
            index += 1
    return spikes


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
    """`run` in stages, each a layer of neurons with the pools before it; others run as they are."""
    stage: list[nn.Module] = []
    binary = False  # whether the stage begins with the spikes of neurons
    for layer in layers:
        stage.append(layer)
        if isinstance(layer, AvgPool2d):
            continue
        hidden = isinstance(layer, Spiking) and not isinstance(layer, Readout)
        constant = (
            len(spikes) > 1 and spikes.stride(0) == 0
        )  # one frame, which is kept in little space as it is
        if hidden and not constant and not any(map(is_watched, stage)):
            spikes = recomputed(stage, spikes, binary)
        else:
            spikes = run(stage, spikes)
        stage, binary = [], hidden
    return run(stage, spikes)


def recomputed(layers: Sequence[nn.Module], spikes: Tensor, binary: bool) -> Tensor:
    """`run(layers, spikes)` that keeps its input only; of `binary` spikes, that fire once, their times."""
    parameters = [parameter for layer in layers for parameter in layer.parameters()]
    return _Recomputed.apply(list(layers), binary, spikes, *parameters)  # type: ignore[no-any-return, no-untyped-call]


CHUNK_BYTES = 2**26
"""Input frames that a stage works on at a time: beside them, only whole inputs and outputs take space."""


class _Recomputed(torch.autograd.Function):
    """A stage, some samples at a time, so that the currents of all of them never exist together."""

    @staticmethod
    def forward(
        ctx: Any, layers: list[nn.Module], binary: bool, spikes: Tensor, *parameters: Tensor
    ) -> Tensor:
        ctx.layers, ctx.binary, ctx.steps, ctx.dtype = layers, binary, len(spikes), spikes.dtype
        ctx.chunks = _chunks(layers, spikes)
        ctx.save_for_backward(_times(spikes) if binary else spikes, *parameters)
        if len(ctx.chunks) == 1:
            return run(layers, spikes)  # type: ignore[no-any-return]
        result: Tensor | None = None
        for chunk in ctx.chunks:
            part: Tensor = run(layers, spikes[:, chunk])
            if result is None:
                shape = [*spikes.shape[:2], *part.shape[2:]]
                result = empty(shape, part.dtype, part.device, is_channels_last(part))
            result[:, chunk] = part
        return result  # type: ignore[return-value]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        kept, *parameters = ctx.saved_tensors
        learned = [parameter for parameter in parameters if parameter.requires_grad]
        wants_spikes, grad_spikes = ctx.needs_input_grad[2], None
        sums: list[Tensor | None] = [None] * len(learned)
        # Batch statistics have moved on already
        buffers = [(buffer, buffer.clone()) for layer in ctx.layers for buffer in layer.buffers()]
        for chunk in ctx.chunks:
            spikes = _frames(kept[chunk], ctx.steps, ctx.dtype) if ctx.binary else kept[:, chunk].detach()
            wanted = [spikes.requires_grad_()] if wants_spikes else []
            with torch.enable_grad():
                result = run(ctx.layers, spikes)
            grads = list(torch.autograd.grad(result, [*wanted, *learned], grad[:, chunk], allow_unused=True))
            part = grads.pop(0) if wants_spikes else None
            if part is not None and len(ctx.chunks) == 1:
                grad_spikes = part
            elif part is not None:
                if grad_spikes is None:
                    shape = [len(part), grad.shape[1], *part.shape[2:]]
                    grad_spikes = empty(shape, part.dtype, part.device, is_channels_last(part))
                grad_spikes[:, chunk] = part
            sums = [new if old is None else old + new for old, new in zip(sums, grads, strict=True)]
        with torch.no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)
        values = iter(sums)
        own = [next(values) if parameter.requires_grad else None for parameter in parameters]
        return None, None, grad_spikes, *own


def _chunks(layers: list[nn.Module], spikes: Tensor) -> list[slice]:
    """The samples to work on together; all of them where they share batch statistics."""
    batch = spikes.shape[1]
    together = any(isinstance(m, Synapse) and m.normalisation.kind == "batch" for m in _modules(layers))
    count = 1 if together else -(-spikes.numel() * spikes.element_size() // CHUNK_BYTES)
    size = max(1, -(-batch // max(1, count)))
    return [slice(start, start + size) for start in range(0, max(batch, 1), size)]


def _modules(layers: list[nn.Module]) -> list[nn.Module]:
    return [module for layer in layers for module in layer.modules()]


def _times(spikes: Tensor) -> Tensor:
    """Spike times uint8 `[B, ...]` of frames in which each neuron fires at most once, in the frames' layout."""
    times = torch.full_like(spikes[0], len(spikes), dtype=torch.uint8)
    for t, frame in enumerate(spikes):
        times.masked_fill_(frame != 0, t)
    return times


def _frames(times: Tensor, steps: int, dtype: torch.dtype) -> Tensor:
    """The inverse of `_times`; each frame laid out as the times are."""
    frames = empty_frames(times[None], steps, dtype, is_channels_last(times[None]))
    for t, frame in enumerate(frames):
        frame.copy_(times == t)
    return frames
