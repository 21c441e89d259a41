"""The floor of a training step: SCNN6's convolutions and matrix products through cuDNN and cuBLAS alone."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor


def floor(frames: int, batch: int, plain: bool = False) -> Callable[[], object]:
    """Forward and backward of every synapse on its own input, in bf16; no neurons, no pooling.

    The first convolution sees its constant input once and needs no gradient of it. Inputs are binary frames
    in which a neuron fires in one frame of `frames` + 1 or not at all, as they are in training.

    Args:
        plain: contiguous frames and cuDNN's first choice of algorithm, as a script has them that says nothing;
            else channels-last and the fastest algorithm that cuDNN finds.
    """
    layout = torch.contiguous_format if plain else torch.channels_last
    layers: list[tuple[Tensor, Tensor, Tensor]] = []
    image = torch.randn(batch, 3, 32, 32, device="cuda", dtype=torch.bfloat16)
    for inputs, size in ((0, 32), (256, 32), (256, 32), (256, 16), (256, 16), (256, 16)):
        spikes = _spikes(frames, batch, inputs, size, size) if inputs else image
        weight = torch.randn(256, inputs or 3, 3, 3, device="cuda", dtype=torch.bfloat16)
        layers.append(_layer(spikes, weight, bool(inputs), size, layout))
    for inputs, outputs in ((16384, 4096), (4096, 10)):
        weight = torch.randn(outputs, inputs, device="cuda", dtype=torch.bfloat16)
        layers.append(_layer(_spikes(frames, batch, inputs), weight, True, None, layout))

    def step() -> None:
        torch.backends.cudnn.benchmark = not plain
        for spikes, weight, grad in layers:
            current = F.linear(spikes, weight) if weight.dim() == 2 else F.conv2d(spikes, weight, padding=1)
            wanted = [weight, spikes] if spikes.requires_grad else [weight]
            torch.autograd.grad(current, wanted, grad)
        torch.backends.cudnn.benchmark = True

    return step


def operations(frames: int) -> float:
    """Floating-point operations of a training step, for one image: forward and both gradients."""
    per_frame = 2 * (2 * 256 * 2304 * 1024 + 3 * 256 * 2304 * 256 + 16384 * 4096 + 4096 * 10)
    return 3.0 * per_frame * frames + 2 * 2 * 256 * 27 * 1024


def _spikes(frames: int, batch: int, *shape: int) -> Tensor:
    """Binary `[frames * batch, ...]`: each neuron fires once, in one of the frames or after them."""
    times = torch.randint(frames + 1, (batch, *shape), device="cuda")
    return torch.cat([(times == t).to(torch.bfloat16) for t in range(frames)])


def _layer(
    spikes: Tensor, weight: Tensor, input_grad: bool, size: int | None, layout: torch.memory_format
) -> tuple[Tensor, Tensor, Tensor]:
    shape = (len(spikes), len(weight)) if size is None else (len(spikes), len(weight), size, size)
    grad = torch.randn(shape, device="cuda", dtype=torch.bfloat16)
    if size is not None:
        spikes, weight, grad = (values.contiguous(memory_format=layout) for values in (spikes, weight, grad))
    return spikes.requires_grad_(input_grad), weight.requires_grad_(), grad
