"""The ReLU twin as a start and as a teacher; every normalisation and threshold trains and survives fusion."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from firstspike.errors import FirstspikeError
from firstspike.models import Twin, load, load_either
from firstspike.nn import Neuron, Normalisation
from firstspike.training import Options, Recipe, Run, fit
from firstspike.training.loss import Loss, distillation
from firstspike.training.optimizer import OptimizerConfig
from firstspike.training.recipe import NetConfig
from firstspike.training.trainer import as_logits
from tests.training.small import recipe, train, trainer

OPTIONS = Options(device="cpu", tensorboard=False)
ARCHITECTURE = "C4K3-P2-FC16-FC4"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """A trained twin and a trained spiking network of one architecture."""
    folder = tmp_path_factory.mktemp("runs")
    of = recipe(ARCHITECTURE, epochs=4)
    relu = replace(of, network=NetConfig(ARCHITECTURE, unit="relu"))
    return {
        "relu": fit(relu, folder / "relu", options=OPTIONS),
        "spike": fit(of, folder / "spike", options=OPTIONS),
    }


def test_a_twin_trains_by_the_same_recipe_and_is_saved(runs: dict[str, Run]) -> None:
    summary = runs["relu"].summary
    assert summary is not None
    assert summary["test"]["accuracy"] > 90
    assert isinstance(load_either(runs["relu"].model), Twin)


@pytest.mark.parametrize("source", ["relu", "spike"])
def test_a_run_starts_from_the_exact_weights_of_another(source: str, runs: dict[str, Run]) -> None:
    network = NetConfig(ARCHITECTURE, start_from=str(runs[source].folder))
    started = trainer(recipe(network=network)).network.state_dict()
    saved = load_either(runs[source].model)
    donor = (saved.net if isinstance(saved, Twin) else saved).state_dict()
    assert started.keys() == donor.keys()
    for name, value in donor.items():
        assert torch.equal(started[name], value), name


def test_a_pretrained_start_pays(runs: dict[str, Run]) -> None:
    of = recipe(ARCHITECTURE, optimizer=OptimizerConfig(lr=0.02))
    started = replace(of, network=NetConfig(ARCHITECTURE, start_from=str(runs["relu"].folder)))
    assert sum(train(trainer(started), 24)) < sum(train(trainer(of), 24))


@pytest.mark.parametrize(
    "architecture", ["C4K3-P2-FC17-FC4", "C5K3-P2-FC16-FC4", "C4K3-P2-FC4", "FC16-FC16-FC4"]
)
def test_another_architecture_as_a_start_gets_one_sentence(architecture: str, runs: dict[str, Run]) -> None:
    network = NetConfig(architecture, start_from=str(runs["relu"].folder))
    with pytest.raises(
        FirstspikeError, match=rf"Cannot start {architecture} from {ARCHITECTURE}: .*\.$"
    ) as info:
        trainer(recipe(network=network))
    assert "\n" not in str(info.value)


def test_a_start_that_is_not_there_gets_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(FirstspikeError, match="There is no run or model folder"):
        trainer(recipe(network=NetConfig("FC16-FC4", start_from=str(tmp_path / "none"))))


def test_a_start_that_a_recipe_trains_says_which(tmp_path: Path) -> None:
    twin = tmp_path / "cifar10-relu"
    with pytest.raises(
        FirstspikeError, match=rf"train it first, `firstspike train cifar10-relu --out {twin}`"
    ):
        trainer(recipe(network=NetConfig("FC16-FC4", start_from=str(twin))))


@pytest.mark.parametrize("teacher", ["relu", "spike"])
@pytest.mark.parametrize("unit", ["relu", "spike"])
def test_distillation_brings_a_student_to_its_teacher(teacher: str, unit: Any, runs: dict[str, Run]) -> None:
    network = NetConfig("FC16-FC4", unit=unit, teacher=str(runs[teacher].folder))
    one = trainer(
        recipe(network=network, loss=Loss(mse=0, distil=1), optimizer=OptimizerConfig("adamw", lr=0.01))
    )
    assert one.teacher is not None
    images = next(one.batches.epoch(0)).images

    def distance() -> float:
        with torch.no_grad():
            answers = [one.model(images), one.teacher(images)]  # type: ignore[misc]
            logits = [as_logits(answer, sharpness=2.0) for answer in answers]
        return float(distillation(*logits, 4.0))

    before = distance()
    frozen = {name: value.clone() for name, value in one.teacher.state_dict().items()}
    train(one, 48)
    assert distance() < 0.5 * before
    assert all(torch.equal(frozen[name], value) for name, value in one.teacher.state_dict().items())


def test_distilling_without_a_teacher_is_refused() -> None:
    with pytest.raises(FirstspikeError, match="needs a teacher"):
        recipe(loss=Loss(distil=1))


@pytest.mark.parametrize(
    "changes",
    [
        {"normalisation": Normalisation("weight")},
        {"normalisation": Normalisation("weight", per="layer")},
        {
            "normalisation": Normalisation("weight", unit_weights=True),
            "optimizer": OptimizerConfig("adamw", lr=0.02),
        },
        {"normalisation": Normalisation("batch")},
        {"normalisation": Normalisation("none")},
        {"neuron": Neuron(learn_threshold="channel")},
        {"neuron": Neuron(learn_threshold="channel-step")},
        {"neuron": Neuron(tau=2.0), "normalisation": Normalisation(variance=8.0)},
    ],
    ids=["weight", "per layer", "unit weights", "batch", "none", "threshold", "threshold in time", "leaky"],
)
def test_it_trains_and_fires_the_same_when_fused(changes: dict[str, Any], tmp_path: Path) -> None:
    one = trainer(recipe(ARCHITECTURE, epochs=3, **changes))
    losses = train(one, 72)
    assert sum(losses[-12:]) < 0.7 * sum(losses[:12])
    if one.recipe.neuron.learn_threshold != "fixed":
        threshold = one.network.layers[0].neuron.threshold
        assert (threshold != 1).any(), "the threshold was not learned"
    net = one.network.double().eval()  # in float64, where rounding cannot decide whether a neuron fires
    images = next(one.batches.epoch(0)).images.double()
    times, fused = net.trace(images)[1], net.fuse().trace(images)[1]
    for name in times:
        assert torch.equal(times[name], fused[name]), name


@pytest.mark.parametrize("learn", ["channel", "channel-step"])
def test_a_twin_leaves_learned_thresholds_alone(learn: Any) -> None:
    one = trainer(recipe(network=NetConfig("FC16-FC4", unit="relu"), neuron=Neuron(learn_threshold=learn)))
    train(one, 4)
    for name, parameter in one.model.named_parameters():
        assert parameter.requires_grad != name.endswith("threshold")
        assert parameter.requires_grad or (parameter == 1).all()


def test_the_network_of_a_run_is_loaded_as_it_was_tested(runs: dict[str, Run]) -> None:
    summary = runs["spike"].summary
    assert summary is not None
    assert summary["test"]["strict"] > 80
    assert not load(runs["spike"].model).training


def test_recipes_of_twins_say_so(runs: dict[str, Run]) -> None:
    assert isinstance(runs["relu"].recipe, Recipe)
    assert runs["relu"].recipe.network.unit == "relu"


def test_a_teacher_gives_the_answers_of_the_run_it_comes_from(runs: dict[str, Run]) -> None:
    for unit, run in runs.items():
        one = trainer(
            recipe(network=NetConfig("FC16-FC4", teacher=str(run.folder)), loss=Loss(mse=0, distil=1))
        )
        images = next(one.batches.epoch(0)).images
        with torch.no_grad():
            found = as_logits(one.teacher(images), 2.0)  # type: ignore[misc]
            wanted = as_logits(load_either(run.model).eval()(images), 2.0)
        torch.testing.assert_close(found, wanted, msg=unit)
