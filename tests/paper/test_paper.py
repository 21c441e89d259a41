"""The registry, its runs and what is made of them, on runs of seconds."""

import json
from dataclasses import replace
from pathlib import Path

import numba
import pytest
import torch

from firstspike.nn import Normalisation
from firstspike.paper import ENTRIES, Settings, make, train_all
from firstspike.paper import recipes as experiments
from firstspike.paper.entry import Context, Entry, Runs, make_quick
from firstspike.paper.report import results_page, the_papers
from firstspike.paper.runs import diagnostics, digest, library_in, obtain
from firstspike.paper.table import Claim, Made, Table, text
from firstspike.training import Options, Recipe, Run, get_recipe
from firstspike.training.optimizer import OptimizerConfig
from tests.training.small import recipe

CPU = Options(device="cpu", tensorboard=False)


def tiny(of: Recipe) -> Recipe:
    """An experiment in half a second: its own settings on the blobs."""
    quick = make_quick(of)
    network = replace(quick.network, architecture="C2K3-P2-FC8-FC4")
    return replace(quick, epochs=2, batch_size=64, data=recipe().data, network=network)


def tell(line: str) -> None:
    """Nobody listens."""


def test_every_table_and_figure_of_the_paper_is_there() -> None:
    assert set(ENTRIES) == {
        "accuracy",
        "steps",
        "energy",
        "ablation",
        "time-steps",
        "variance",
        "rate",
        "currents",
        "normalisation",
        "gradients",
        "depth",
        "epochs",
        "gamma",
        "decoder-steps",
        "latency",
    }


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
def test_plans_are_valid_and_quick_ones_small(entry: Entry) -> None:
    full, quick = entry.plan(quick=False), entry.plan(quick=True)
    assert set(quick) <= set(full)
    for recipes in quick.values():
        assert [one.data.name for one in recipes] == ["fashion-mnist-sample"]
        assert recipes[0].epochs <= 4
    for recipes in full.values():
        assert [one.seed for one in recipes] == [0, 1, 2]


def test_entries_share_runs() -> None:
    """What the whole method is called differs; what it is does not."""
    wanted = {
        digest(make_quick(one))
        for one in (
            experiments.full(),
            experiments.time_steps()["8"],
            experiments.variances()["1.0"],
            experiments.gammas()["linear 1"],
            experiments.rates()["full"],
        )
    }
    assert len(wanted) == 1
    assert digest(experiments.time_steps()["4"]) != digest(experiments.full())


def test_the_papers_rows_are_complete() -> None:
    assert list(experiments.time_steps()) == [str(T) for T in range(2, 13)]
    assert list(experiments.variances()) == ["0.25", "0.5", "1.0", "2.0", "4.0"]
    assert len(experiments.components()) == 8
    assert len(experiments.depths()) == 14


def test_runs_are_trained_once_and_looked_at_each_epoch(tmp_path: Path) -> None:
    wanted, lines = tiny(experiments.full()), list[str]()
    run = obtain(wanted, tmp_path, [], CPU, lines.append)
    assert run.summary is not None
    assert len(lines) == 1
    again = obtain(replace(wanted, name="another name"), tmp_path / "elsewhere", [run], CPU, lines.append)
    assert again.folder == run.folder
    assert obtain(wanted, tmp_path, [], CPU, lines.append).folder == run.folder
    assert len(lines) == 1
    for epoch in (0, 1, 2):
        layers = diagnostics(run, epoch)
        assert list(layers) == ["1.C2K3", "3.FC8", "4.FC4"]
        assert all(at["variance"] > 0 and sum(at["current"]["counts"]) > 0 for at in layers.values())
    assert diagnostics(run, -1) == diagnostics(run, 2)


def test_a_stopped_run_goes_on(tmp_path: Path) -> None:
    wanted = tiny(experiments.full())
    with pytest.raises(KeyboardInterrupt):
        obtain(wanted, tmp_path, [], replace(CPU, max_minutes=0.0), tell)
    run = obtain(wanted, tmp_path, [], CPU, tell)
    assert run.summary is not None
    assert run.metrics("resumed")


