"""The rate-coded twin: it learns, is saved, and its spikes and operations are those counted by hand."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from firstspike.data import Dataset
from firstspike.errors import FirstspikeError
from firstspike.measure import evaluate_rate, sites
from firstspike.models import RateTwin, build, load_either, save
from firstspike.nn import Normalisation
from firstspike.training import Options, fit
from firstspike.training.loss import Loss
from firstspike.training.recipe import NetConfig
from tests.training.small import recipe


@pytest.mark.parametrize("pooling", ["average", "max"])
@pytest.mark.parametrize("encoding", ["direct", "latency"])
def test_spikes_and_operations_are_those_counted_by_hand(encoding: str, pooling: str) -> None:
    net = build(
        "C3K3-P2-C4K3-FC4",
        (1, 6, 6),
        T=5,
        encoding=encoding,
        pooling=pooling,
        normalisation=Normalisation(variance=3.0),
    )
    twin = RateTwin(net, "soft").eval()
    images = torch.randint(256, (7, 1, 6, 6), dtype=torch.uint8)
    found = evaluate_rate(twin, Dataset("noise", "test", images, torch.zeros(7).long(), tuple("abcd")), 3)
    with torch.no_grad():
        spikes = twin.trace(images.float() / 255)
    assert found.steps == 5
    assert max(int(layer.sum(0).max()) for layer in spikes.values()) > 1
    assert found.layer_spikes == pytest.approx({name: float(s.sum()) / 7 for name, s in spikes.items()})
    operations = dict.fromkeys(spikes, 0)
    arriving = net.encode(images.float() / 255) if encoding == "latency" else torch.zeros(5, 7, 1, 6, 6)
    for site, fired in zip(sites(net), spikes.values(), strict=True):
        for frame in arriving.flatten(0, 1):
            operations[site.name] += int(
                (frame.reshape(site.input_shape).round().long() * site.fan_out).sum()
            )
        arriving = fired
        if site.name == "1.C3K3":
            pooled = torch.nn.functional.avg_pool2d(fired.flatten(0, 1), 2, divisor_override=1)
            arriving = (pooled.clamp(max=1) if pooling == "max" else pooled).view(5, 7, 3, 3, 3)
    assert {name: round(7 * value) for name, value in found.layer_sops.items()} == operations


@pytest.mark.parametrize("reset", ["hard", "soft"])
def test_it_learns_and_is_saved(reset: str, tmp_path: Path) -> None:
    small = recipe(epochs=3, network=NetConfig("FC16-FC4", unit=f"rate-{reset}"))  # type: ignore[arg-type]
    run = fit(small, tmp_path / "run", options=Options(device="cpu", tensorboard=False))
    assert run.summary is not None
    test = run.summary["test"]
    assert test["strict"] > 80
    assert test["steps"] == 4
    twin = load_either(run.model)
    assert isinstance(twin, RateTwin)
    assert twin.reset == reset
    save(twin, tmp_path / "copy")
    images = torch.rand(3, 1, 8, 8)
    assert torch.equal(load_either(tmp_path / "copy")(images), twin(images))


def test_a_loss_it_cannot_have_is_refused() -> None:
    rate = recipe(network=NetConfig("FC16-FC4", unit="rate-hard"))
    with pytest.raises(FirstspikeError, match="firing rates"):
        replace(rate, loss=Loss(mse=0.0, threshold=1.0))
