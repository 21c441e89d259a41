"""Static images as input over time."""

from typing import Literal

import torch
from torch import Tensor

from firstspike.errors import FirstspikeError
from firstspike.functional.times import check_steps, spikes_at

Encoding = Literal["direct", "latency", "frames"]


def direct(image: Tensor, T: int) -> Tensor:
    """The image as a constant current: `[B, ...]` in, `[T, B, ...]` out, without a copy.

    The time axis has stride 0, by which the first synapse knows that one frame stands for all of them.
    """
    return image.expand(check_steps(T), *image.shape)


def latency(image: Tensor, T: int) -> Tensor:
    """One spike a pixel, the brighter the earlier: x in [0, 1] fires at round((1 - x) * (T - 1)).

    `[B, ...]` in, binary `[T, B, ...]` out.
    """
    check_steps(T)
    on_cpu = image.device.type == "cpu"  # elsewhere the look would stall the device
    if on_cpu and image.numel() and not bool(((image >= 0) & (image <= 1)).all()):
        low, high = image.min().item(), image.max().item()
        raise FirstspikeError(
            f"Latency coding takes pixels in [0, 1], but these lie in [{low:.3g}, {high:.3g}]: "
            "divide 8-bit images by 255 and leave out the standardisation."
        )
    times = torch.round((1 - image) * (T - 1)).to(torch.uint8)
    return spikes_at(times, T, image.dtype)
