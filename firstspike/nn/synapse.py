"""Synapses: weights between layers of neurons, normalised while training and fused afterwards."""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, Self, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firstspike import kernels
from firstspike.errors import FirstspikeError
from firstspike.functional.normalisation import (
    NormalisationScope,
    ettfs_init_,
    ettfs_std,
    fan_in,
    kaiming_init_,
    scale_channels,
)
from firstspike.nn.deferred import Deferred

NormalisationKind = Literal["weight", "batch", "none"]
Initialisation = Literal["ettfs", "kaiming"]


@dataclass(frozen=True)
class Normalisation:
    """How a synapse keeps its current in the range where neurons can fire."""

    kind: NormalisationKind = "weight"
    """Normalise the weights, the current over the batch, or nothing."""
    per: NormalisationScope = "channel"
    """Weight statistics per output channel, or per layer as the paper's formula has it."""
    gain: bool = True
    """Learn a gain per output channel (the affine's gamma)."""
    bias: bool = True
    """Learn a bias per output channel, added at every step (the affine's beta)."""
    init: Initialisation = "ettfs"
    """ETTFS-init, or the Kaiming baseline."""
    variance: float = 1.0
    """Target mean variance of the current per step (v)."""
    unit_weights: bool = False
    """Store weights with deviation 1, so that one learning rate suits all layers (weight kind only)."""

    def __post_init__(self) -> None:
        for name, value, kinds in (
            ("kind", self.kind, NormalisationKind),
            ("per", self.per, NormalisationScope),
            ("init", self.init, Initialisation),
        ):
            if value not in get_args(kinds):
                names = ", ".join(get_args(kinds))
                raise FirstspikeError(f"Unknown normalisation {name} {value!r}: choose one of {names}.")
        if not self.variance > 0:
            raise FirstspikeError(f"The target variance must be positive, not {self.variance}.")
        if self.unit_weights and self.kind != "weight":
            raise FirstspikeError("unit_weights needs kind='weight', which brings the weights back to scale.")


