"""The registry, its runs and what is made of them, on runs of seconds."""

import json
import os
from dataclasses import replace
from pathlib import Path

import numba
import pytest
import torch

from firstspike.cli import main
from firstspike.nn import Normalisation
from firstspike.paper import ENTRIES, Settings, keep_all, make, train_all
from firstspike.paper import recipes as experiments
from firstspike.paper.entry import Context, Entry, Runs, make_quick
from firstspike.paper.library import preferred
from firstspike.paper.make import finished, missing, told_missing
from firstspike.paper.report import results_page, the_papers
from firstspike.paper.runs import diagnostics, digest, library_in, obtain
from firstspike.paper.seeds import compared
from firstspike.paper.table import Claim, Made, Slip, Table, text
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
        assert [one.seed for one in recipes] == list(range(entry.seeds))
    for recipes in entry.plan(quick=False, seeds=2).values():
        assert [one.seed for one in recipes] == [0, 1]


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
    assert {label.split()[0] for label in experiments.gammas()} == {"exponential", "linear"}
    assert set(experiments.rates()) == {"rate-hard", "rate-soft", "relu", "full"}


def test_runs_are_trained_in_order_of_worth(tmp_path: Path) -> None:
    """The entries that most claims rest on, seed by seed, before the sweeps; each run once."""
    settings = Settings(False, tmp_path, tmp_path, tmp_path, kept=tmp_path)
    jobs = missing(list(ENTRIES.values()), settings)
    names = [job.name for job in jobs]
    assert len(set(names)) == len(names)
    leading = [entry for entry in ENTRIES.values() if entry.seeds > 1]
    for count in (1, 2, 3):
        wanted = {
            digest(one) for entry in leading for ones in entry.plan(False, count).values() for one in ones
        }
        assert {digest(job.recipe) for job in jobs[: len(wanted)]} == wanted
    assert all(job.recipe.seed == 0 for job in jobs[len(wanted) :])
    more = missing(list(ENTRIES.values()), replace(settings, seeds=2))
    assert {job.name for job in more} > {
        name for job, name in zip(jobs, names, strict=True) if job.recipe.seed < 2
    }


def test_sweeps_of_one_table_have_the_same_length() -> None:
    for entry in ENTRIES.values():
        plan = entry.plan(quick=False).values()
        assert len({(one.epochs, one.batch_size) for ones in plan for one in ones}) <= 1


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
    threads = {
        "OMP_NUM_THREADS": str(torch.get_num_threads()),
        "NUMBA_NUM_THREADS": str(numba.get_num_threads()),
    }
    monkeypatch.setattr("firstspike.training.side_by_side.environment", lambda _: os.environ | threads)
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
    for entry in (first, second):
        make(entry, settings, lines.append)
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
    assert train_all([first, second], settings, 2, tell) == {}, "what has failed would be tried again"


