"""From an architecture to a network, and its table."""

import pytest
import torch

import firstspike as fs
from firstspike.errors import FirstspikeError
from firstspike.models import ZOO, Network, NetworkConfig, build, build_from
from firstspike.nn import AvgPool2d, Dropout, Linear, MaxPool2d, Normalisation, Readout, Spiking
from tests.models.zoo import IMAGE, shrunk, shrunk_spec

FULL = {
    "FC1": ((1, 28, 28), 784 * 400 + 400 * 10),
    "FC2": ((1, 28, 28), 784 * 400 + 400 * 400 + 400 * 10),
    "SCNN1": ((1, 28, 28), 25 * 16 + 25 * 16 * 32 + 512 * 800 + 800 * 128 + 128 * 10),
    "SCNN5": ((1, 28, 28), 25 * 20 + 25 * 20 * 40 + 640 * 1000 + 1000 * 10),
    "SCNN6": ((3, 32, 32), 70_105_856),
    "SCNN7": ((2, 128, 128), 9 * 2 * 128 + 4 * 9 * 128 * 128 + 2048 * 512 + 512 * 11),
}


@pytest.mark.parametrize("name", FULL)
def test_full_size_networks_have_the_weights_of_the_paper(name: str) -> None:
    shape, weights = FULL[name]
    with torch.device("meta"):
        net = build(name, shape)
    assert sum(layer.synapse.weight.numel() for layer in net.layers if isinstance(layer, Spiking)) == weights
    assert f"\n{weights:,} weights and " in str(net)


@pytest.mark.parametrize("name", ZOO)
def test_the_shrunk_zoo_has_the_layers_of_the_zoo(name: str) -> None:
    """Or the tests on it would tell nothing about the zoo."""
    with torch.device("meta"):
        full = build(name, (2, 128, 128))
    small = build(shrunk_spec(name), (2, IMAGE.get(name, 16), IMAGE.get(name, 16)))
    assert list(map(type, small.layers)) == list(map(type, full.layers))
    assert [m.weight.shape[2:] for m in small.modules() if hasattr(m, "weight")] == [
        m.weight.shape[2:] for m in full.modules() if hasattr(m, "weight")
    ]


def test_the_table_has_shapes_weights_and_fan_out() -> None:
    lines = str(build("SCNN5", (1, 28, 28), T=8)).splitlines()
    assert lines[0] == "SCNN5, T = 8, direct input"
    rows = [line.split("  ") for line in lines[1:-1]]
    assert [[cell.strip() for cell in row if cell.strip()] for row in rows] == [
        ["layer", "output", "weights", "fan-out"],
        ["input", "1 x 28 x 28", "500"],
        ["1.C20K5", "20 x 24 x 24", "500", "1,000"],
        ["2.P2", "20 x 12 x 12"],
        ["3.C40K5", "40 x 8 x 8", "20,000", "1,000"],
        ["4.P2", "40 x 4 x 4"],
        ["5.FC1000", "1000", "640,000", "10"],
        ["6.FC10", "10", "10,000"],
    ]
    assert lines[-1] == "670,500 weights and 2,140 gains, biases and thresholds"


@pytest.mark.parametrize("name", ZOO)
def test_the_shapes_in_the_table_are_the_shapes_of_the_spikes(name: str) -> None:
    net = shrunk(name, dropout=0.2, pooling="max").eval()
    shapes: dict[str, str] = {}
    spikes = net.encode(torch.rand(2, *net.config.input_shape, dtype=torch.float64))
    for label, layer in zip(net.names, net.layers, strict=True):
        out = layer(spikes)
        spikes = out if isinstance(out, torch.Tensor) else out.spikes
        shapes[label] = " x ".join(map(str, spikes.shape[2:]))
    table = {row[0]: " ".join(row[1:]) for row in map(str.split, str(net).splitlines()[2:-1])}
    assert all(f"{table[label]} ".startswith(f"{shape} ") for label, shape in shapes.items())


