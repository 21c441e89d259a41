"""What each layer does, whether that is a collapse, and what to try against it.

| kind      | what happened                                                    |
|-----------|------------------------------------------------------------------|
| silent    | hardly a neuron fires before the last step, which training forces |
| instant   | every neuron fires at step 0, whatever the input                  |
| tied      | several outputs fire first at once, in nearly every sample        |
| vanishing | next to no gradient reaches a layer's weights                     |
| nan       | a loss, gradient or weight is NaN or infinite                     |
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from firstspike.config import to_dict
from firstspike.models import Network
from firstspike.nn import Output, Spiking

CollapseKind = Literal["silent", "instant", "tied", "vanishing", "nan"]

QUIET_LAYER, QUIET_OUTPUT = 1e-3, 0.02
"""A layer with fewer of its neurons firing before the last step, or an output with fewer samples, is silent."""
INSTANT = 0.995
"""A layer with more of its neurons firing at step 0 passes nothing on."""
ALL_TIED = 0.95
"""An output with more of its samples tied gives no answer."""
VANISHED, NO_GRADIENT = 1e-5, 1e-12
"""A gradient this small beside its weight moves nothing: as a share of the largest such ratio, or by itself."""
LEARNED = 0.9
"""Above this accuracy a network without gradients has learned all there is, rather than nothing."""


@dataclass(frozen=True)
class LayerState:
    """One layer at one moment of training."""

    weight: float
    """Norm of the weight."""
    gradient: float
    """Norm of the weight's gradient in the last training step."""
    fired: tuple[float, ...] = ()
    """Share of the neurons that fire at step 0, 1, ..., T-1, when none is forced to; empty for ReLU units."""
    silent: float = 0.0
    """Share of the neurons that never fire."""

    @property
    def early(self) -> float:
        """Share that fires before the last step, where training tells times apart."""
        return sum(self.fired[:-1])


@dataclass(frozen=True)
class Snapshot:
    """All layers, in order, and the output."""

    layers: dict[str, LayerState]
    answered: float | None = None
    """Share of the samples in which an output fires before the last step; None for ReLU units."""
    tied: float = 0.0
    """Share of those in which more than one output fires first."""
    accuracy: float = 0.0
    """Share of the samples whose first output (lowest index of a tie), or largest logit, is right."""

    def as_dict(self) -> dict[str, Any]:
        return to_dict(self)


@dataclass(frozen=True)
class Collapse:
    """A collapse: its kind, the layer it began in, and a sentence or two for the user."""

    kind: CollapseKind
    layer: str
    sentence: str


def layers_of(model: nn.Module) -> Iterator[tuple[str, Spiking]]:
    """The layers of neurons with their names: those of the network, or their paths in a module of the user's."""
    names: dict[nn.Module, str] = {}
    for net in model.modules():
        if isinstance(net, Network):
            names |= dict(zip(net.layers, net.names, strict=True))
    for path, module in model.named_modules():
        if isinstance(module, Spiking):
            yield names.get(module, path), module


@torch.no_grad()
def observe(model: nn.Module, images: Tensor, labels: Tensor) -> Snapshot:
    """Run `images` as in inference, and read the layers' firing and the gradients of the last training step.

    The device is waited for once, at the end. Nothing is left behind: no random number is drawn, no batch
    statistic moves.
    """
    layers = dict(layers_of(model))
    if not layers:
        return Snapshot({})
    weights: list[Tensor] = [layer.synapse.weight for layer in layers.values()]
    gradients = [layer.synapse.gradient_norm() for layer in layers.values()]
    norms = torch.stack([*torch._foreach_norm(weights), *gradients]).float()
    shares, output = _run(model, images, layers)
    lengths = [len(shares[name]) if name in shares else 0 for name in layers]
    read = torch.cat([norms, _answers(output, labels), *shares.values()]).tolist()
    values = iter(read)
    sizes, slopes = ([next(values) for _ in layers] for _ in range(2))
    answered, tied, accuracy = next(values), next(values), next(values)
    states = {}
    for name, size, slope, length in zip(layers, sizes, slopes, lengths, strict=True):
        fired = tuple(next(values) for _ in range(length))
        states[name] = LayerState(size, slope, fired, max(0.0, 1 - sum(fired)) if fired else 0.0)
    spiking = isinstance(output, Output)
    return Snapshot(states, answered if spiking else None, tied, accuracy)


def _run(model: nn.Module, images: Tensor, layers: dict[str, Spiking]) -> tuple[dict[str, Tensor], Any]:
    """The share of each layer's neurons firing at each step `[T]`, in the layers' order, and the output."""
    shares: dict[str, Tensor] = {}

    def watch(name: str, layer: Spiking) -> torch.utils.hooks.RemovableHandle:
        def note(_: nn.Module, __: tuple[Tensor, ...], out: Tensor | Output) -> None:
            spikes = out.spikes if isinstance(out, Output) else out
            shares[name] = spikes.flatten(1).mean(1, dtype=torch.float32)

        return layer.register_forward_hook(note)

    handles = [watch(name, layer) for name, layer in layers.items()]
    modes = [(module, module.training) for module in model.modules()]
    try:
        output = model.eval()(images)
    finally:
        for module, training in modes:
            module.training = training
        for handle in handles:
            handle.remove()
    return {name: shares[name] for name in layers if name in shares}, output


