"""Each collapse is provoked and named, and healthy networks are left alone."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import firstspike.training.watch as watch_module
from firstspike.errors import FirstspikeError
from firstspike.functional.surrogate import Surrogate
from firstspike.models import Twin, build
from firstspike.nn import Neuron, Normalisation
from firstspike.training import Options, Run, fit
from firstspike.training.diagnosis import LayerState, Snapshot, find_collapses, find_nan, observe
from firstspike.training.loop import resume
from firstspike.training.loss import Loss
from firstspike.training.optimizer import OptimizerConfig, Schedule
from firstspike.training.recipe import NetConfig, Recipe
from tests.training.processes import end, start_many, write_recipe
from tests.training.small import recipe, train, trainer, watched

LARGE_TEMPERATURE = Loss(mse=0, cross_entropy=1, temperature=1000)
NARROW = Neuron(surrogate=Surrogate("rectangular", alpha=1e4))
LONG = 30


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half the patience, for half the time: a healthy network must stand that too."""
    monkeypatch.setattr(watch_module, "PATIENCE", 100)


def run_of(tmp_path: Path, of: Recipe) -> Run:
    return Run.create(of, tmp_path / "run")


@pytest.mark.parametrize(
    ("of", "kind", "layer", "words"),
    [
        pytest.param(
            recipe("{{C8K3}*2-P2}*3-FC8-FC4", epochs=LONG),
            "silent",
            "5.C8K3",
            "threshold loss",
            id="squared error at T = 4 in a deep network",
        ),
        pytest.param(
            recipe("{FC32}*7-FC4", epochs=LONG, optimizer=OptimizerConfig(lr=0.01)),
            "silent",
            "8.FC4",
            "threshold loss",
            id="squared error at T = 4, silent at the output",
        ),
        pytest.param(
            recipe(epochs=LONG, loss=Loss(mse=0, membrane=1), neuron=Neuron(threshold=200.0)),
            "silent",
            "1.FC16",
            "more steps",
            id="a threshold out of reach",
        ),
        pytest.param(
            recipe("{C8K3}*3-P2-FC4", epochs=LONG, loss=LARGE_TEMPERATURE),
            "tied",
            "5.FC4",
            "lower --loss.temperature",
            id="cross-entropy at a large temperature",
        ),
        pytest.param(
            recipe("FC16-FC16-FC4", epochs=LONG, neuron=NARROW),
            "vanishing",
            "3.FC4",
            "wider surrogate",
            id="a surrogate too narrow for any gradient",
        ),
    ],
)
def test_a_collapse_is_named_with_layer_and_advice(
    of: Recipe, kind: str, layer: str, words: str, tmp_path: Path
) -> None:
    told, verdict, logged = watched(trainer(of), run_of(tmp_path, of), steps=170)
    assert [(line["collapse"], line["layer"]) for line in logged] == [(kind, layer)]
    assert len(told) == 1, "a collapse is told of once"
    assert layer in told[0]
    assert words in told[0]
    assert not verdict
    assert logged[0]["step"] <= 168, "named early"


def test_a_large_temperature_makes_every_output_fire_at_step_0(tmp_path: Path) -> None:
    """The collapse of the spec, to be sure that it is the one provoked above."""
    one = trainer(recipe("{C8K3}*3-P2-FC4", epochs=LONG, loss=LARGE_TEMPERATURE))
    watched(one, run_of(tmp_path, one.recipe), steps=100)
    output = one.model.eval()(next(one.batches.epoch(0)).images)
    assert (output.spike_times == 0).float().mean() > 0.95


def test_a_layer_that_fires_all_at_step_0_is_named(tmp_path: Path) -> None:
    of = recipe("FC16-FC16-FC4", epochs=LONG, optimizer=OptimizerConfig(lr=1e-4))
    one = trainer(of)
    with torch.no_grad():
        one.network.layers[1].synapse.bias.fill_(9.0)
    told, _, logged = watched(one, run_of(tmp_path, of), steps=170)
    assert ("instant", "2.FC16") in [(line["collapse"], line["layer"]) for line in logged]
    assert any("weaker currents" in sentence for sentence in told)


def test_gradients_that_die_on_the_way_down_are_named_where_they_stop() -> None:
    states = {
        "1.FC8": LayerState(1.0, 1e-12, (0.3, 0.2, 0.1, 0.1), 0.3),
        "2.FC8": LayerState(1.0, 3e-9, (0.3, 0.2, 0.1, 0.1), 0.3),
        "3.FC8": LayerState(1.0, 2e-3, (0.3, 0.2, 0.1, 0.1), 0.3),
        "4.FC4": LayerState(1.0, 1e-2, (0.1, 0.1, 0.1, 0.0), 0.7),
    }
    found = find_collapses(Snapshot(states, answered=0.9, tied=0.1, accuracy=0.5))
    assert [(collapse.kind, collapse.layer) for collapse in found] == [("vanishing", "2.FC8")]


