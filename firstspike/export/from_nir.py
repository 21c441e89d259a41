"""From NIR: a graph of ours, or a foreign one that is a feed-forward chain of layers we have."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from firstspike.errors import FirstspikeError
from firstspike.export.nir_chain import chain, refuse
from firstspike.export.nir_file import read_nir
from firstspike.export.plain import Neurons
from firstspike.export.reset import SPIKES, can_fire_again, input_range
from firstspike.export.to_nir import FORMAT
from firstspike.functional.encoding import Encoding
from firstspike.models import ZOO, Network, NetworkConfig, build_from, resolve
from firstspike.models.grammar import Token
from firstspike.nn import Neuron, Normalisation, Spiking

if TYPE_CHECKING:
    import nir


def from_nir(
    source: "nir.NIRGraph | str | Path", T: int | None = None, encoding: Encoding | None = None
) -> Network:
    """A network from a NIR graph or file.

    Spikes are those of the graph: v > v_threshold becomes H >= V with V the float32 just above. What our networks
    cannot express is refused by the name of its node, above all neurons that could fire twice.

    Args:
        T: time steps, where the graph's metadata does not tell (that of our own graphs does).
        encoding: how input becomes current, likewise; `frames`, one input a step, where nothing is said.
    """
    graph = read_nir(source) if isinstance(source, str | Path) else source
    told = _told(graph.metadata)
    layers = chain(graph)
    if T is not None and told.get("T", T) != T:
        raise FirstspikeError(f"This graph was made for T = {told['T']} steps: leave out T = {T}.")
    steps = told.get("T", T)
    if steps is None:
        raise FirstspikeError("This graph does not say how many steps it runs for: give T.")
    tokens = [token for token, _, _ in layers]
    neurons = [layer for _, layer, _ in layers if layer is not None]
    config = NetworkConfig(
        architecture=_architecture(tokens),
        input_shape=tuple(map(int, graph.nodes[_input(graph)].input_type["input"])),
        T=steps,
        encoding=encoding or told.get("encoding", "frames"),
        neuron=_neuron(neurons),
        normalisation=Normalisation("none", gain=False, bias=any(layer.bias.any() for layer in neurons)),
        input_mean=told.get("input_mean", (0.0,)),
        input_std=told.get("input_std", (1.0,)),
    )
    _check_once_only(layers, config)
    return _filled(config, neurons)


def _told(metadata: dict[str, Any]) -> dict[str, Any]:
    """What our metadata says; nothing for a graph that is not ours."""
    if not str(metadata.get("made_by", "")).startswith("firstspike"):
        return {}
    try:
        if int(metadata["format"]) != FORMAT:
            raise FirstspikeError(
                f"This graph was written by {metadata['made_by']} in format {metadata['format']}; this version reads "
                f"format {FORMAT}: read it with the version that wrote it."
            )
        return {
            "T": int(metadata["T"]),
            "encoding": str(metadata["encoding"]),
            "input_mean": tuple(map(float, metadata["input_mean"])),
            "input_std": tuple(map(float, metadata["input_std"])),
        }
    except (KeyError, TypeError, ValueError) as error:
        raise FirstspikeError(
            f"The metadata of this graph is damaged: {type(error).__name__} {error}."
        ) from error


def _input(graph: "nir.NIRGraph") -> str:
    return str(next(iter(graph.inputs)))


def _architecture(tokens: list[Token]) -> str:
    """The zoo's name for these layers, or else the architecture string."""
    named = (name for name in ZOO if resolve(name) == tokens)
    return next(named, "-".join(map(str, tokens)))


def _neuron(layers: list[Neurons]) -> Neuron:
    """How all neurons charge and fire; where thresholds differ they are per channel."""
    taus = {layer.tau for layer in layers}
    if len(taus) > 1:
        raise FirstspikeError(
            f"The neurons of this graph have several time constants ({', '.join(map(str, taus))}); a network of ours "
            "has one."
        )
    thresholds = np.unique(np.concatenate([layer.threshold for layer in layers]))
    if len(thresholds) == 1 and thresholds[0] > 0:
        return Neuron(threshold=float(thresholds[0]), tau=taus.pop())
    return Neuron(tau=taus.pop(), learn_threshold="channel")


def _check_once_only(
    layers: list[tuple[Token, Neurons | None, NDArray[np.float64]]], config: NetworkConfig
) -> None:
    inputs = input_range(config)
    for _, layer, reset in layers:
        if layer is None:
            continue
        if can_fire_again(layer, reset, inputs, config.T).any():
            refuse(
                layer.name,
                f"resets to {reset.max():g} and could fire again within T = {config.T} steps, but our neurons "
                "fire at most once",
            )
        inputs = SPIKES


def _filled(config: NetworkConfig, layers: list[Neurons]) -> Network:
    """The network of `config` with the weights of these layers."""
    with torch.random.fork_rng(devices=[]):  # drawing the weights that are replaced must not be felt outside
        net = build_from(config)
    spiking = [module for module in net.layers if isinstance(module, Spiking)]
    with torch.no_grad():
        for module, layer in zip(spiking, layers, strict=True):
            module.synapse.weight.copy_(torch.from_numpy(layer.weight))
            if module.synapse.bias is not None:
                module.synapse.bias.copy_(torch.from_numpy(layer.bias))
            if isinstance(module.neuron.threshold, torch.Tensor):
                module.neuron.threshold.copy_(torch.from_numpy(layer.threshold))
    return net.eval()
