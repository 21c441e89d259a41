"""`firstspike train`, `resume` and `recipes` as a user types them."""

import os
import pty
import re
import select
from pathlib import Path

import pytest

from firstspike.cli import main
from firstspike.cli.show import STOPPED_STATUS
from firstspike.training import RECIPES, Run
from tests.training.processes import end, start, write_recipe
from tests.training.small import blobs, recipe

CPU = ["--device", "cpu", "--no-tensorboard"]
SMALL = [
    "--data.name",
    blobs(),
    "--network.architecture",
    "FC16-FC4",
    "--batch-size",
    "16",
    "--epochs",
    "2",
    *CPU,
]


def refused(args: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What is said to a command that is refused, on one line."""
    with pytest.raises(SystemExit) as ended:
        main(args)
    assert ended.value.code == 2
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    return re.sub(r"[│\s]+", " ", said.out + said.err)


def test_flags_change_the_recipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = [
        "--T",
        "3",
        "--optimizer.lr",
        "0.05",
        "--neuron.tau",
        "4",
        "--augment.flip",
        "--normalisation.no-bias",
    ]
    main(["train", "fashion-mnist-sample", *SMALL, *flags, "--out", str(tmp_path / "run")])
    trained = Run(tmp_path / "run").recipe
    assert (trained.T, trained.optimizer.lr, trained.neuron.tau) == (3, 0.05, 4.0)
    assert (trained.augment.flip, trained.normalisation.bias) == (True, False)
    assert trained.name == "fashion-mnist-sample"


@pytest.mark.parametrize("name", RECIPES)
def test_every_named_recipe_is_the_default_of_its_own_command(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def begin(recipe: object, *_: object) -> None:
        seen.append(recipe)
        raise SystemExit

    monkeypatch.setattr("firstspike.cli.train.begin", begin)
    with pytest.raises(SystemExit):
        main(["train", name, "--device", "cpu"])
    assert seen == [RECIPES[name]]


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--optimzer.lr", "1"], "--optimizer.lr"),
        (["--neuron.tao", "1"], "--neuron.tau"),
        (["--T", "4.5"], "'4.5' is not a whole number"),
        (["--optimizer.lr", "fast"], "'fast' is not a number"),
        (["--neuron.tau", "fast"], "'fast' is not a number or none"),
        (["--encoding", "drect"], "Expected one of ('direct', 'latency', 'frames')"),
        (["--neuron.tau", "0.5"], "at least 1"),
        (["--T", "1"], "take T of 2 or more"),
        (["--data.name", "nosuch"], "there is no data set 'nosuch'"),
        (["--device", "tpu9"], "Unknown device 'tpu9'"),
    ],
)
def test_a_mistake_is_refused_with_what_would_be_right(
    flags: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sentence in refused(["train", *SMALL, "--out", str(tmp_path / "run"), *flags], capsys)
    assert not (tmp_path / "run").exists()


def test_unknown_recipes_and_folders_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "did you mean" in refused(["train", "fashion-mnist-sampel"], capsys)
    assert "There is no run folder" in refused(["train", str(tmp_path / "gone")], capsys)
    assert "is not a run folder" in refused(["train", str(tmp_path)], capsys)
    assert "is not a run folder" in refused(["resume", str(tmp_path)], capsys)
    (tmp_path / "recipe.json").write_text('{"epoch": 3}')
    assert "did you mean epochs" in refused(["train", str(tmp_path / "recipe.json")], capsys)
    (tmp_path / "recipe.json").write_text('{"epo')
    assert "is not a recipe" in refused(["train", str(tmp_path / "recipe.json")], capsys)


def test_help_explains_every_field_in_the_words_of_the_dataclass(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["train", "--help"])
    assert ended.value.code == 0
    said = re.sub(r"[│\s]+", " ", capsys.readouterr().out)
    assert "--optimizer.lr NUMBER Peak learning rate" in said
    assert "--neuron.tau NUMBER Time constant of a leaky (LIF) neuron, at least 1; none for IF." in said
    assert "--max-minutes NUMBER Stop after this long" in said
    assert "--sweep FIELD VALUE [VALUE ...]" in said
    for noise in ("{None}", "MISSING", "dataclass"):
        assert noise not in said


def test_recipes_are_listed_with_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    main(["recipes"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(RECIPES)
    assert all(len(line.split(maxsplit=1)) == 2 for line in lines)


def test_progress_is_a_plain_line_an_epoch_where_there_is_no_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["train", *SMALL, "--out", str(tmp_path / "run"), "--data.validation", "0.25"])
    said = capsys.readouterr()
    lines = [line for line in said.err.splitlines() if line.startswith("epoch ")]
    assert len(lines) == 2
    for line in lines:
        assert re.search(
            r"loss [\d.]+  train [\d.]+ %  steps [\d.]+  validation [\d.]+ % at [\d.]+ steps  \d+ s left",
            line,
        )
        assert re.search(r"[\d,]+ images/s$", line)
    assert "\x1b" not in said.err + said.out, "no escape codes outside a terminal"
    assert "accuracy, strict ties" in said.out


def test_in_a_terminal_there_is_a_bar(tmp_path: Path) -> None:
    terminal, screen = pty.openpty()
    args = ["train", write_recipe(recipe(epochs=6000), tmp_path), "--out", str(tmp_path / "run"), *CPU]
    process = start([*args, "--max-minutes", "0.05"], Path(os.ttyname(screen)), COLUMNS="120", TERM="xterm")
    written = bytearray()
    while process.exitcode is None or select.select([terminal], [], [], 0)[0]:
        if select.select([terminal], [], [], 0.1)[0]:
            written += os.read(terminal, 65536)
    status = end(process)
    text = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", written.decode())
    assert status == STOPPED_STATUS, text
    assert re.search(
        r"epoch \d+/6000 .*\d+% .*left  [\d,]+ images/s  loss [\d.]+  train [\d.]+ %  steps [\d.]+", text
    )
    assert "Stopped by the time limit; resumable." in text
    assert f"firstspike resume {tmp_path / 'run'}" in text.replace("\r\n", "")
