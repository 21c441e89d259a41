"""Training as a whole: losses, optimisers and modules of the user's own, to a finished run folder."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import firstspike as fs
from firstspike.data import load as load_data
from firstspike.functional import direct
from firstspike.measure import evaluate
from firstspike.nn import AMOS, AvgPool2d, Conv2d, Linear, Neuron, Output, Readout, Spiking
from firstspike.training import Options, fit
from firstspike.training.loss import Decoder, Loss
from firstspike.training.optimizer import OptimizerConfig
from firstspike.training.recipe import DataConfig
from tests.training.small import blobs, recipe, train, trainer

OPTIONS = Options(device="cpu", tensorboard=False)


def test_a_run_folder_is_finished(tmp_path: Path) -> None:
    of = recipe(epochs=4, data=DataConfig(blobs(), validation=0.25))
    run = fit(of, tmp_path / "run", options=OPTIONS)
    summary = json.loads((run.folder / "summary.json").read_text())
    assert summary["test"]["strict"] > 80
    net = fs.load(run.model)
    again = evaluate(net.fuse(), load_data(blobs(), "test"))
    assert again.strict == summary["test"]["strict"]
    assert again.spikes == summary["test"]["spikes"]
    epochs = run.metrics("epoch")
    assert [line["epoch"] for line in epochs] == [1, 2, 3, 4]
    assert epochs[-1]["train_loss"] < epochs[0]["train_loss"]
    assert "validation_strict" in epochs[-1]


@pytest.mark.parametrize(
    "changes",
    [
        {"optimizer": OptimizerConfig("sgd", lr=0.1, weight_decay=5e-4)},
        {"optimizer": OptimizerConfig("adamw", lr=0.01)},
        {"optimizer": OptimizerConfig("muon", lr=0.01, muon_lr=0.005)},
        {"optimizer": OptimizerConfig("sgd", clip=0.5, ema=0.9)},
        {"loss": Loss(mse=0, cross_entropy=1, temperature=4, label_smoothing=0.1)},
        {"loss": Loss(mse=0, membrane=1)},
        {"loss": Loss(mse=0, threshold=1)},
        {"loss": Loss(mse=0.5, threshold=0.5, membrane=0.5)},
        {"decoder": Decoder(decay="exponential", gamma=2.0)},
        {"encoding": "latency", "T": 8},
    ],
    ids=[
        "sgd",
        "adamw",
        "muon",
        "clip, ema",
        "entropy",
        "membrane",
        "threshold",
        "sum",
        "exponential",
        "latency",
    ],
)
def test_the_loss_falls(changes: dict[str, Any]) -> None:
    one = trainer(recipe("C4K3-C4K3-P2-FC4", epochs=3, **changes))
    losses = train(one, 48)
    assert sum(losses[-8:]) < 0.85 * sum(losses[:8])


def test_equal_seeds_give_equal_weights_and_others_do_not() -> None:
    finals = []
    for seed in (0, 0, 1):
        one = trainer(recipe(seed=seed))
        train(one, 12)
        finals.append(torch.cat([parameter.detach().flatten() for parameter in one.model.parameters()]))
    assert torch.equal(finals[0], finals[1])
    assert not torch.equal(finals[0], finals[2])


class TwoPaths(nn.Module):
    """A network that no architecture string describes: two convolutions side by side."""

    def __init__(self, T: int) -> None:
        super().__init__()
        self.T = T
        self.fine = Spiking(Conv2d(1, 4, 3, T, padding=1), AMOS(Neuron()))
        self.coarse = Spiking(Conv2d(1, 4, 5, T, padding=2), AMOS(Neuron()))
        self.pool = AvgPool2d(2)
        self.out = Readout(Linear(8 * 4 * 4, 4, T), AMOS(Neuron()))

    def forward(self, images: Tensor) -> Output:
        current = direct(images, self.T)
        spikes = torch.cat([self.fine(current), self.coarse(current)], dim=2)
        output: Output = self.out(self.pool(spikes))
        return output


def test_a_module_of_the_users_own_trains_the_same_way(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = TwoPaths(T=4)
    before = net.fine.synapse.weight.detach().clone()
    run = fit(recipe(epochs=4, loss=Loss(mse=0, threshold=1)), tmp_path / "run", net, OPTIONS)
    assert not torch.equal(net.fine.synapse.weight, before)
    assert run.summary is not None
    assert run.metrics("epoch")[-1]["train_accuracy"] > 80
    layers = run.metrics("layers")[-1]["layers"]
    assert list(layers) == ["fine", "coarse", "out"]
    assert all(layer["gradient"] > 0 and len(layer["fired"]) == 4 for layer in layers.values())


def test_a_logged_layer_tells_of_the_final_weights(tmp_path: Path) -> None:
    run = fit(recipe(epochs=1), tmp_path / "run", options=OPTIONS)
    net = fs.load(run.model)
    logged = run.metrics("layers")[-1]["layers"]
    for name, layer in zip(net.names, net.layers, strict=True):
        assert logged[name]["weight"] == pytest.approx(layer.synapse.weight.norm().item(), rel=1e-5)
