"""The AMOS neuron as a module."""

from dataclasses import dataclass, field
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from firstspike import kernels
from firstspike.errors import FirstspikeError
from firstspike.functional.neuron import NeuronState, charge, check_tau, per_channel
from firstspike.functional.surrogate import Surrogate
from firstspike.kernels import Past, Steps, Wanted

LayerState = NeuronState | Past
"""What a layer's neurons remember between steps: both have a `membrane`, say who has `fired`, and `keep` samples."""

ThresholdKind = Literal["fixed", "channel", "channel-step"]


@dataclass(frozen=True)
class Neuron:
    """How a neuron charges and fires."""

    threshold: float = 1.0
    """Firing threshold V (the starting value where it is learned)."""
    tau: float | None = None
    """Time constant of a leaky (LIF) neuron, at least 1; none for IF."""
    learn_threshold: ThresholdKind = "fixed"
    """One fixed threshold, or learned ones per channel, or per channel and time step."""
    surrogate: Surrogate = field(default_factory=Surrogate)
    """What stands in for the step function's derivative."""

    def __post_init__(self) -> None:
        check_tau(self.tau)
        if not self.threshold > 0:
            raise FirstspikeError(f"The threshold must be positive, not {self.threshold}.")
        if self.learn_threshold not in get_args(ThresholdKind):
            names = ", ".join(get_args(ThresholdKind))
            raise FirstspikeError(f"Unknown learn_threshold {self.learn_threshold!r}: choose one of {names}.")


class AMOS(nn.Module):
    """At-most-one-spike neurons: current `[T, B, C, ...]` in, spikes of the same shape out.

    Nothing is remembered between calls. `step` takes and returns the state for running step by step.
    Learned thresholds need to know their `channels` and, per step, `T`; so does a threshold that falls.

    Args:
        fall: let the threshold fall evenly over the T steps, from V (1 + lift + fall) to V (1 + lift - fall).
    """

    threshold: float | Tensor

    def __init__(
        self,
        neuron: Neuron | None = None,
        channels: int | None = None,
        T: int | None = None,
        fall: float = 0.0,
        lift: float = 0.0,
    ) -> None:
        super().__init__()
        self.neuron = neuron = neuron or Neuron()
        self.force_last: bool | None = None
        """Whether the last step is forced to fire; None means while training, which is the paper's rule."""
        if neuron.learn_threshold == "fixed" and not fall and not lift:
            self.threshold = neuron.threshold
            return
        if fall or lift:
            self._let_fall(fall, lift, channels, T)
            return
        if channels is None or (neuron.learn_threshold == "channel-step" and T is None):
            raise FirstspikeError(
                f"learn_threshold={neuron.learn_threshold!r} needs the number of channels, and T where it is "
                "per step: give AMOS(neuron, channels=..., T=...)."
            )
        shape = (channels,) if neuron.learn_threshold == "channel" else (T or 1, channels)
        self.threshold = nn.Parameter(torch.full(shape, float(neuron.threshold)))

    def _let_fall(self, fall: float, lift: float, channels: int | None, T: int | None) -> None:
        if self.neuron.learn_threshold != "fixed":
            raise FirstspikeError(
                "A threshold is either learned or falls: leave out fall or learn_threshold."
            )
        if channels is None or T is None:
            raise FirstspikeError(
                "A threshold that falls needs the number of channels and T: give AMOS(neuron, channels=..., T=...)."
            )
        shares = torch.linspace(fall, -fall, T) if T > 1 else torch.zeros(1)
        values = self.neuron.threshold * (1 + lift + shares)[:, None].repeat(1, channels)
        self.register_buffer("threshold", values, persistent=False)

    def forward(
        self,
        current: Tensor,
        bias: Tensor | None = None,
        steps: int | None = None,
        pool: int = 1,
        contiguous: bool = False,
    ) -> Tensor:
        """Spikes for `current`, to which `bias` `[C]` is added at every step.

        The last three arguments say how the kernel can save work: see `kernels.amos`.
        """
        force_last = self.training if self.force_last is None else self.force_last
        threshold = self.threshold_for(current, steps)
        tau, surrogate = self.neuron.tau, self.neuron.surrogate
        return kernels.amos(current, threshold, force_last, tau, surrogate, bias, steps, pool, contiguous)

    def membrane(self, current: Tensor, bias: Tensor | None = None) -> Tensor:
        """The membrane potential `[T, B, C, ...]` that `forward` compares with the threshold."""
        return charge(current, self.neuron.tau, bias)

    def steps(
        self,
        current: Tensor,
        state: LayerState | None,
        t: int,
        bias: Tensor | None = None,
        steps: int | None = None,
        wanted: Wanted | None = None,
    ) -> Steps:
        """Steps t, t+1, ... for currents `[n, B, C, ...]`: see `kernels.amos_steps`."""
        return kernels.amos_steps(current, state, t, self.threshold, self.neuron.tau, bias, steps, wanted)

    def step(
        self, current: Tensor, state: LayerState | None, t: int, bias: Tensor | None = None
    ) -> tuple[Tensor, LayerState]:
        """Step `t`: current `[B, C, ...]` and state (None before the first step) in, spikes and state out."""
        spikes, _, state = self.steps(current[None], state, t, bias)
        return spikes[0], state

    def threshold_for(self, current: Tensor, steps: int | None = None) -> float | Tensor:
        """The threshold, shaped to meet a current `[T, B, C, ...]` of possibly fewer steps than T.

        A current `[1, B, C, ...]` may stand for `steps` of them.
        """
        if not isinstance(self.threshold, Tensor):
            return self.threshold
        learned = self.threshold if self.threshold.dim() == 1 else self.threshold[: steps or len(current)]
        return per_channel(learned, current.dim() - 1)

    def extra_repr(self) -> str:
        kind = "IF" if self.neuron.tau is None else f"LIF, tau={self.neuron.tau}"
        return f"{kind}, threshold={self.neuron.threshold}, {self.neuron.surrogate}"