def test_a_network_that_has_learned_all_needs_no_gradient() -> None:
    states = {
        "1.FC8": LayerState(1.0, 0.0, (0.5, 0.1), 0.4),
        "2.FC4": LayerState(1.0, 0.0, (0.25, 0.0), 0.75),
    }
    assert not find_collapses(Snapshot(states, answered=1.0, accuracy=1.0))
    assert find_collapses(Snapshot(states, answered=1.0, accuracy=0.3))


@pytest.mark.parametrize(
    "of",
    [
        recipe(epochs=LONG),
        recipe("{C4K3}*3-P2-FC4", epochs=LONG),
        recipe(
            "{FC32}*7-FC4", epochs=LONG, loss=Loss(mse=0, threshold=1), optimizer=OptimizerConfig(lr=0.03)
        ),
        recipe(epochs=LONG, loss=Loss(mse=0, membrane=1), normalisation=Normalisation(kind="batch")),
        recipe(epochs=LONG, network=NetConfig("FC16-FC4", unit="relu")),
        recipe(epochs=LONG, schedule=Schedule(warmup=6)),
    ],
    ids=["dense", "deep", "threshold loss", "batch", "twin", "long warm-up"],
)
def test_a_healthy_network_is_not_accused(of: Recipe, tmp_path: Path) -> None:
    run = run_of(tmp_path, of)
    told, verdict, logged = watched(trainer(of), run, steps=200)
    assert not told
    assert not verdict
    assert not logged
    assert run.metrics("layers")[-1]["accuracy"] > 0.8


def test_silence_is_not_held_against_a_network_that_is_warming_up(tmp_path: Path) -> None:
    of = recipe("{FC16}*6-FC4", epochs=LONG, schedule=Schedule(warmup=20))
    assert not watched(trainer(of), run_of(tmp_path, of), steps=170)[0]


def test_a_short_run_is_told_at_its_end(tmp_path: Path) -> None:
    of = recipe(neuron=Neuron(threshold=200.0))
    told, _, _ = watched(trainer(of), run_of(tmp_path, of), steps=48)
    assert len(told) == 1
    assert "silent" in told[0]


@pytest.mark.parametrize("on_collapse", ["stop", "warn"])
@pytest.mark.parametrize("kind", ["sgd", "adamw"])
def test_nan_always_stops_and_names_the_layer(on_collapse: Any, kind: Any, tmp_path: Path) -> None:
    of = recipe(optimizer=OptimizerConfig(kind, lr=1e38))
    _, verdict, logged = watched(trainer(of), run_of(tmp_path, of), steps=20, on_collapse=on_collapse)
    assert "NaN or infinite" in verdict
    assert "--optimizer.lr" in verdict
    assert logged[0]["collapse"] == "nan"
    assert logged[0]["layer"] in ("1.FC16", "2.FC4")


def test_an_infinite_loss_stops_even_if_no_weight_is_lost() -> None:
    found = find_nan(build("FC5-FC4", (6,), T=3), math.inf)
    assert found is not None
    assert "The loss is inf" in found.sentence


def test_the_first_bad_layer_is_found_by_its_parameter() -> None:
    net = build("FC5-FC6-FC4", (6,), T=3)
    assert find_nan(net, 0.5) is None
    with torch.no_grad():
        net.layers[1].synapse.gain[2] = math.nan
    for model in (net, Twin(net), nn.Sequential(net)):
        found = find_nan(model, math.nan)
        assert found is not None
        assert found.layer == "2.FC6"


def test_looking_leaves_no_trace() -> None:
    """No random number is drawn, no statistic moves, the gradients and the mode stay."""
    of = recipe(
        "FC16-FC4", normalisation=Normalisation(kind="batch"), network=NetConfig("FC16-FC4", dropout=0.5)
    )
    one = trainer(of)
    train(one, 2)
    one.network.layers[0].eval()
    state = {name: value.clone() for name, value in one.model.state_dict().items()}
    grads = [parameter.grad.clone() for parameter in one.model.parameters() if parameter.grad is not None]
    random = torch.get_rng_state()
    batch = next(one.batches.epoch(0))
    observe(one.model, batch.images, batch.labels)
    assert torch.equal(torch.get_rng_state(), random)
    assert all(torch.equal(state[name], value) for name, value in one.model.state_dict().items())
    after = [parameter.grad for parameter in one.model.parameters() if parameter.grad is not None]
    assert all(torch.equal(old, new) for old, new in zip(grads, after, strict=True))
    assert one.model.training
    assert not one.network.layers[0].training
    assert not any(module._forward_hooks for module in one.model.modules())


