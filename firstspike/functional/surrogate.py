"""Surrogate derivatives: what stands in for the derivative of the step function in backward."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from firstspike.errors import FirstspikeError

SurrogateKind = Literal["atan", "sigmoid", "triangle", "rectangular"]


@dataclass(frozen=True)
class Surrogate:
    """The derivative of `step(u)`, u = H - V, as a bump around u = 0 that integrates to 1.

    | kind        | derivative                                        |
    |-------------|---------------------------------------------------|
    | atan        | alpha / 2 / (1 + (pi / 2 * alpha * u)^2)          |
    | sigmoid     | alpha * s * (1 - s), s = sigmoid(alpha * u)       |
    | triangle    | alpha * max(0, 1 - alpha * abs(u))                |
    | rectangular | alpha where abs(u) < 1 / (2 * alpha), else 0      |
    """

    kind: SurrogateKind = "atan"
    """Shape of the bump."""
    alpha: float = 2.0
    """Steepness: the larger, the narrower and higher the bump."""

    def __post_init__(self) -> None:
        if self.kind not in get_args(SurrogateKind):
            names = ", ".join(get_args(SurrogateKind))
            raise FirstspikeError(f"Unknown surrogate {self.kind!r}: choose one of {names}.")
        if not self.alpha > 0:
            raise FirstspikeError(f"The surrogate's alpha must be positive, not {self.alpha}.")

    def derivative(self, overdrive: Tensor) -> Tensor:
        """The surrogate derivative at `overdrive` = membrane - threshold, elementwise."""
        alpha = self.alpha
        match self.kind:
            case "atan":
                return alpha / 2 / (1 + (math.pi / 2 * alpha * overdrive) ** 2)
            case "sigmoid":
                sigmoid = torch.sigmoid(alpha * overdrive)
                return alpha * sigmoid * (1 - sigmoid)
            case "triangle":
                return alpha * (1 - alpha * overdrive.abs()).clamp(min=0)
            case "rectangular":
                return alpha * (overdrive.abs() < 1 / (2 * alpha)).to(overdrive.dtype)


ATAN = Surrogate()
