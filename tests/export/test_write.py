"""What `export.write` leaves in a folder."""

import json
import re
import sys
from pathlib import Path

import pytest

from firstspike.errors import FirstspikeError
from firstspike.export import from_nir, write
from firstspike.export.source import find_source
from firstspike.models import build, load, save
from firstspike.training import Run, fit
from firstspike.training.loop import Options
from tests.export.nets import images, small
from tests.training.small import recipe

NEEDS = {"nir": ["nir"], "onnx": ["onnx", "onnxruntime"], "safetensors": []}
FILES = {
    "nir": ["model.nir"],
    "onnx": ["network.onnx", "step.onnx"],
    "safetensors": ["config.json", "model.safetensors"],
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("runs") / "trained"
    return fit(recipe(epochs=1), folder, options=Options(device="cpu", tensorboard=False))


def need(target: str) -> None:
    for package in NEEDS[target]:
        pytest.importorskip(package, reason=f"needs {package}")


@pytest.mark.parametrize("target", NEEDS)
def test_the_code_on_the_card_loads_what_was_written(
    target: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    need(target)
    folder = write(run.folder, target, tmp_path / "out")  # type: ignore[arg-type]
    assert sorted(path.name for path in folder.iterdir()) == sorted(["README.md", *FILES[target]])
    card = (folder / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    monkeypatch.chdir(folder)
    exec(compile(code, "card", "exec"), {})
    assert capsys.readouterr().out.strip()


def test_the_card_tells_data_accuracy_steps_energy_recipe_and_licence(run: Run, tmp_path: Path) -> None:
    card = (write(run.folder, "safetensors", tmp_path, licence="CC0") / "README.md").read_text(
        encoding="utf-8"
    )
    summary = run.summary
    assert summary is not None
    assert card.startswith("# trained\n")
    for fact in (
        f"{summary['test']['strict']:.2f} %",
        f"{summary['test']['steps']:.2f} of 4",
        summary["test"]["dataset"],
        "µJ a sample",
        "| licence of the weights | CC0 |",
        "| made by | `",
        '"epochs": 1',
        "FC16-FC4",
    ):
        assert fact in card


def test_plain_weights_fire_as_the_network_they_come_from(run: Run, tmp_path: Path) -> None:
    net, back = load(run.model), load(write(run.folder, "safetensors", tmp_path))
    assert back.config.normalisation.kind == "none"
    x = images(net)
    assert net(x).spike_times.equal(back(x).spike_times)


def test_networks_at_hand_models_and_runs_are_all_found(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_source(run.model).recipe == json.loads((run.folder / "recipe.json").read_text())
    assert find_source(run.model).name == find_source(run.folder).name == "trained"
    assert find_source("fashion-mnist-scnn5").ships
    alone = save(build("FC4", (3,)), tmp_path / "alone")
    assert find_source(alone).test is None
    monkeypatch.chdir(tmp_path)
    folder = write(small("fully connected"), "safetensors")
    assert folder == Path("exports/FC20-FC12-FC5-safetensors")
    assert "not measured" in (folder / "README.md").read_text()


def test_a_model_without_measures_can_be_measured_for_its_card(tmp_path: Path) -> None:
    net = build("FC4-FC10", (1, 28, 28), T=2)
    card = (write(net, "safetensors", tmp_path, measure="fashion-mnist-sample") / "README.md").read_text()
    assert "fashion-mnist-sample, test" in card
    assert re.search(r"accuracy \| [\d.]+ %", card)


def test_mistakes_are_refused(run: Run, tmp_path: Path) -> None:
    for source, sentence in (
        (
            "nosuch",
            "no network of that name in the package, which has fashion-mnist-fc2, fashion-mnist-scnn5",
        ),
        (tmp_path, "neither a run folder nor the folder of a saved model"),
    ):
        with pytest.raises(FirstspikeError, match=sentence):
            write(source, "safetensors", tmp_path / "out")
    with pytest.raises(FirstspikeError, match="Unknown target 'tflite'"):
        write(run.folder, "tflite", tmp_path)  # type: ignore[arg-type]
    with pytest.raises(FirstspikeError, match="holds the network itself"):
        write(run.folder, "safetensors", run.model)
    (tmp_path / "file").write_text("")
    with pytest.raises(FirstspikeError, match="Could not write to"):
        write(run.folder, "safetensors", tmp_path / "file" / "inside")
    (tmp_path / "unfinished").mkdir()
    (tmp_path / "unfinished" / "recipe.json").write_text("{}")
    with pytest.raises(FirstspikeError, match="firstspike resume"):
        write(tmp_path / "unfinished", "safetensors", tmp_path / "out")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for package, target in (("nir", "nir"), ("onnx", "onnx")):
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(FirstspikeError, match=rf"pip install 'firstspike\[{package}\]'"):
            write(small("fully connected"), target, tmp_path)  # type: ignore[arg-type]
    with pytest.raises(FirstspikeError, match=r"firstspike\[nir\]"):
        from_nir(tmp_path / "model.nir")
