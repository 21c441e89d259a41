"""NIR and back."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from firstspike.errors import FirstspikeError
from firstspike.export import from_nir, to_nir
from firstspike.models import build
from firstspike.nn import Neuron, Normalisation
from tests.export.nets import KINDS, images, small
from tests.export.runtimes import reference

nir = pytest.importorskip("nir", reason="needs the extra `nir`")


def arrays(graph: Any) -> dict[str, Any]:
    """Everything in a graph, by path."""
    found: dict[str, Any] = {"edges": graph.edges, "metadata": graph.metadata}
    for name, node in graph.nodes.items():
        found |= {f"{name}.{key}": value for key, value in node.to_dict().items()}
    return found


def same(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.tobytes() == other.tobytes() and one.shape == other.shape
    return bool(np.all(one == other))


@pytest.mark.parametrize("kind", KINDS)
def test_the_graph_fires_at_the_same_times(kind: str) -> None:
    net = small(kind)
    x = images(net)
    with torch.no_grad():
        _, ours = net.fuse().trace(x)
        theirs = reference(to_nir(net))(net.encode(x))
    assert len(ours) == len(theirs)
    for (name, times), found in zip(ours.items(), theirs.values(), strict=True):
        assert torch.equal(times, found), name
        assert 0 < (times < net.T).float().mean() < 1 or net.T in (1, 40), "silent layers agree too easily"


@pytest.mark.parametrize("kind", KINDS)
def test_there_and_back_and_there_changes_nothing(kind: str, tmp_path: Path) -> None:
    net = small(kind)
    first = to_nir(net)
    nir.write(tmp_path / "first.nir", first)
    back = from_nir(tmp_path / "first.nir")
    second = to_nir(back)
    assert same(arrays(first), arrays(second))
    nir.write(tmp_path / "second.nir", second)
    assert (tmp_path / "first.nir").read_bytes() == (tmp_path / "second.nir").read_bytes()
    x = images(net)
    with torch.no_grad():
        for one, other in zip(net.fuse().trace(x)[1].values(), back.trace(x)[1].values(), strict=True):
            assert torch.equal(one, other)


def test_a_membrane_exactly_at_the_threshold_fires() -> None:
    """Where NIR's > and our >= part ways."""
    net = build("FC3", (2,), T=3, classes=2, normalisation=Normalisation("none", gain=False, bias=False))
    with torch.no_grad():
        net.readout.synapse.weight.copy_(torch.tensor([[0.5, 0.0], [0.0, np.nextafter(np.float32(0.5), 0)]]))
    x = torch.ones(1, 2)
    times = net.eval()(x).spike_times
    assert times.tolist() == [[1, 2]], "0.5 + 0.5 reaches 1; a hair less does not"
    (theirs,) = reference(to_nir(net))(net.encode(x)).values()
    assert torch.equal(times, theirs)


def test_the_metadata_says_how_to_run_it(tmp_path: Path) -> None:
    nir.write(tmp_path / "model.nir", to_nir(small("standardised")))
    told = nir.read(tmp_path / "model.nir").metadata
    assert (told["T"], told["threshold"], told["encoding"], told["classes"]) == (6, 1.0, "direct", 5)
    assert (told["input_mean"].tolist(), told["input_std"].tolist()) == ([0.28], [0.35])
    assert told["made_by"].startswith("firstspike ")


@pytest.mark.parametrize(
    ("net", "sentence"),
    [
        (
            lambda: small_with(pooling="max"),
            "2.P2 is max pooling, which NIR does not have",
        ),
        (lambda: small_with(neuron=Neuron(learn_threshold="channel-step")), "has a threshold for every step"),
        (lambda: small_with(neuron=Neuron(tau=1.0)), "leaks too fast"),
        (lambda: small_with().double(), "is in float64"),
        (lambda: broken(), "NaN"),
    ],
)
def test_what_nir_does_not_have_is_refused_by_name(net: Any, sentence: str) -> None:
    with pytest.raises(FirstspikeError, match=sentence):
        to_nir(net())


def small_with(**options: Any) -> Any:
    return build("C4K3-P2-FC5", (1, 8, 8), T=4, **options).eval()


def broken() -> Any:
    net = small_with()
    net.readout.synapse.bias.data[0] = torch.nan
    return net


def foreign(**changes: Any) -> Any:
    """A graph that another tool might have written; `changes` replace its nodes."""
    nodes = {
        "in": nir.Input(np.array([1, 4, 4])),
        "conv": conv(0.25),
        "hidden": neurons((2, 4, 4)),
        "pool": pool(nir.AvgPool2d, 2),
        "flat": nir.Flatten({"input": np.array([2, 2, 2])}, 0, -1),
        "dense": nir.Linear(np.ones((3, 8))),
        "out_neurons": neurons((3,)),
        "out": nir.Output(np.array([3])),
    }
    nodes |= changes
    names = [name for name, node in nodes.items() if node is not None]
    return nir.NIRGraph({name: nodes[name] for name in names}, list(pairwise(names)), type_check=False)


def neurons(shape: tuple[int, ...], **changes: Any) -> Any:
    return nir.IF(
        **{"r": np.ones(shape), "v_threshold": np.ones(shape), "v_reset": np.full(shape, -1e3), **changes}
    )


