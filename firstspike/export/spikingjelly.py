"""The AMOS neuron for SpikingJelly networks (SpikingJelly 2.0, which is not installed with firstspike)."""

from typing import Any

import torch
from torch import Tensor, nn

from firstspike import kernels
from firstspike.errors import FirstspikeError
from firstspike.export.plain import Neurons, Pool, plain_layers
from firstspike.functional.neuron import check_tau, first_crossing, integrate
from firstspike.functional.surrogate import ATAN, Surrogate
from firstspike.models import Network

try:
    from spikingjelly.activation_based import base, layer
except ImportError as error:
    raise FirstspikeError(
        f"This needs SpikingJelly 2.0, which could not be imported ({error}): pip install spikingjelly==2.0.0."
    ) from error

_SPENT = -1
"""The step count of a node that has run a whole sample at once, and kept no membrane of it."""


class AMOSNode(base.MemoryModule):  # type: ignore[misc]
    """At-most-one-spike neurons as a SpikingJelly node, in step modes `s` and `m`.

        H[t] = H[t-1] + X[t]    (LIF with tau)        S[t] = (1 - F[t-1]) * step(H[t] - V)        F[t] = F[t-1] + S[t]

    with gradients through the mask. Multi-step mode is one fused kernel (Triton on a GPU, numba on a CPU) over the
    whole sample; single-step mode keeps `v`, `fired` and `t`. Both are reset by `functional.reset_net`.

    Args:
        v_threshold: V.
        tau: None for IF, the time constant in steps (>= 1) for LIF.
        surrogate: of firstspike, what stands in for the derivative of the step function.
        force_last: whether neurons that have not fired do so at the last step; None means while training, which is
            the rule TTFS training relies on.
        T: time steps, which single-step mode needs to know the last one; multi-step mode sees it.
    """

    def __init__(
        self,
        v_threshold: float = 1.0,
        tau: float | None = None,
        surrogate: Surrogate = ATAN,
        force_last: bool | None = None,
        T: int | None = None,
        step_mode: str = "s",
    ) -> None:
        super().__init__()
        check_tau(tau)
        self.v_threshold, self.tau, self.surrogate = v_threshold, tau, surrogate
        self.force_last, self.T = force_last, T
        self.step_mode = step_mode
        self.register_memory("v", 0.0)
        self.register_memory("fired", 0.0)
        self.register_memory("t", 0)

    def single_step_functional_forward(
        self, inputs: tuple[Tensor, ...], states: tuple[Any, ...], **kwargs: object
    ) -> tuple[tuple[Tensor, ...], tuple[Any, ...]]:
        """One step: current `[N, *]` and (v, fired, t) in, spikes and the next state out."""
        (current,), (v, fired, t) = inputs, states
        last = self._is_last(t)
        drive = current.to(torch.promote_types(current.dtype, torch.float32))
        v = integrate(torch.zeros_like(drive) if isinstance(v, float) else v, drive, self.tau)
        crossing = first_crossing((v - self.v_threshold)[None], surrogate=self.surrogate)[0]
        spikes = 1 - fired + torch.zeros_like(v) if last else (1 - fired) * crossing
        return (spikes.to(current.dtype),), (v, fired + spikes, t + 1)

    def multi_step_functional_forward(
        self, inputs: tuple[Tensor, ...], states: tuple[Any, ...], **kwargs: object
    ) -> tuple[tuple[Tensor, ...], tuple[Any, ...]]:
        """All steps: current `[T, N, *]` in, spikes `[T, N, *]` out."""
        (current,), t = inputs, states[2]
        if t > 0:  # some single steps were taken before: go on from there
            return super().multi_step_functional_forward(inputs, states, **kwargs)  # type: ignore[no-any-return]
        self._check_fresh(t)
        spikes = kernels.amos(current, self.v_threshold, self._forces(), self.tau, self.surrogate)
        return (spikes,), (0.0, 0.0, _SPENT)

    def _forces(self) -> bool:
        return self.training if self.force_last is None else self.force_last

    def _is_last(self, t: int) -> bool:
        self._check_fresh(t)
        if self._forces() and self.T is None:
            raise FirstspikeError(
                "Training forces every neuron to fire by the last step, which single-step mode cannot know: give "
                "AMOSNode(T=...), or force_last=False."
            )
        return self._forces() and self.T is not None and t == self.T - 1

    def _check_fresh(self, t: int) -> None:
        if t == _SPENT or (self.T is not None and t >= self.T):
            raise FirstspikeError(
                "These neurons have had their sample: call functional.reset_net(net) before the next one."
            )

    def extra_repr(self) -> str:
        kind = "IF" if self.tau is None else f"LIF, tau={self.tau}"
        return f"{kind}, v_threshold={self.v_threshold}, T={self.T}, {super().extra_repr()}"


def to_spikingjelly(net: Network, step_mode: str = "m") -> nn.Sequential:
    """The fused network as a SpikingJelly network: it takes `net.encode(x)`, whole (`m`) or frame by frame (`s`)."""
    modules: list[nn.Module] = []
    for part in plain_layers(net):
        if isinstance(part, Pool):
            pool = layer.AvgPool2d if part.kind == "average" else layer.MaxPool2d
            modules.append(pool(part.size, step_mode=step_mode))
            continue
        if len(part.inputs) > 1 and not part.is_conv:
            modules.append(layer.Flatten(step_mode=step_mode))
        modules.append(_synapse(part, step_mode))
        thresholds = {float(value) for value in part.threshold.ravel()}
        if len(thresholds) > 1:
            raise FirstspikeError(f"Layer {part.name} has several thresholds; an AMOSNode has one.")
        modules.append(AMOSNode(thresholds.pop(), part.tau, T=net.T, step_mode=step_mode))
    return nn.Sequential(*modules).eval()


def _synapse(part: Neurons, step_mode: str) -> nn.Module:
    outputs, inputs, *kernel = part.weight.shape
    module: nn.Module = (
        layer.Conv2d(inputs, outputs, kernel[0], padding=part.padding, step_mode=step_mode)
        if part.is_conv
        else layer.Linear(inputs, outputs, step_mode=step_mode)
    )
    module.load_state_dict({"weight": torch.from_numpy(part.weight), "bias": torch.from_numpy(part.bias)})
    return module