def test_kept_runs_are_enough_to_draw_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without weights and layers, in another place, seeds and currents and all; the rest is left out."""
    monkeypatch.setattr(
        "firstspike.paper.recipes.of_ablation", lambda name: tiny(get_recipe(f"ablation-{name}"))
    )
    entry = replace(ENTRIES["normalisation"], seeds=2)
    there, here = (
        Settings(False, tmp_path / at, tmp_path / at / "runs", tmp_path, None, CPU, tmp_path / f"{at}-kept")
        for at in "ab"
    )
    made = make(entry, there, tell)
    copies = keep_all(there.cache, here.kept)
    assert len(copies) == 6
    for copy in copies:
        files = [path for path in copy.folder.rglob("*") if path.is_file()]
        assert sum(path.stat().st_size for path in files) < 40_000
        assert not copy.metrics("layers")
        assert len(copy.metrics("epoch")) == 2
    drawn = replace(here, only="draw")
    again = make(entry, drawn, tell)
    for one, other in zip(made, again, strict=True):
        if one.suffix != ".json":
            assert one.read_bytes() == other.read_bytes()
    assert "2 seeds of each network, 2 epochs" in again[0].read_text()
    assert not here.cache.exists()

    lines: list[str] = []
    assert make(ENTRIES["ablation"], drawn, lines.append) == []
    assert lines[0].startswith("ablation: no run yet of baseline, twd")


def test_a_sweep_is_drawn_from_the_points_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "firstspike.paper.recipes.of_ablation", lambda name: tiny(get_recipe(f"ablation-{name}"))
    )
    settings = Settings(False, tmp_path, tmp_path / "runs", tmp_path, options=CPU, kept=tmp_path, only="draw")
    for label in ("8", "4"):
        obtain(experiments.time_steps()[label], settings.cache, [], CPU, tell)
    lines: list[str] = []
    paths = make(ENTRIES["time-steps"], settings, lines.append)
    assert lines[0] == "time-steps: no run yet of 2, 3, 5, 6, 7, 9, 10, 11, 12"
    made = json.loads(paths[1].read_text())
    assert len(made["table"]["rows"]) == 2
    assert made["missing"] == dict.fromkeys(("2", "3", "5", "6", "7", "9", "10", "11", "12"), 1)
    assert "**Incomplete**: no run yet of 2, 3, 5, 6, 7, 9, 10, 11, 12." in paths[0].read_text()
    assert [claim["sentence"] for claim in made["claims"]] == ["Few steps cost accuracy."]

    page = results_page(tmp_path)
    assert "Left out, for want of runs: accuracy, steps, energy" not in page, (
        "the folder has nothing in full form"
    )
    settings.folder.rename(tmp_path / "moved")
    (tmp_path / "paper").mkdir()
    (tmp_path / "moved").rename(tmp_path / "paper" / "full")
    page = results_page(tmp_path)
    assert "Incomplete: time-steps (no run yet of 2, 3, 5, 6, 7, 9, 10, 11, 12)." in page
    made["missing"] = {"8": 2}
    (tmp_path / "paper" / "full" / "time-steps.json").write_text(json.dumps(made))
    assert "Incomplete: time-steps (seeds missing of 8 (2))." in results_page(tmp_path)
    assert "Left out, for want of runs: accuracy, steps, energy" in page


def test_a_figure_of_one_point_is_not_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "firstspike.paper.recipes.of_ablation", lambda name: tiny(get_recipe(f"ablation-{name}"))
    )
    settings = Settings(False, tmp_path, tmp_path / "runs", tmp_path, options=CPU, kept=tmp_path, only="draw")
    obtain(experiments.full(), settings.cache, [], CPU, tell)
    lines: list[str] = []
    assert make(ENTRIES["gamma"], settings, lines.append) == []
    assert make(ENTRIES["depth"], settings, lines.append) == []
    assert all(line.endswith("; left out") for line in lines)


def test_missing_seeds_are_told() -> None:
    there = {"a": [Run(Path("a"))]}
    assert told_missing({"a": 2, "b": 3}, there) == "no run yet of b; seeds missing of a (2)"


def _scored(folder: Path, scores: list[float]) -> list[Run]:
    runs = [Run(folder / f"{seed}") for seed in range(len(scores))]
    for run, score in zip(runs, scores, strict=True):
        run.folder.mkdir(parents=True)
        (run.folder / "summary.json").write_text(json.dumps({"test": {"strict": score}}))
    return runs


def test_accuracies_say_whether_their_seeds_overlap(tmp_path: Path) -> None:
    low, high, between = (
        _scored(tmp_path / name, scores)
        for name, scores in (("low", [88.0, 90.0]), ("high", [91.0, 92.0]), ("between", [89.0, 91.5]))
    )
    assert compared(low, high) == "89.00 ± 1.41 to 91.50 ± 0.71 %"
    assert compared(low, between).endswith("(seeds overlap)")
    assert compared(low[:1], between[:1]) == "88.00 to 89.00 %"
    assert compared(low, []) == "failed"


def test_what_was_kept_is_not_trained_again() -> None:
    """Of the full form, exactly those runs that results/paper/runs and results/runs lack."""
    results = Path(__file__).parents[2] / "results"
    none, settings = (
        Settings(False, Path("none"), Path("none"), library, kept=kept)
        for library, kept in ((Path("none"), Path("none")), (results / "runs", results / "paper" / "runs"))
    )
    entries = list(ENTRIES.values())
    wanted = {digest(job.recipe) for job in missing(entries, none)}
    there = {digest(run.recipe) for run in finished(settings)}
    assert {digest(job.recipe) for job in missing(entries, settings)} == wanted - there
    kept = {digest(run.recipe) for run in library_in(results / "paper" / "runs")}
    assert kept <= wanted, "a kept run that no entry asks for"


def test_few_epochs_are_looked_at_and_always_the_last(tmp_path: Path) -> None:
    run = obtain(replace(tiny(experiments.full()), epochs=7), tmp_path, [], CPU, tell)
    seen = sorted(path.stem for path in (run.folder / "diagnostics").iterdir())
    assert seen == [f"epoch-{epoch:03d}" for epoch in (0, 1, 2, 4, 7)]


def test_a_look_that_fails_does_not_end_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr("firstspike.paper.runs.diagnose", fail)
    run = obtain(tiny(experiments.full()), tmp_path, [], CPU, tell)
    assert run.summary is not None
    assert run.metrics("unseen")


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


def test_runs_of_a_recipe_as_it_is_today_come_first(tmp_path: Path) -> None:
    """However late others were trained; among others the latest."""
    today = get_recipe("dvs-gesture-scnn7")
    kept: dict[str, Run] = {}
    for day, (name, changes) in enumerate(
        [("today", {}), ("longer", {"epochs": 9}), ("fewer", {"T": 2})], start=1
    ):
        kept[name] = Run.create(replace(today, **changes), tmp_path / name)
        (tmp_path / name / "provenance.json").write_text(json.dumps({"started": f"2026-01-0{day}"}))
    assert preferred(list(kept.values())) == [kept["today"]]
    assert preferred([kept["longer"], kept["fewer"]]) == [kept["fewer"]]
    assert preferred([]) == []


def test_neurons_of_another_kind_have_a_row_of_their_own(tmp_path: Path) -> None:
    spiking = tiny(experiments.full())
    for unit, name in (("spike", "ours"), ("rate-hard", "rate"), ("relu", "twin")):
        other = replace(spiking, network=replace(spiking.network, unit=unit))
        obtain(other, tmp_path / "runs", [], CPU, tell).folder.rename(tmp_path / "runs" / name)
    rows = [line for line in results_page(tmp_path).splitlines() if "| `quick-ablation-full`" in line]
    assert [row.split("|")[3].strip() for row in rows] == [
        "`quick-ablation-full`",
        "`quick-ablation-full`, rate-hard",
        "`quick-ablation-full`, relu",
    ]


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
    assert {"cifar10-scnn6-seed0", "fashion-mnist-scnn5-paper-seed0"} <= {run.folder.name for run in found}
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
    assert text(Slip(39.77)) == "39.77 †"
    assert Table(("a",), [(Slip(39.77),)]).as_dict()["rows"] == [{"a": 39.77}]
    assert Claim("So it is.", False, "Seen.").line() == "- **Does not hold**: So it is. Seen."


@pytest.mark.parametrize("form", ["full", "quick"])
def test_a_slip_that_is_marked_is_told(form: str) -> None:
    """In each table: a dagger in a cell has a note with one, and the reverse."""
    folder = Path(__file__).parents[2] / "results" / "paper" / form
    for path in folder.glob("*.md"):
        lines = path.read_text().splitlines()
        cells = any("†" in line for line in lines if line.startswith("|"))
        assert cells == any(line.startswith("† Slip") for line in lines), path.name


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["make", "--quick"], "Say what to make"),
        (["make", "latency", "--seeds", "0"], "--seeds is 0: give 1 or more"),
        (["results", "--folder", "nowhere"], "There is no folder nowhere"),
    ],
)
def test_commands_that_would_make_nothing_are_refused(
    args: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["paper", *args])
    assert ended.value.code == 2
    assert words in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