def test_shares_are_those_of_the_spike_times() -> None:
    net = build("C3K3-P2-FC5-FC4", (1, 6, 6), T=4, normalisation=Normalisation(variance=4.0))
    x, labels = torch.rand(32, 1, 6, 6), torch.randint(4, (32,))
    seen = observe(net, x, labels)
    output, times = net.eval().trace(x)
    assert list(seen.layers) == list(times)
    for name, layer in times.items():
        state = seen.layers[name]
        expected = [(layer == t).float().mean().item() for t in range(4)]
        assert state.fired == pytest.approx(expected, abs=1e-6)
        assert state.silent == pytest.approx((layer == 4).float().mean().item(), abs=1e-6)
    first = times["4.FC4"].amin(1)
    assert seen.answered == pytest.approx((first < 3).float().mean().item())
    assert seen.accuracy == pytest.approx((output.spike_times.argmin(1) == labels).float().mean().item())


def test_gradient_norms_are_those_of_the_last_step(tmp_path: Path) -> None:
    one = trainer(recipe(epochs=1))
    run = run_of(tmp_path, one.recipe)
    watched(one, run, steps=24)
    layers = run.metrics("layers")[-1]["layers"]
    for name, layer in zip(one.network.names, one.network.layers, strict=True):
        assert layers[name]["gradient"] == pytest.approx(layer.synapse.weight.grad.norm().item())
        assert layers[name]["weight"] == pytest.approx(layer.synapse.weight.norm().item())


def test_layers_are_logged_early_and_every_epoch(tmp_path: Path) -> None:
    of = recipe(epochs=5)
    run = run_of(tmp_path, of)
    watched(trainer(of), run, steps=120)
    assert [line["epoch"] for line in run.metrics("layers")] == pytest.approx(
        [1, 2, 50 / 24, 3, 4, 100 / 24, 5]
    )


def test_stop_ends_the_run_with_a_sentence_and_leaves_it_resumable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_module, "PATIENCE", 40)
    of = recipe(epochs=4, neuron=Neuron(threshold=200.0))
    stop = Options(device="cpu", on_collapse="stop", tensorboard=False)
    with pytest.raises(FirstspikeError, match=r"Layer 1\.FC16 is silent.*The run is at"):
        fit(of, tmp_path / "run", options=stop)
    run = Run(tmp_path / "run")
    assert run.summary is None
    assert list(run.checkpoints.glob("[0-9]*"))
    assert run.metrics("collapse")[0]["collapse"] == "silent"
    resume(run.folder, options=Options(device="cpu", tensorboard=False))
    assert run.summary is not None


def test_all_processes_stop_at_the_same_collapse(tmp_path: Path) -> None:
    of = recipe(epochs=1, neuron=Neuron(threshold=200.0))
    flags = ["--device", "cpu", "--no-tensorboard", "--on-collapse", "stop", "--out", str(tmp_path / "run")]
    args = ["train", write_recipe(of, tmp_path), *flags]
    statuses = [end(process) for process in start_many([args, args], tmp_path / "log")]
    assert all(status not in (0, None) for status in statuses)
    for rank in (0, 1):
        assert "Layer 1.FC16 is silent" in (tmp_path / f"log.{rank}").read_text()
    assert [path.name for path in Run(tmp_path / "run").checkpoints.glob("[0-9]*")] == ["000000024"]


def test_nan_keeps_the_checkpoint_from_before_it(tmp_path: Path) -> None:
    of = recipe(optimizer=OptimizerConfig(lr=1e38))
    options = Options(device="cpu", checkpoint_minutes=0, tensorboard=False)
    with pytest.raises(FirstspikeError, match="NaN or infinite"):
        fit(of, tmp_path / "run", options=options)
    tensors = load_file(max((tmp_path / "run" / "checkpoints").glob("[0-9]*")) / "state.safetensors")
    weights = {name: tensor for name, tensor in tensors.items() if name.startswith(".model.")}
    assert weights
    assert all(tensor.isfinite().all() for tensor in weights.values())


def test_a_module_without_layers_of_ours_is_left_alone() -> None:
    plain = nn.Sequential(nn.Flatten(), nn.Linear(64, 4))
    assert find_collapses(observe(plain, torch.rand(2, 1, 8, 8), torch.tensor([0, 1]))) == []
