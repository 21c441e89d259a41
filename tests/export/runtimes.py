"""Other people's runtimes for NIR graphs, with what has to be said to them so that they do what NIR says."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from firstspike.functional import spike_times

Times = dict[str, Tensor]

NEEDS = {
    "reference": ("nir",),
    "norse": ("nir", "nirtorch", "norse"),
    "spikingjelly": ("nir", "nirtorch", "spikingjelly"),
}
"""The packages of each."""


def reference(graph: Any) -> Callable[[Tensor], Times]:
    """NIR's own definition of each node, step by step, as plainly as it can be written."""
    order, after = ["input"], dict(graph.edges)
    while order[-1] != "output":
        order.append(after[order[-1]])

    def run(frames: Tensor) -> Times:
        membrane: dict[str, Tensor] = {}
        spikes: dict[str, list[Tensor]] = {}
        for frame in frames:
            for name in order[1:-1]:
                node = graph.nodes[name]
                match type(node).__name__:
                    case "Conv2d":
                        weight, bias = torch.from_numpy(node.weight), torch.from_numpy(node.bias)
                        frame = nn.functional.conv2d(frame, weight, padding=node.padding)
                        frame = frame + bias[:, None, None]
                    case "Affine":
                        frame = frame @ torch.from_numpy(node.weight).T + torch.from_numpy(node.bias)
                    case "AvgPool2d":
                        frame = nn.functional.avg_pool2d(frame, tuple(node.kernel_size), tuple(node.stride))
                    case "Flatten":
                        frame = frame.flatten(1)
                    case "IF" | "LIF":
                        v = membrane.get(name, torch.zeros(()))
                        change = (
                            frame if type(node).__name__ == "IF" else (frame - v) / torch.from_numpy(node.tau)
                        )
                        v = v + change
                        fired = v > torch.from_numpy(node.v_threshold)
                        membrane[name] = torch.where(fired, torch.from_numpy(node.v_reset), v)
                        spikes.setdefault(name, []).append(fired.float())
                        frame = fired.float()
        return {name: once(torch.stack(frames)) for name, frames in spikes.items()}

    return run


def norse(graph: Any) -> Callable[[Tensor], Times]:
    """Norse 1.1, its modules wired by NIRTorch 2.6.

    `norse.torch.from_nir` drops v_reset, starts a neuron at v_reset instead of 0, counts NIR's Flatten from the batch
    axis, and has no AvgPool2d: those four are put right here. Convolutions, matrices and the IAF step are Norse's.
    """
    import nir
    import nirtorch
    from norse.torch.functional import iaf
    from norse.torch.utils import import_nir

    class Neurons(nn.Module):
        def __init__(self, node: Any) -> None:
            super().__init__()
            threshold, reset = torch.from_numpy(node.v_threshold), torch.from_numpy(node.v_reset)
            self.parameters_ = iaf.IAFParameters(v_th=threshold, v_reset=reset)

        def forward(self, current: Tensor, state: Any = None) -> Any:
            state = state or iaf.IAFFeedForwardState(v=torch.zeros_like(current))
            return iaf.iaf_feed_forward_step(current, state, self.parameters_)

    theirs = import_nir._import_norse_module
    modules = {
        nir.Conv2d: theirs,
        nir.Affine: theirs,
        nir.Flatten: lambda node: nn.Flatten(node.start_dim + 1),
        nir.IF: Neurons,
    }
    return watched(nirtorch.nir_to_torch(graph, modules), Neurons)


def spikingjelly(graph: Any) -> Callable[[Tensor], Times]:
    """SpikingJelly 2.0. Its neurons start at v_reset instead of 0: that one is put right here."""
    from spikingjelly.activation_based import neuron, nir_exchange

    module = nir_exchange.import_from_nir(graph, dt=1.0)
    for node in module.modules():
        if isinstance(node, neuron.IFNode):
            node.v = 0.0
            node.set_reset_value("v", 0.0)
    return watched(module, nir_exchange.from_nir._NIRStatefulModule)


def watched(module: nn.Module, neurons: Any) -> Callable[[Tensor], Times]:
    """Run a module that NIRTorch made, one step after the other, and note the spikes of its neurons."""
    spikes: dict[str, list[Tensor]] = {}
    for name, child in module.named_modules():
        if isinstance(child, neurons):

            def note(_: nn.Module, __: Any, out: Any, name: str = name) -> None:
                spikes.setdefault(name, []).append(out[0])

            child.register_forward_hook(note)

    def run(frames: Tensor) -> Times:
        spikes.clear()
        state = None
        with torch.no_grad():
            for frame in frames:
                _, state = module(frame) if state is None else module(frame, state)
        return {name: once(torch.stack(frames)) for name, frames in spikes.items()}

    return run


def once(spikes: Tensor) -> Tensor:
    """Spike times of neurons that fired at most once, which is part of what is tested."""
    assert spikes.sum(0).max() <= 1, "a neuron fired twice"
    return spike_times(spikes)
