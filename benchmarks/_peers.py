"""SCNN6 in other frameworks, for comparison, written as their own tutorials would.

Plain convolutions with bias, no normalisation: less work than ours, so that no difference is owed to it.
The folder `carry/peers` stands in for an installation (pure Python; `pip install --no-deps --target`).
"""

import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from _gpu import ROOT
from torch import Tensor, nn

sys.path.append(str(ROOT / "carry" / "peers"))

WIDTHS = (256, 256, 256, 0, 256, 256, 256, 0)
"""SCNN6's convolutions; 0 stands for pooling."""

Step = Callable[[], object]


def missing(package: str) -> str | None:
    """Why a peer cannot be measured, or None."""
    try:
        __import__(package)
    except ImportError as error:
        return str(error)
    return None


def training_step(
    net: nn.Module, output: Callable[[Tensor], Tensor], batch: int, channels_last: bool
) -> Step:
    """Forward, mean squared error, backward and Adam in bf16 autocast; `output` gives logits `[B, 10]`."""
    layout = torch.channels_last if channels_last else torch.contiguous_format
    net = net.cuda().to(memory_format=layout)  # type: ignore[call-overload]
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-4, fused=True)
    images = torch.randn(batch, 3, 32, 32, device="cuda").to(memory_format=layout)
    target = F.one_hot(torch.randint(10, (batch,), device="cuda"), 10).float()

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            logits = output(images)
        F.mse_loss(logits.float(), target).backward()
        optimizer.step()

    return step


def spikingjelly(T: int, batch: int, channels_last: bool, neuron: Callable[[], nn.Module]) -> Step:
    """SpikingJelly's multi-step layers around `neuron`."""
    from spikingjelly.activation_based import functional, layer

    modules: list[nn.Module] = []
    channels = 3
    for width in WIDTHS:
        if width:
            modules += [layer.Conv2d(channels, width, 3, padding=1, step_mode="m"), neuron()]
            channels = width
        else:
            modules.append(layer.AvgPool2d(2, step_mode="m"))
    modules += [layer.Flatten(step_mode="m"), layer.Linear(256 * 64, 4096, step_mode="m"), neuron()]
    modules += [layer.Linear(4096, 10, step_mode="m"), neuron()]
    net = nn.Sequential(*modules)

    def output(images: Tensor) -> Tensor:
        functional.reset_net(net)
        return net(images.expand(T, *images.shape)).mean(0)  # type: ignore[no-any-return]

    return training_step(net, output, batch, channels_last)


def if_node() -> nn.Module:
    """SpikingJelly's integrate-and-fire neuron, multi-step, on the backend it picks itself."""
    from spikingjelly.activation_based import neuron, surrogate

    node: nn.Module = neuron.IFNode(surrogate_function=surrogate.ATan(), detach_reset=True, step_mode="m")
    return node


class LoopAMOS(nn.Module):
    """The paper's neuron as its formulas read: a Python loop over time, the last spike forced."""

    def __init__(self, run: Callable[[Tensor], Tensor] | None = None) -> None:
        super().__init__()
        self.run = run or _amos_loop

    def forward(self, current: Tensor) -> Tensor:
        return self.run(current)


def compiled_loop() -> nn.Module:
    """The same through torch.compile."""
    return LoopAMOS(torch.compile(_amos_loop))


def _amos_loop(current: Tensor) -> Tensor:
    from spikingjelly.activation_based import surrogate

    fire = surrogate.ATan()
    membrane = torch.zeros_like(current[0])
    fired = torch.zeros_like(current[0])
    spikes = []
    for frame in current:
        membrane = membrane + frame
        spike = (1 - fired) * fire(membrane - 1.0)
        fired = fired + spike
        spikes.append(spike)
    spikes[-1] = spikes[-1] + 1 - fired
    return torch.stack(spikes)


def snntorch(T: int, batch: int) -> Step:
    """snnTorch's idiom: all layers once for each step, the neurons' state kept between steps."""
    import snntorch as snn

    convolutions: list[Any] = []
    channels = 3
    for width in WIDTHS:
        if width:
            convolutions.append(nn.Conv2d(channels, width, 3, padding=1))
            channels = width
    net = nn.ModuleList([*convolutions, nn.Linear(256 * 64, 4096), nn.Linear(4096, 10)])
    neurons = [snn.Leaky(beta=1.0) for _ in net]

    def output(images: Tensor) -> Tensor:
        membranes = [neuron.init_leaky() for neuron in neurons]
        total: Any = 0
        for _ in range(T):
            spikes = images
            for index, (synapse, neuron) in enumerate(zip(net, neurons, strict=True)):
                if index == len(convolutions):
                    spikes = spikes.flatten(1)
                spikes, membranes[index] = neuron(synapse(spikes), membranes[index])
                if index in (2, 5):
                    spikes = F.avg_pool2d(spikes, 2)
            total = total + spikes
        return total / T  # type: ignore[no-any-return]

    for neuron in neurons:
        neuron.cuda()
    return training_step(net, output, batch, channels_last=True)
