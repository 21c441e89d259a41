"""Differences are told apart: rounding, what follows from it, and errors."""

import pytest
import torch

from firstspike.errors import FirstspikeError
from firstspike.export import agreement
from firstspike.models import build
from firstspike.nn import Normalisation
from tests.export.nets import images, small


def test_a_network_agrees_with_itself() -> None:
    net = small("convolutions")
    x = images(net)
    found = agreement(net, x, net.trace(x)[1])
    assert (found.different, found.samples) == (0, 16)
    assert "are identical" in str(found)


def test_an_error_is_not_taken_for_rounding() -> None:
    net = small("convolutions")
    x = images(net)
    times = {name: layer.clone() for name, layer in net.trace(x)[1].items()}
    times["6.FC5"][3] = 5 - times["6.FC5"][3].clamp(max=5)
    found = agreement(net, x, times)
    assert found.unexplained == found.different > 0


def test_rounding_and_what_follows_from_it_are_told_apart() -> None:
    net = build("FC3-FC3", (3,), T=4, normalisation=Normalisation("none", gain=False, bias=False)).eval()
    with torch.no_grad():
        for module in net.layers:
            module.synapse.weight.copy_(torch.eye(3))
    x = torch.tensor([[0.5, 0.3, 0.2], [0.5 - 1e-6, 0.4, 0.2]])
    times = net.trace(x)[1]
    assert times["1.FC3"].tolist() == [[1, 3, 4], [2, 2, 4]]
    elsewhere = {"1.FC3": torch.tensor([[1, 3, 4], [1, 2, 4]]), "2.FC3": torch.tensor([[1, 3, 4], [1, 2, 4]])}
    found = agreement(net, x, elsewhere)
    assert (found.different, found.by_rounding, found.following, found.unexplained) == (2, 1, 1, 0)
    assert 1e-6 < found.largest_gap < 3e-6
    assert agreement(net, x, elsewhere, tolerance=1e-8).unexplained == 1
    assert "1 by rounding" in str(found)


def test_times_that_do_not_fit_are_refused() -> None:
    net = small("fully connected")
    with pytest.raises(FirstspikeError, match=r"no layer 'FC7'.*1\.FC20"):
        agreement(net, images(net), {"FC7": torch.zeros(16, 7)})
    with pytest.raises(FirstspikeError, match=r"shape \[16, 7\]"):
        agreement(net, images(net), {"1.FC20": torch.zeros(16, 7)})