def test_classes_set_the_last_layer_only() -> None:
    net = build("FC2", (1, 4, 4), classes=3)
    assert net.names == ["1.FC400", "2.FC400", "3.FC3"]
    assert isinstance(net.readout, Readout)


@pytest.mark.parametrize("shape", [(20,), (4, 5), (5, 2, 2), (5, 1, 2, 2)])
def test_a_fully_connected_network_takes_input_of_any_rank(shape: tuple[int, ...]) -> None:
    net = build("FC6-FC3", shape, T=3)
    first = net.layers[0].synapse
    assert isinstance(first, Linear)
    assert first.weight.shape == (6, 20)
    assert net(torch.rand(7, *shape)).spikes.shape == (3, 7, 3)


def test_pooling_and_dropout_are_where_the_configuration_says() -> None:
    kinds = [type(layer) for layer in build("C2K3-P2-FC4-FC5-FC3", (1, 8, 8), dropout=0.1).layers]
    assert kinds == [Spiking, AvgPool2d, Spiking, Dropout, Spiking, Dropout, Readout]
    assert type(build("C2K3-P2-FC3", (1, 8, 8), pooling="max").layers[1]) is MaxPool2d


def test_the_public_names_lead_here() -> None:
    assert fs.build is build
    assert isinstance(fs.build("FC1", input_shape=(1, 4, 4), T=2), Network)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"T": 0}, r"T must be between 1 and 255.*not 0"),
        ({"T": 256}, r"T must be between 1 and 255.*not 256"),
        ({"input_shape": ()}, r"input shape is \(\).*\(channels, height, width\)"),
        ({"input_shape": (1, 0, 8)}, r"input shape is \(1, 0, 8\)"),
        ({"input_shape": (64,)}, r"C2K5 needs images \(channels, height, width\).*\(64,\)"),
        ({"input_shape": (1, 4, 4)}, r"C2K5 does not fit: its input is 4 x 4\. Take a larger image"),
        ({"input_shape": (1, 5, 5)}, r"P2 does not fit: its input is 1 x 1"),
        ({"classes": 1}, r"at least 2 classes, not 1"),
        ({"encoding": "rate"}, r"encoding 'rate'.*direct, latency, frames"),
        ({"pooling": "sum"}, r"pooling 'sum'.*average or max"),
        ({"dropout": 1.5}, r"rate lies in \[0, 1\), not 1\.5"),
        ({"input_mean": (0.1, 0.2)}, r"input_mean is \(0\.1, 0\.2\).*one per input channel \(1\)"),
        ({"input_mean": (float("nan"),)}, r"input_mean is .*one finite number"),
        ({"input_std": (0.0,)}, r"input_std is \(0\.0,\): deviations must be positive"),
        ({"encoding": "latency", "input_mean": (0.5,)}, r"Latency coding.*leave out input_mean"),
        ({"droput": 0.5}, r"network option 'droput'.*dropout"),
        ({"architecture": "SCNN9"}, r"Unknown architecture 'SCNN9'"),
    ],
)
def test_a_bad_option_is_refused(arguments: dict, message: str) -> None:
    given = {"architecture": "C2K5-P2-FC4-FC3", "input_shape": (1, 8, 8), "T": 4, **arguments}
    with pytest.raises(FirstspikeError, match=message):
        build(**given)


def test_a_network_ends_in_a_readout() -> None:
    layers = list(build("FC4-FC3", (5,)).layers)
    for bad in ([], layers[:1]):
        with pytest.raises(FirstspikeError, match="last layer of a network must be a Readout"):
            Network(bad, NetworkConfig("FC4-FC3", (5,)))


def test_the_fused_configuration_builds_the_fused_network() -> None:
    for norm in (Normalisation(), Normalisation(bias=False), Normalisation(kind="batch", bias=False)):
        fused = build("C2K3-P2-FC3", (1, 8, 8), normalisation=norm).fuse()
        again = build_from(fused.config)
        assert {n: t.shape for n, t in again.state_dict().items()} == {
            n: t.shape for n, t in fused.state_dict().items()
        }
