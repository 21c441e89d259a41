"""Weights worked out ahead, on another stream, are the weights of the step. (On a GPU: tests/kernels/test_gpu.py.)"""

from contextlib import nullcontext

import pytest
import torch
from torch import Tensor

from firstspike.models import build
from firstspike.nn import aside
from firstspike.nn.aside import Aside


class Stream:
    """Stands for a CUDA stream, and notes which ones it waited for."""

    def __init__(self, device: object = None) -> None:
        self.device, self.waited_for = device, list[object]()

    def wait_stream(self, other: object) -> None:
        self.waited_for.append(other)


@pytest.fixture
def main(monkeypatch: pytest.MonkeyPatch) -> Stream:
    """The stream that everything else runs on."""
    current = Stream()
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: current)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    monkeypatch.setattr(aside, "LARGE", 100)
    return current


def test_a_step_is_the_same_with_weights_aside(main: Stream) -> None:
    torch.manual_seed(0)
    net = build("C3K3-P2-FC7-FC4", (2, 8, 8), T=4, classes=4).train()
    beside = Aside(net)
    assert [len(weight) for weight in beside.parameters] == [7]
    images = torch.rand(5, 2, 8, 8)

    def grads(ahead: bool) -> list[Tensor]:
        net.zero_grad()
        if ahead:
            beside.begin(images.dtype)
        net(images).membrane.square().sum().backward()
        return [parameter.grad.clone() for parameter in net.parameters() if parameter.grad is not None]

    plain, ahead, again = grads(False), grads(True), grads(False)
    assert all(map(torch.equal, plain, ahead))
    assert all(map(torch.equal, plain, again))
    assert beside.stream.waited_for == [main]
    assert main.waited_for == [beside.stream]


def test_weights_ahead_are_those_of_one_step(main: Stream) -> None:
    net = build("FC20-FC4", (1, 4, 4), T=3, classes=4).train()
    beside, images = Aside(net), torch.rand(2, 1, 4, 4)
    beside.begin(images.dtype)
    before = net(images).membrane
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(torch.randn_like(parameter))
    assert not torch.equal(net(images).membrane, before)
    beside.end()
    assert main.waited_for == [beside.stream, beside.stream]