def conv(weight: Any = 1.0, stride: int = 1, padding: int = 1, bias: int = 2) -> Any:
    return nir.Conv2d((4, 4), np.full((2, 1, 3, 3), weight), stride, padding, 1, 1, np.zeros(bias))


def pool(kind: Any, size: int) -> Any:
    return kind(np.array([size, size]), np.array([2, 2]), np.array([0, 0]))


def test_a_foreign_chain_of_layers_that_we_have_is_read() -> None:
    net = from_nir(foreign(), T=4, encoding="direct")
    assert net.config.architecture == "C2K3-P2-FC3"
    assert net.readout.neuron.threshold == np.nextafter(np.float32(1), np.float32(2)), "v > 1 is v >= that"
    graph = foreign()
    for node in graph.nodes.values():
        for name in ("weight", "bias", "v_threshold", "v_reset"):
            if hasattr(node, name):
                setattr(node, name, getattr(node, name).astype(np.float32))
    graph.nodes["dense"] = nir.Affine(graph.nodes["dense"].weight, np.zeros(3, np.float32))
    graph.edges = [
        ({"in": "input", "out": "output"}.get(a, a), {"out": "output"}.get(b, b)) for a, b in graph.edges
    ]
    x = torch.rand(5, 1, 4, 4)
    *_, theirs = reference(graph)(net.encode(x)).values()
    assert torch.equal(net(x).spike_times, theirs)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"hidden": neurons((2, 4, 4), v_reset=np.zeros((2, 4, 4)))}, "'hidden' resets to 0 and could fire"),
        ({"hidden": neurons((2, 4, 4), r=np.full((2, 4, 4), 2.0))}, "'hidden' has a r other than 1"),
        ({"hidden": neurons((2, 3, 4))}, r"'hidden' has a v_threshold of shape \[2, 3, 4\]"),
        ({"hidden": nir.LI(np.ones(2), np.ones(2), np.ones(2))}, "'conv' is not followed by IF or LIF"),
        ({"hidden": nir.CubaLIF(*[np.ones(2)] * 6)}, "'conv' is not followed by IF or LIF"),
        ({"pool": pool(nir.SumPool2d, 2)}, "'pool' is a SumPool2d"),
        ({"pool": pool(nir.AvgPool2d, 3)}, "'pool' pools 3 x 3 with stride"),
        ({"flat": nir.Flatten({"input": np.array([2, 2, 2])}, 1, -1)}, "'flat' flattens axes 1 to -1"),
        ({"flat": None}, r"'dense' has a weight of shape \[3, 8\]"),
        ({"conv": conv(stride=2)}, "'conv' has stride 2 x 2"),
        ({"conv": conv(padding=0)}, "'conv' has padding 0 x 0"),
        ({"conv": conv(bias=5)}, r"'conv' has a bias of shape \[5\]"),
        ({"conv": conv(np.nan)}, "'conv' has a weight that"),
        ({"dense": nir.Linear(np.ones((3, 9)))}, r"'dense' has a weight of shape \[3, 9\]"),
        ({"dense": nir.Linear(np.full((3, 8), "a"))}, "'dense' has a weight that is not made of finite numbers"),
        ({"out_neurons": None}, "'dense' is not followed by IF or LIF"),
        ({"out": nir.Output(np.array([7]))}, r"'out' does not have the shape \[3\]"),
        ({"in": nir.Input(np.array([0, 4, 4]))}, r"'in' takes input of shape \[0, 4, 4\]"),
        ({"conv": nir.Scale(np.ones((1, 4, 4)))}, "'conv' is a Scale"),
    ],
)  # fmt: skip
def test_what_we_do_not_have_is_refused_by_name(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(FirstspikeError, match=sentence):
        from_nir(foreign(**changes), T=4, encoding="direct")


def test_what_is_not_a_chain_is_refused() -> None:
    graph = foreign()
    graph.edges.append(("out_neurons", "dense"))
    with pytest.raises(FirstspikeError, match="'out_neurons' leads to 2 nodes"):
        from_nir(graph, T=4)
    graph = foreign()
    graph.nodes["loose"] = nir.Linear(np.ones((2, 2)))
    with pytest.raises(FirstspikeError, match="'loose' is not on the way"):
        from_nir(graph, T=4)
    graph = foreign()
    graph.nodes["second"] = nir.Input(np.array([3]))
    with pytest.raises(FirstspikeError, match="2 inputs and 1 outputs"):
        from_nir(graph, T=4)


def test_the_steps_of_a_foreign_graph_have_to_be_given() -> None:
    with pytest.raises(FirstspikeError, match="give T"):
        from_nir(foreign())
    with pytest.raises(FirstspikeError, match="made for T = 6 steps"):
        from_nir(to_nir(small("latency")), T=5)
    graph = to_nir(small("latency"))
    graph.metadata["format"] = 99
    with pytest.raises(FirstspikeError, match="format 99"):
        from_nir(graph)
    del graph.metadata["format"]
    with pytest.raises(FirstspikeError, match="metadata of this graph is damaged"):
        from_nir(graph)
