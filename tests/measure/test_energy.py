"""The paper's three estimates, and its known numbers."""

import pytest
import torch

from firstspike.errors import FirstspikeError
from firstspike.measure import PAPER_HARDWARE, Hardware, estimate, sites
from firstspike.measure.energy import PAPER_CASE, spike_energy
from firstspike.models import build


@pytest.mark.parametrize(("steps", "microjoule"), [(8, 108.59), (4.62, 62.71), (2.93, 39.77), (2.03, 27.56)])
def test_memory_access_of_the_papers_case(steps: float, microjoule: float) -> None:
    assert steps * PAPER_CASE.per_step() == pytest.approx(microjoule, abs=0.01)


def test_the_papers_relative_spike_energy() -> None:
    rate = spike_energy(8, 4.54e5)
    assert spike_energy(4.62, 2.71e5) / rate == pytest.approx(0.596, abs=0.002)
    assert spike_energy(2.93, 2.69e5) / rate == pytest.approx(0.592, abs=0.002)


def test_estimates_by_hand() -> None:
    net = build("C2K3-P2-FC3", (1, 4, 4), T=4)
    spikes = {"1.C2K3": 16.0, "3.FC3": 1.5}
    hardware = Hardware("h", 2.0, 10.0, 0.5, 0.25, 4, 100.0)
    found = estimate(sites(net), 2.5, spikes, sops=48.0, input_operations=200.0, hardware=hardware)
    dense = {"1.C2K3": 2 * 16 * 9, "3.FC3": 3 * 8}
    assert found.e1 == pytest.approx(2e-6 * (dense["1.C2K3"] * 16 / 32 + dense["3.FC3"] * 1.5 / 3))
    assert found.e2 == pytest.approx(0.5 * 2.5 + 0.25 * 17.5)
    assert found.e3_network == pytest.approx(2.5e-6 * 100 * (1 * 1 * 16 + 2 * 1))
    assert found.operations == pytest.approx(1e-6 * (2 * 48 + 10 * 200))
    assert found.hardware == "h"


def test_weights_are_not_needed() -> None:
    with torch.device("meta"):
        net = build("SCNN6", (3, 32, 32), classes=10)
    convolutions = 1024 * (27 + 2 * 2304) * 256 + 256 * 3 * 2304 * 256
    assert sum(site.dense for site in sites(net)) == convolutions + 16384 * 4096 + 4096 * 10


@pytest.mark.parametrize(
    ("constants", "words"),
    [
        ({"accumulate": -1.0}, "accumulate is -1: give a number, 0 or more"),
        ({"dynamic": float("nan")}, "dynamic is nan"),
        ({"memory_access": float("inf")}, "memory_access is inf"),
        ({"crossbar": 0}, "crossbar is 0: give its side, 1 or more"),
    ],
)
def test_constants_that_no_hardware_has_are_refused(constants: dict[str, float], words: str) -> None:
    with pytest.raises(FirstspikeError, match=words):
        Hardware(**constants)  # type: ignore[arg-type]


def test_other_constants_do_not_go_by_the_papers_name() -> None:
    assert PAPER_HARDWARE.label == PAPER_HARDWARE.name
    assert Hardware(accumulate=0.1).label == f"{PAPER_HARDWARE.name}, but accumulate 0.1"
    assert Hardware("ours", accumulate=0.1).label == "ours"
