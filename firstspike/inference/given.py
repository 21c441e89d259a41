"""Checks of what is given to inference, in words."""

import torch
from torch import Tensor

from firstspike.errors import FirstspikeError
from firstspike.models import Network


def check_images(net: Network, images: Tensor) -> Tensor:
    """Refuse images (or event frames) of a wrong shape or type; finiteness is looked at by `check_finite`."""
    config = net.config
    shape = tuple(config.input_shape)
    lead = 2 if config.encoding == "frames" else 1
    fits = images.dim() == lead + len(shape) and tuple(images.shape[lead:]) == shape
    if not fits or (lead == 2 and images.shape[0] != net.T):
        expected = ", ".join(map(str, [*([net.T] if lead == 2 else []), "B", *shape]))
        raise FirstspikeError(
            f"This network takes input of shape [{expected}], but was given {list(images.shape)}: "
            "check the axes, the number of channels and the image size."
        )
    if not images.is_floating_point():
        raise FirstspikeError(
            f"The input must be floating point, not {images.dtype}: for images, x.float() / 255."
        )
    return images


def check_finite(net: Network, images: Tensor) -> None:
    """Refuse NaN and infinity, naming the first sample that has them."""
    if bool(torch.isfinite(images).all()):
        return
    batch = 1 if net.config.encoding == "frames" else 0
    bad = (~torch.isfinite(images)).movedim(batch, 0).flatten(1).any(1)
    raise FirstspikeError(
        f"Sample {int(bad.nonzero()[0])} has NaN or infinite values: check where it comes from."
    )


def check_ties(ties: str) -> None:
    """Refuse an unknown tie rule."""
    if ties not in ("strict", "potential"):
        raise FirstspikeError(f"Unknown tie rule {ties!r}: choose strict or potential.")