class Synapse(nn.Module):
    """What `Linear` and `Conv2d` share: weight, gain and bias, their normalisation and their fusion.

    A current is `gain * (normalised weight applied to the spikes) + bias`, the bias at every step.
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, shape: tuple[int, ...], T: int, normalisation: Normalisation | None) -> None:
        super().__init__()
        self.normalisation = norm = normalisation or Normalisation()
        self.sum_over_processes: Callable[[Tensor], Tensor] | None = None
        """Differentiable sum over the processes that share a batch, so that its statistics are of all of it."""
        self.deferred: Deferred | None = None
        """Where the gradient of the normalised weight is left, for an optimiser that does the rest."""
        self.T = T
        out = shape[0]
        if norm.kind == "weight" and norm.per == "channel" and math.prod(shape[1:]) < 2:
            raise FirstspikeError(
                "A channel with a single weight is all mean and no deviation: normalise per layer, or not at all."
            )
        self.weight = nn.Parameter(torch.empty(shape))
        self.gain = nn.Parameter(torch.ones(out)) if norm.gain else None
        self.bias = nn.Parameter(torch.zeros(out)) if norm.bias else None
        if norm.kind == "batch":
            self.register_buffer("running_mean", torch.zeros(out))
            self.register_buffer("running_var", torch.ones(out))
        if norm.init == "kaiming":
            kaiming_init_(self.weight)
        else:
            ettfs_init_(self.weight, T, norm.variance)
        if norm.unit_weights:
            with torch.no_grad():
                self.weight.div_(self.weight.std())

    def apply_weight(self, spikes: Tensor, weight: Tensor) -> Tensor:
        """The linear map alone: `[N, in, ...]` in, `[N, out, ...]` out."""
        raise NotImplementedError

    def check_input(self, spikes: Tensor) -> Tensor:
        """Refuse spikes this synapse cannot take, and bring the others into its shape `[T, B, in, ...]`."""
        raise NotImplementedError

    def forward(self, spikes: Tensor) -> Tensor:
        """Current `[T, B, out, ...]` for spikes `[T, B, in, ...]`."""
        current, bias = self.current(spikes)
        if bias is None:
            return current
        return current + bias.to(current.dtype).view(-1, *[1] * (current.dim() - 3))

    def current(self, spikes: Tensor) -> tuple[Tensor, Tensor | None]:
        """The current without its bias, and the bias `[out]`, which the neuron adds where that is free.

        A constant input (time stride 0, see `functional.direct`) is worked out once, not T times.
        """
        spikes = self.check_input(spikes)
        T, B = spikes.shape[:2]
        constant = T > 1 and spikes.stride(0) == 0
        frames = (spikes[:1] if constant else spikes).flatten(0, 1)
        bias: Tensor | None = self.bias
        if self.deferred is not None and self.deferred.is_open and torch.is_grad_enabled():
            current = self.deferred.linear(frames)
        else:
            weight, bias = self.effective(spikes.dtype)
            current = self.apply_weight(frames, weight)
        if self.normalisation.kind == "batch" and self.training:
            current, bias = self.normalise_batch(current), None
        current = current.view(1 if constant else T, B, *current.shape[1:])
        return current.expand(T, *current.shape[1:]), bias

    def effective(self, dtype: torch.dtype) -> tuple[Tensor, Tensor | None]:
        """The weight (in `dtype`) and bias that make up the current.

        Under batch normalisation these are the running statistics' while evaluating, and the plain
        weight while training.
        """
        norm = self.normalisation
        if norm.kind == "weight":
            return kernels.normalise_weight(self.weight, self.std, norm.per, self.gain, dtype), self.bias
        if norm.kind == "batch":
            if self.training:
                return self.weight.to(dtype), None
            scale = torch.rsqrt(self.running_var + 1e-5) * (1.0 if self.gain is None else self.gain)
            shift = 0.0 if self.bias is None else self.bias
            return scale_channels(self.weight, scale).to(dtype), shift - self.running_mean * scale
        weight = self.weight if self.gain is None else scale_channels(self.weight, self.gain)
        return weight.to(dtype), self.bias

    @property
    def std(self) -> float:
        """The deviation that weights are normalised to."""
        return ettfs_std(fan_in(self.weight), self.T, self.normalisation.variance)

    def set_steps(self, T: int) -> None:
        """Be of a network of T steps with the same weights: their deviation stays, so v is another."""
        variance = self.normalisation.variance * self.T / T
        self.T, self.normalisation = T, replace(self.normalisation, variance=variance)

    def gradient_norm(self) -> Tensor:
        """|dL/dW| of the last backward pass, deferred or not; 0 where there was none."""
        if self.weight.grad is not None:
            return self.weight.grad.norm()  # type: ignore[no-any-return]
        if self.deferred is not None and self.deferred.squares is not None:
            return self.deferred.squares.sum().sqrt()
        return self.weight.new_zeros(())

    def normalise_batch(self, current: Tensor) -> Tensor:
        """Batch normalisation of `[N, out, ...]`, all frames of the batch together."""
        if self.sum_over_processes is None:
            mean, var = self.running_mean, self.running_var
            return F.batch_norm(
                current, mean, var, self.gain, self.bias, training=True, momentum=0.1, eps=1e-5
            )
        others = [axis for axis in range(current.dim()) if axis != 1]
        wide = current.float()
        count = wide.new_full((len(self.weight),), current.numel() / len(self.weight))
        sums = self.sum_over_processes(torch.stack([wide.sum(others), wide.square().sum(others), count]))
        mean, count = sums[0] / sums[2], sums[2].detach()
        var = (sums[1] / sums[2] - mean.square()).clamp(min=0)
        with torch.no_grad():
            self.running_mean.lerp_(mean, 0.1)
            self.running_var.lerp_(var * count / (count - 1), 0.1)
        scale = torch.rsqrt(var + 1e-5) * (1.0 if self.gain is None else self.gain)
        shift = (0.0 if self.bias is None else self.bias) - mean * scale
        shape = (-1, *[1] * (current.dim() - 2))
        return (wide * scale.view(shape) + shift.view(shape)).to(current.dtype)

    def fuse(self) -> Self:
        """A plain copy of this synapse: normalisation, gain and bias folded into one weight and one bias."""
        with torch.no_grad():
            training, self.training = self.training, False
            weight, bias = self.effective(self.weight.dtype)
            self.training = training
            fused = copy.deepcopy(self)
            fused._parameters, fused._buffers = {}, {}
            fused.normalisation = fused_normalisation(self.normalisation, bias is not None)
            fused.weight = nn.Parameter(weight.clone())
            fused.gain = fused.deferred = None
            fused.bias = None if bias is None else nn.Parameter(bias.clone())
        return fused.eval()


def fused_normalisation(norm: Normalisation, bias: bool) -> Normalisation:
    """What is left of a normalisation once it is folded into the weights."""
    return replace(norm, kind="none", gain=False, bias=bias, unit_weights=False)


class Linear(Synapse):
    """Fully connected synapses: `[T, B, ...]` with `inputs` values a sample in, `[T, B, outputs]` out."""

    def __init__(self, inputs: int, outputs: int, T: int, normalisation: Normalisation | None = None) -> None:
        super().__init__((outputs, inputs), T, normalisation)

    def apply_weight(self, spikes: Tensor, weight: Tensor) -> Tensor:
        return F.linear(spikes, weight)

    def defer(self) -> None:
        """Leave the gradient of the normalised weight, from now on, to an optimiser that does the rest."""
        self.deferred = Deferred(self.weight, self.gain, self.std)

    def check_input(self, spikes: Tensor) -> Tensor:
        if spikes.dim() < 3:
            raise FirstspikeError(
                f"Linear takes [T, B, features], but was given {list(spikes.shape)}: add the missing axes."
            )
        if spikes.dim() > 3:
            constant = spikes.stride(0) == 0 and spikes.shape[0] > 1
            flat = (spikes[:1] if constant else spikes).flatten(2)
            spikes = flat.expand(spikes.shape[0], *flat.shape[1:]) if constant else flat
        if spikes.shape[2] != self.weight.shape[1]:
            raise FirstspikeError(
                f"This Linear layer takes {self.weight.shape[1]} inputs a sample, but was given "
                f"{spikes.shape[2]} (shape {list(spikes.shape)}): check the layer before it."
            )
        return spikes

    def extra_repr(self) -> str:
        return f"{self.weight.shape[1]} -> {self.weight.shape[0]}, {self.normalisation.kind} normalisation"


class Conv2d(Synapse):
    """Convolution with stride 1: `[T, B, in, H, W]` in, `[T, B, out, H', W']` out."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int,
        T: int,
        normalisation: Normalisation | None = None,
        padding: int = 0,
    ) -> None:
        super().__init__((outputs, inputs, kernel, kernel), T, normalisation)
        self.padding = padding

    def apply_weight(self, spikes: Tensor, weight: Tensor) -> Tensor:
        return F.conv2d(spikes, weight, padding=self.padding)

    def check_input(self, spikes: Tensor) -> Tensor:
        channels = self.weight.shape[1]
        if spikes.dim() != 5 or spikes.shape[2] != channels:
            raise FirstspikeError(
                f"This Conv2d layer takes [T, B, {channels}, H, W], but was given {list(spikes.shape)}: "
                "check the number of channels and the axes."
            )
        return spikes

    def extra_repr(self) -> str:
        out, inputs, kernel, _ = self.weight.shape
        norm = self.normalisation.kind
        return f"{inputs} -> {out}, kernel {kernel}, padding {self.padding}, {norm} normalisation"
