"""The trained network of the package on real images: the same spike times everywhere."""

from collections.abc import Callable

import pytest
import torch

from firstspike.data import load
from firstspike.export import Agreement, agreement, to_nir
from firstspike.models import Network, pretrained
from tests.export import runtimes

NAME = "fashion-mnist-scnn5"


@pytest.fixture(scope="module")
def net() -> Network:
    return pretrained(NAME).fuse()


def check(net: Network, count: int, run: Callable[[torch.Tensor], dict[str, torch.Tensor]]) -> None:
    """Compare in batches; every difference must be rounding, and hardly any."""
    images = load("fashion-mnist-sample", "test").images[:count].float() / 255
    parts: list[Agreement] = [agreement(net, x, run(x)) for x in images.split(100)]
    total = sum(parts[1:], parts[0])
    print(total)
    assert total.samples == count
    assert total.unexplained == 0
    assert total.by_rounding <= max(1, 3 * count / 1000)


COUNTS = [20, pytest.param(1000, marks=pytest.mark.slow)]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("runtime", ["reference", "norse", "spikingjelly"])
def test_nir(net: Network, count: int, runtime: str) -> None:
    for package in runtimes.NEEDS[runtime]:
        pytest.importorskip(package, reason=f"needs {package}")
    run = getattr(runtimes, runtime)(to_nir(net))
    layers = list(net.trace(torch.zeros(1, 1, 28, 28))[1])
    check(net, count, lambda x: dict(zip(layers, run(net.encode(x)).values(), strict=True)))


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("graph", ["step", "whole"])
def test_onnx(net: Network, count: int, graph: str) -> None:
    pytest.importorskip("onnx", reason="needs the extra `onnx`")
    pytest.importorskip("onnxruntime", reason="needs onnxruntime to run the graphs")
    from tests.export.test_onnx import run_steps, run_whole

    if graph == "step":
        check(net, count, lambda x: run_steps(net, x))
    else:
        check(net, count, lambda x: {net.names[-1]: run_whole(net, x)["spike_times"]})
