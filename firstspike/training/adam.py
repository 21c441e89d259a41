"""AdamW that updates large normalised weights without a gradient of their size."""

from typing import Any

import torch
from torch import Tensor, nn

from firstspike.kernels import adam
from firstspike.models import Network, Twin
from firstspike.nn import Linear
from firstspike.nn.deferred import Deferred

LARGE = 2**22
"""Weights from which a launch of its own is worth it: a gradient of 16 MB."""


def large_synapses(net: nn.Module) -> list[Linear]:
    """The synapses of our own networks whose gradients `DeferringAdamW` may take.

    A user's own module may do anything with a weight and its gradient, and is left alone; so are convolutions,
    which may be recomputed part by part.
    """
    if not isinstance(net, Network | Twin):
        return []
    return [
        module
        for module in net.modules()
        if isinstance(module, Linear)
        and (module.normalisation.kind, module.normalisation.per) == ("weight", "channel")
        and module.weight.numel() >= LARGE
        and adam.takes(module.weight, module.gain)
    ]


class DeferringAdamW(torch.optim.AdamW):
    """`torch.optim.AdamW`, and the same in one kernel for the weights of some `synapses` (see `nn.deferred`).

    Gradients are deferred from its `zero_grad` (call this one, not the network's) to its step. A weight that has a
    gradient of its own as well, from something else in the loss, is updated as any other. The state is that
    of AdamW, whose checkpoints it reads and writes.
    """

    def __init__(self, params: Any, lr: float, betas: tuple[float, float], synapses: list[Linear]) -> None:
        super().__init__(params, lr, betas, fused=True)
        self.synapses = {synapse.weight: synapse for synapse in synapses}

    def zero_grad(self, set_to_none: bool = True) -> None:
        super().zero_grad(set_to_none)
        for synapse in self.synapses.values():
            synapse.defer()

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for weight in group["params"]:
                deferred = self.synapses[weight].deferred if weight in self.synapses else None
                if deferred is None:
                    continue
                deferred.is_open = False
                if weight.grad is None and deferred.grad is not None:
                    self._update(weight, deferred, group)
                else:
                    deferred.settle()
        super().step()

    def _update(self, weight: Tensor, deferred: Deferred, group: dict[str, Any]) -> None:
        state, lr = self.state[weight], group["lr"]
        if not state:
            state["step"] = torch.zeros((), device=weight.device)
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(weight), torch.zeros_like(weight)
        state["step"] += 1
        moments = state["exp_avg"], state["exp_avg_sq"]
        rate = lr if isinstance(lr, Tensor) else torch.full((), lr, device=weight.device)
        deferred.adam(moments, state["step"], rate, group["betas"], group["eps"], group["weight_decay"])
