"""The run folder, `fit` and `resume` from Python, and networks of the user's own."""

import json
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, load_model
from torch import Tensor, nn

import firstspike as fs
from firstspike.cli import main
from firstspike.functional import direct
from firstspike.training import Options, Run, fit, resume
from firstspike.training.recipe import DataConfig
from firstspike.training.run import commit, whole, write_json
from tests.training.processes import everything_random, outcome, write_recipe
from tests.training.small import blobs, recipe

CPU = Options(device="cpu", tensorboard=False)
FLAGS = ["--device", "cpu", "--no-tensorboard"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return fit(everything_random(1), tmp_path_factory.mktemp("finished") / "run", options=CPU)


def test_a_run_folder_says_how_to_repeat_it(finished: Run) -> None:
    names = {path.name for path in finished.folder.iterdir()}
    assert names == {
        "recipe.json",
        "provenance.json",
        "metrics.jsonl",
        "model",
        "summary.json",
        "accuracy.png",
        "raster.png",
    }
    assert finished.recipe == everything_random(1)
    origin = json.loads((finished.folder / "provenance.json").read_text())
    for known in (
        "command",
        "commit",
        "firstspike",
        "python",
        "torch",
        "numpy",
        "machine",
        "system",
        "started",
    ):
        assert origin[known], known
    assert origin["commit"].startswith(commit()[:40])
    assert finished.summary is not None
    assert finished.summary["test"]["samples"] == 64


def test_the_saved_network_is_the_one_that_was_tested(finished: Run) -> None:
    from firstspike.data import load
    from firstspike.measure import evaluate

    assert finished.summary is not None
    measured = evaluate(fs.load(finished.model).fuse(), load(blobs(), "test"))
    assert measured.strict == finished.summary["test"]["strict"]


def test_the_command_does_what_fit_does_and_a_run_can_be_repeated_from_its_folder(
    finished: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["train", write_recipe(everything_random(1), tmp_path), "--out", str(tmp_path / "command"), *FLAGS])
    main(["train", str(finished.folder), "--out", str(tmp_path / "folder"), *FLAGS])
    main(["train", str(finished.recipe_path), "--out", str(tmp_path / "file"), *FLAGS])
    assert capsys.readouterr().out.count("accuracy, strict ties") == 3
    for name in ("command", "folder", "file"):
        assert outcome(tmp_path / name) == outcome(finished.folder), name


def test_a_finished_run_stays_as_it_is(finished: Run, capsys: pytest.CaptureFixture[str]) -> None:
    before = outcome(finished.folder)
    assert resume(finished.folder, options=CPU).summary
    main(["resume", str(finished.folder), *FLAGS])
    assert "finished already" in capsys.readouterr().err
    assert outcome(finished.folder) == before


def test_a_folder_that_holds_a_run_is_not_written_over(finished: Run) -> None:
    with pytest.raises(fs.FirstspikeError, match="already holds a run: continue it with `firstspike resume"):
        fit(everything_random(1), finished.folder, options=CPU)


@pytest.mark.parametrize(
    "changes",
    [
        {"data": DataConfig("nosuch")},
        {"batch_size": 10_000},
        {"encoding": "frames"},
        {"architecture": "FC16-FC4x"},
    ],
    ids=["no data", "batches too large", "wrong encoding", "no such network"],
)
def test_what_cannot_be_trained_leaves_no_folder(changes: dict[str, object], tmp_path: Path) -> None:
    with pytest.raises(fs.FirstspikeError):
        fit(recipe(**changes), tmp_path / "run", options=CPU)  # type: ignore[arg-type]
    assert not (tmp_path / "run").exists()


def test_a_missing_test_set_is_found_before_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from firstspike.training import recipe as recipes

    def only_train(name: str, split: str, **given: object) -> object:
        if split == "test":
            raise fs.FirstspikeError("there is no test split")
        return load(name, split, **given)  # type: ignore[arg-type]

    load = recipes.load
    monkeypatch.setattr(recipes, "load", only_train)
    with pytest.raises(fs.FirstspikeError, match="no test split"):
        fit(recipe(), tmp_path / "run", options=CPU)
    assert not (tmp_path / "run").exists()


def test_files_appear_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json(path, {"a": 1})
    with pytest.raises(TypeError):
        write_json(path, {"a": object()})
    assert json.loads(path.read_text()) == {"a": 1}

    def half() -> None:
        with whole(path) as part:
            part.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        half()
    assert json.loads(path.read_text()) == {"a": 1}
    assert os.listdir(tmp_path) == ["a.json"]


def test_the_log_is_taken_back_to_a_checkpoint_and_no_line_is_torn(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.log("epoch", epoch=1)
    size = run.log_size()
    run.log("epoch", epoch=2)
    with run.log_path.open("a") as file:
        file.write('{"kind": "epo')
    assert [line["epoch"] for line in run.metrics("epoch")] == [1, 2]
    run.rewind_log(size)
    run.log("epoch", epoch=2)
    assert [line["epoch"] for line in run.metrics("epoch")] == [1, 2]
    assert len(run.log_path.read_text().splitlines()) == 2


def test_a_full_disk_is_told_plainly_when_logging(tmp_path: Path) -> None:
    with pytest.raises(fs.FirstspikeError, match="Could not write to"):
        Run(tmp_path / "gone").log("epoch", epoch=1)


class Own(nn.Module):
    """A network of the user's: our layers in a Sequential, behind a wrapper that encodes."""

    def __init__(self, T: int = 4) -> None:
        super().__init__()
        self.T = T
        self.layers = nn.Sequential(
            fs.nn.Spiking(fs.nn.Linear(64, 32, T), fs.nn.AMOS()),
            fs.nn.Readout(fs.nn.Linear(32, 4, T), fs.nn.AMOS()),
        )

    def forward(self, images: Tensor) -> fs.nn.Output:
        output: fs.nn.Output = self.layers(direct(images, self.T))
        return output


def test_a_module_of_the_users_own_trains_the_same_way(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = recipe(epochs=6)
    run = fit(given, tmp_path / "run", model=Own(), options=CPU)
    assert run.summary is not None
    test = run.summary["test"]
    assert test["strict"] > 60, "it has not learned"
    assert 1 <= test["steps"] <= test["T"] == 4
    assert "Own" in run.own_model

    again = Own()
    load_model(again, run.model / "model.safetensors")
    from firstspike.data import load
    from firstspike.training.finish import score

    device = torch.device("cpu")
    assert score(again, load(blobs(), "test"), device)["strict"] == test["strict"]

    torch.manual_seed(3)
    model = Own()
    stopped = fit(given, tmp_path / "stopped", model=model, options=Options(device="cpu", max_minutes=0))
    with pytest.raises(SystemExit) as ended:
        main(["resume", str(stopped.folder), *FLAGS])
    assert ended.value.code == 2
    assert "continue it there with resume(folder, model)" in capsys.readouterr().err
    resume(stopped.folder, Own(), CPU)
    torch.manual_seed(3)
    unbroken = fit(given, tmp_path / "unbroken", model=Own(), options=CPU)
    assert outcome(stopped.folder) == outcome(unbroken.folder)


def test_layers_put_together_by_hand_train_as_a_network(tmp_path: Path) -> None:
    config = fs.NetworkConfig("FC16-FC4", (1, 8, 8), T=4, classes=4)
    layers = [
        fs.nn.Spiking(fs.nn.Linear(64, 16, 4), fs.nn.AMOS()),
        fs.nn.Readout(fs.nn.Linear(16, 4, 4), fs.nn.AMOS()),
    ]
    run = fit(recipe(), tmp_path / "run", model=fs.Network(layers, config), options=CPU)
    assert fs.load(run.model).config == config
    assert load_file(run.model / "model.safetensors")
    assert run.summary is not None
    assert run.summary["test"]["spikes"] > 0