def _answers(output: Output | Tensor, labels: Tensor) -> Tensor:
    """Shares of the samples answered before the last step, of those tied, and of all that are right, `[3]`."""
    if not isinstance(output, Output):
        right = (output.argmax(1) == labels).float().mean()
        return torch.stack([torch.ones_like(right), torch.zeros_like(right), right])
    times = output.spike_times
    first = times.amin(1)
    answered = first < len(output.spikes) - 1
    tied = answered & ((times == first[:, None]).sum(1) > 1)
    right = (times.argmin(1) == labels).float().mean()
    return torch.stack([answered.float().mean(), tied.sum() / answered.sum().clamp(min=1), right])


def find_collapses(snapshot: Snapshot) -> list[Collapse]:
    """What is wrong, each kind named once, at the layer where it begins."""
    if not snapshot.layers:
        return []
    silent = _silent(snapshot)
    # Behind a silent layer no gradient reaches a weight either: that is not another fault.
    found = [silent, _instant(snapshot), _tied(snapshot), None if silent else _vanishing(snapshot)]
    return [collapse for collapse in found if collapse]


def _silent(snapshot: Snapshot) -> Collapse | None:
    advice = (
        "Few steps and many layers often start so. Try the threshold loss (--loss.threshold 1 --loss.mse 0), "
        "more steps (--T), or stronger currents (--normalisation.variance)."
    )
    *hidden, last = snapshot.layers.items()
    for name, layer in hidden:
        if layer.fired and layer.early < QUIET_LAYER:
            fact = (
                f"Layer {name} is silent: {_percent(layer.early)} of its neurons fire before the last step."
            )
            return Collapse("silent", name, f"{fact} {advice}")
    if snapshot.answered is not None and snapshot.answered < QUIET_OUTPUT:
        share = _percent(snapshot.answered)
        fact = (
            f"The output layer {last[0]} is silent: in {share} of the samples it fires before the last step."
        )
        return Collapse("silent", last[0], f"{fact} {advice}")
    return None


def _instant(snapshot: Snapshot) -> Collapse | None:
    for name, layer in list(snapshot.layers.items())[:-1]:
        if len(layer.fired) > 1 and layer.fired[0] > INSTANT:
            return Collapse(
                "instant",
                name,
                f"Layer {name} fires all at once: {_percent(layer.fired[0])} of its neurons at step 0, whatever "
                "the input. Try weaker currents (--normalisation.variance), a higher --neuron.threshold, or a "
                "lower learning rate (--optimizer.lr).",
            )
    return None


def _tied(snapshot: Snapshot) -> Collapse | None:
    if not snapshot.answered or snapshot.answered < QUIET_OUTPUT or snapshot.tied < ALL_TIED:
        return None
    name, layer = list(snapshot.layers.items())[-1]
    step = max(range(len(layer.fired)), key=lambda t: layer.fired[t])
    return Collapse(
        "tied",
        name,
        f"The outputs of layer {name} tie in {_percent(snapshot.tied)} of the samples: "
        f"{_percent(layer.fired[step])} of them fire at step {step}, so no class comes first. "
        "Try a lower --loss.temperature, the squared error or the "
        "threshold loss instead of the cross-entropy (--loss.threshold 1 --loss.cross-entropy 0), or a lower "
        "learning rate (--optimizer.lr).",
    )


def _vanishing(snapshot: Snapshot) -> Collapse | None:
    ratios = {name: layer.gradient / max(layer.weight, 1e-30) for name, layer in snapshot.layers.items()}
    largest = max(ratios.values())
    if not math.isfinite(largest) or (largest < NO_GRADIENT and snapshot.accuracy > LEARNED):
        return None
    floor = max(NO_GRADIENT, VANISHED * largest)
    starved = [name for name, ratio in ratios.items() if ratio < floor]
    if not starved:
        return None
    name = starved[-1]  # gradients come from the output: it is here that they stop
    size = snapshot.layers[name].gradient
    return Collapse(
        "vanishing",
        name,
        f"The gradient vanishes at layer {name}: the norm at its weights is {size:.1e}, so it cannot learn. Try a "
        "wider surrogate (a smaller --neuron.surrogate.alpha), --normalisation.kind weight, or fewer layers.",
    )


@torch.no_grad()
def find_nan(model: nn.Module, loss: float) -> Collapse | None:
    """The first parameter that is NaN or infinite, or the loss where all parameters are finite."""
    parameters = dict(model.named_parameters())
    norms = torch.stack([norm.double() for norm in torch._foreach_norm(list(parameters.values()))])
    where = ""
    if not math.isfinite(float(norms.sum())):
        bad = (~norms.isfinite()).tolist()
        path = next(path for path, is_bad in zip(parameters, bad, strict=True) if is_bad)
        where = _layer_at(model, path)
    elif math.isfinite(loss):
        return None
    fact = f"Weights of layer {where} are NaN or infinite" if where else f"The loss is {loss}"
    return Collapse(
        "nan",
        where,
        f"{fact}: training has diverged. Lower the learning rate (--optimizer.lr, --optimizer.muon-lr), clip the "
        "gradient (--optimizer.clip 1), or warm up longer (--schedule.warmup).",
    )


def _layer_at(model: nn.Module, path: str) -> str:
    """The name of the layer that a parameter belongs to, or the parameter's own path."""
    modules = dict(model.named_modules())
    layers = {module: name for name, module in layers_of(model)}
    parts = path.split(".")
    owners = (modules.get(".".join(parts[:end])) for end in range(len(parts), 0, -1))
    return next((layers[owner] for owner in owners if isinstance(owner, Spiking)), path)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