def test_missing_runs_are_trained_side_by_side_each_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are those that `obtain` would train, diagnostics and all; what failed is not tried again."""
    monkeypatch.setattr("firstspike.paper.entry.make_quick", lambda recipe: recipe)
    monkeypatch.setenv("OMP_NUM_THREADS", str(torch.get_num_threads()))
    monkeypatch.setenv("NUMBA_NUM_THREADS", str(numba.get_num_threads()))
    good = tiny(experiments.full())
    bad = replace(
        good, optimizer=OptimizerConfig("sgd", lr=1e38), normalisation=Normalisation("none"), name="bad"
    )
    seen: list[Run] = []

    def render(runs: Runs, _: Context) -> Made:
        seen.extend(run for seeds in runs.values() for run in seeds)
        return Made()

    first = Entry("first", "First", "table", lambda: {"good": good, "bad": bad}, render)
    second = Entry("second", "Second", "table", lambda: {"again": replace(good, name="again")}, render)
    settings = Settings(True, tmp_path / "out", tmp_path / "runs", tmp_path / "none", options=CPU)
    ends = train_all([first, second], settings, 2, tell)
    assert sorted(ends.values()) == ["failed", "finished"]

    lines: list[str] = []
    failed = {name for name, end in ends.items() if end == "failed"}
    for entry in (first, second):
        make(entry, settings, lines.append, failed)
    assert len(lines) == 2, "something was trained again"
    assert seen[0].folder == seen[2].folder
    assert seen[1].metrics("failed")
    alone = obtain(good, tmp_path / "alone", [], CPU, tell)
    assert seen[0].summary is not None
    assert alone.summary is not None
    assert seen[0].summary["test"] == alone.summary["test"]
    for epoch in (0, 1, 2):
        ours, theirs = diagnostics(seen[0], epoch), diagnostics(alone, epoch)
        assert [at["variance"] for at in ours.values()] == pytest.approx(
            [at["variance"] for at in theirs.values()], rel=1e-3
        )
    assert train_all([second], settings, 2, tell) == {}


SLOW = ("time-steps", "variance", "gamma", "decoder-steps")


@pytest.mark.parametrize(
    "name",
    [
        *("energy", "ablation", "rate", "normalisation", "epochs"),
        *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW),
    ],
)
def test_entries_are_made_from_their_runs(
    name: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("firstspike.paper.entry.make_quick", tiny)
    cache = tmp_path_factory.getbasetemp() / "paper-runs"
    settings = Settings(True, tmp_path, cache, tmp_path / "none", options=CPU)
    paths = make(ENTRIES[name], settings, tell)
    assert all(path.stat().st_size > 100 for path in paths)
    made = json.loads((tmp_path / "quick" / f"{name}.json").read_text())
    assert made["form"] == "quick"
    assert made["made"]["commit"]
    assert all(claim["evidence"] for claim in made["claims"])
    suffixes = {path.suffix for path in paths}
    assert suffixes == (
        {".md", ".json"} if ENTRIES[name].kind == "table" else {".md", ".json", ".svg", ".png"}
    )


def test_the_results_page_tells_final_runs_from_probes(tmp_path: Path) -> None:
    for name in ("final-seed0", "probe-this"):
        obtain(tiny(experiments.full()), tmp_path / "runs", [], CPU, tell).folder.rename(
            tmp_path / "runs" / name
        )
    page = results_page(tmp_path)
    before, after = page.split("## Probes")
    assert "final-seed0" in before
    assert "probe-this" not in before
    assert "| this |" in after
    assert page.count("ablation-full") >= 2


def test_each_way_of_training_stands_beside_the_papers_own() -> None:
    scratch, started, twin = (get_recipe(f"cifar10-{name}") for name in ("scnn6", "scnn6-from-relu", "relu"))
    assert the_papers(scratch) == (90.56, 0.33)
    assert the_papers(started) == (93.89, 0.28)
    assert the_papers(twin) is None


def test_the_library_passes_over_what_it_cannot_read(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "summary.json").write_text("{}")
    (tmp_path / "old" / "recipe.json").write_text('{"unheard_of": 1}')
    assert library_in(tmp_path) == []


def test_our_results_are_in_the_library() -> None:
    found = library_in(Path(__file__).parents[2] / "results" / "runs")
    assert {"cifar10-scnn6-100epochs-seed0", "fashion-mnist-scnn5-paper-seed0"} <= {
        run.folder.name for run in found
    }
    assert all(isinstance(run, Run) and run.summary for run in found)


def test_cells_are_written_for_people() -> None:
    assert [text(value) for value in (None, 12345.6, 12345, 0.00123, 92.9, "a")] == [
        "-",
        "12,346",
        "12,345",
        "0.0012",
        "92.90",
        "a",
    ]
    table = Table(("a", "b"), [(1.0, None)])
    assert table.markdown().splitlines() == ["| a | b |", "| --- | --- |", "| 1.00 | - |"]
    assert Claim("So it is.", False, "Seen.").line() == "- **Does not hold**: So it is. Seen."
