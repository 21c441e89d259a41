"""A session on the lent machine in small: what is packed arrives as it was, lanes run, what they make comes home."""

import importlib
import json
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

GPU = Path(__file__).parents[2] / "gpu"
sys.path.append(str(GPU))
calls, carried, check, home, lanes, pack, plan, unpack = map(
    importlib.import_module, ("calls", "carried", "check", "home", "lanes", "pack", "plan", "unpack")
)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A made-up set with a file of each kind, to be cut into small pieces; and no packages to carry."""
    for name, value in {"PICTURES": 8, "PLAIN_BYTES": 5000, "SPARSE_BYTES": 2**15}.items():
        monkeypatch.setattr(carried, name, value)
    monkeypatch.setattr(pack, "MANIFEST_BYTES", 0)
    monkeypatch.setattr(pack, "packages", lambda: b"PK\5\6" + bytes(18))
    chance, folder = np.random.default_rng(0), tmp_path / "data/toy/inner"
    folder.mkdir(parents=True)
    chance.integers(0, 256, (20, 2 + 3072), dtype=np.uint8).tofile(folder / "train.bin")
    (folder / "labels.gz").write_bytes(chance.bytes(12_345))
    events = chance.poisson(0.05, (40, 5, 2, 16, 16)).astype(np.uint8)
    np.savez_compressed(folder / "train.npz", x=events, y=np.arange(40) % 3)
    return tmp_path / "data"


def packed(root: Path) -> list[Path]:
    """The carried folders of the made-up set, each of which has room for one lot of pictures."""
    folders = pack.pack(root.parent, ["toy"], 0.04, root)
    return [root.parent / name for name in folders.manifest["folders"]]


def test_a_set_arrives_as_it_was_over_several_calls(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders, to = packed(root), root.parent / "to"
    assert len(folders) > 2
    for folder in (folders[0], *folders[:-1]):
        unpack.unpack([folder], to)
        assert not (to / "data/toy").exists()
    for said in ("complete, 3 files as they were packed", "there already"):
        unpack.unpack(folders[-1:], to)
        assert f"toy: {said}" in capsys.readouterr().out
        was, found = root / "toy/inner", to / "data/toy/inner"
        for name in ("train.bin", "labels.gz"):
            assert (found / name).read_bytes() == (was / name).read_bytes()
        with np.load(was / "train.npz") as before, np.load(found / "train.npz") as after:
            assert before.files == after.files
            for name in before:
                np.testing.assert_array_equal(before[name], after[name], strict=True)


def test_a_damaged_piece_is_refused(root: Path) -> None:
    folders, to = packed(root), root.parent / "to"
    piece = next(root.parent.glob("carry-*/toy-00-001"))
    piece.write_bytes(bytes(piece.stat().st_size))
    with pytest.raises(
        SystemExit, match=r"^unpack: toy is not as it was packed: carry it again \(.*labels\.gz"
    ):
        unpack.unpack(folders, to)
    assert not (to / "data/toy").exists()


LANES = """
stop_after = 100

[[lane]]
name = "good"
run = [{ command = "python make_run.py first summary.json", seconds = 1 }]

[[lane]]
name = "bad"
run = [
  { command = "python -c 'raise SystemExit(\\"out of luck\\")'", seconds = 1 },
  { command = "no-such-program", seconds = 1 },
  { command = "python make_run.py second summary.json", seconds = 1 },
]

[[lane]]
name = "late"
after = ["good", "bad"]
run = [
  { command = "python make_run.py third", seconds = 1 },
  { command = "python -c 'import time; time.sleep(600)'", seconds = 1 },
  { command = "python make_run.py never", seconds = 1 },
]

[[lane]]
name = "hungry"
sets = ["toy"]
run = [{ command = "python make_run.py never", seconds = 1 }]
"""
MAKE_RUN = """
import pathlib, sys
run = pathlib.Path("runs") / sys.argv[1]
for name in ("model/weights", "checkpoints/last", "recipe.json", "metrics.jsonl", *sys.argv[2:]):
    (run / name).parent.mkdir(parents=True, exist_ok=True)
    (run / name).write_text(sys.argv[1])
"""


def brought(out: Path) -> list[str]:
    """The names of all files in the archives below a folder."""
    found = []
    for path in sorted(out.rglob("*.0")):
        with tarfile.open(path) as archive:
            found += archive.getnames()
    return found


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder with a small tree to run in; whatever runs in it is stopped at the end."""
    monkeypatch.setattr(lanes, "copy_tree", lambda to: None)
    monkeypatch.setattr(lanes, "start_mps", lambda work: {})
    (tmp_path / "work/tree").mkdir(parents=True)
    (tmp_path / "work/tree/gpu").symlink_to(GPU)
    (tmp_path / "work/tree/make_run.py").write_text(MAKE_RUN)
    yield tmp_path / "work"
    lanes.stop(tmp_path / "work")


@pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")  # as it should be
def test_lanes_run_side_by_side_and_a_finished_run_comes_home_once(
    work: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given, outs = tmp_path / "plan.toml", [tmp_path / f"out{n}" for n in range(3)]
    given.write_text(LANES)
    for _ in range(2):  # to start them again does no harm
        lanes.start(given, work, "no commit")
    until = time.monotonic() + 60
    while not (work / "lanes/late/2.log").exists() and time.monotonic() < until:
        time.sleep(0.05)
    lanes.wait(work, 0, outs[0], again=False)
    said = capsys.readouterr().out
    for line in ("good: ended, 1 of 1 finished", "bad: ended, 1 of 3 finished", "FAILED with status 127"):
        assert line in said
    for line in ("    out of luck\n", "late: 2 of 3, python -c", "hungry: waits for toy\n"):
        assert line in said
    began, ended = (work / "lanes" / name for name in ("late/1.log", "bad/ended"))
    assert began.stat().st_mtime_ns >= ended.stat().st_mtime_ns

    session = work / "session.json"
    session.write_text(json.dumps(json.loads(session.read_text()) | {"stop_after": 0}))
    lanes.wait(work, 60, outs[1], again=False)
    assert "late: ended, 1 of 3 finished" in capsys.readouterr().out
    lanes.wait(work, 60, outs[2], again=True)
    names = [brought(out) for out in outs]
    summaries = [[name for name in called if name.endswith("summary.json")] for called in names]
    both = ["runs/first/summary.json", "runs/second/summary.json"]
    assert summaries == [both, [], both]
    assert all("runs/third/metrics.jsonl" in called for called in names)
    assert not any("never" in name or "checkpoints" in name for called in names for name in called)


@pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")
def test_what_is_put_into_now_is_begun_by_the_next_call_and_once(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lanes, "NOW", tmp_path / "now")
    lane = 'name = "{0}"\nrun = [{{ command = "python make_run.py {0}", seconds = 1 }}]\n'
    plan_of = f"stop_after = 100\n[[lane]]\n{lane}"
    (tmp_path / "plan.toml").write_text(plan_of.format("planned"))
    lanes.start(tmp_path / "plan.toml", work, "its commit")
    (tmp_path / "now").mkdir()
    later = plan_of.format("thought_of_later").replace("stop_after = 100", "stop_after = 200")
    (tmp_path / "now/more.toml").write_text(later)
    for _ in range(2):
        lanes.wait(work, 60, tmp_path / "out", again=False)
    said = capsys.readouterr().out
    assert said.count("thought_of_later: begun, 1 commands") == 1
    assert "thought_of_later: ended, 1 of 1 finished" in said
    assert json.loads((work / "session.json").read_text())["stop_after"] == 200


def test_what_does_not_fit_comes_with_the_next_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"ROOM": 2500, "PART": 700, "MODEL": 300}.items():
        monkeypatch.setattr(home, name, value)
    work, chance = tmp_path / "work", np.random.default_rng(0)
    for name, model in {"a": 300, "b": 100, "c": 301}.items():
        run = work / "tree/runs" / name
        (run / "model").mkdir(parents=True)
        for file, size in {"model/weights": model, "metrics.jsonl": 1000, "summary.json": 10}.items():
            (run / file).write_bytes(chance.bytes(size))
    outs = [tmp_path / "outs" / str(n) for n in range(3)]
    lines = [home.bring_home(work, out) for out in outs]
    assert [line.partition(";")[0] for line in lines] == [
        "home: 2 finished runs (a, b)",
        "home: 1 finished runs (c)",
        "home: 0 finished runs (none)",
    ]
    assert "1 more with the next call" in lines[0]
    assert all(part.stat().st_size <= 700 for out in outs for part in out.iterdir())
    home.put_away(tmp_path / "outs", tmp_path)
    was, found = work / "tree/runs", tmp_path / "runs"
    for path in (path for path in was.rglob("*") if path.is_file() and path != was / "c/model/weights"):
        assert (found / path.relative_to(was)).read_bytes() == path.read_bytes()
    assert not (found / "c/model").exists()


TRAIN = "firstspike train cifar100-relu --out runs/twin"


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (f"{TRAIN} --epohcs 3", r"Unrecognized options: --epohcs, 3 Perhaps you meant: --epochs INT"),
        (f"{TRAIN} --epochs three", r"'three' is not a whole number"),
        (f"{TRAIN} --loss.distil 1", r"loss\.distil needs a teacher"),
        (f"{TRAIN} --sweep optimiser.lr 1 2", r"Unknown field 'optimiser\.lr': did you mean optimizer\.lr"),
        ("firstspike train cifar100-rleu --out runs/twin", r"did you mean cifar100-relu"),
        ("firstspike train cifar10-relu --out runs/twin", r"trains on cifar10: name that among the `sets`"),
        ("firstspike train cifar100-relu", r"has no --out"),
        (
            "firstspike train cifar100-scnn6-from-relu --out runs/x",
            r"runs/cifar100-relu, which is not in the",
        ),
        ("firstspike paper make ablatoin", r"did you mean ablation"),
        ("firstspike recipes", r"a lane runs `firstspike train`"),
    ],
)
def test_a_command_that_cannot_work_is_refused_in_one_sentence(
    command: str, sentence: str, tmp_path: Path
) -> None:
    path = tmp_path / "plan.toml"
    run = f'run = [{{ command = "{command}", seconds = 1 }}]'
    path.write_text(f'stop_after = 1\n[[lane]]\nname = "one"\nsets = ["cifar100"]\n{run}\n')
    with pytest.raises(SystemExit, match=sentence) as refused:
        check.check_plan(plan.read_plan(path), GPU.parent)
    assert str(refused.value).startswith(f"Lane one, {command}: ")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('[[lane]]\nname = "one"\nrnu = []', r"Unknown field 'lane\[0\]\.rnu': did you mean run"),
        (
            '[[lane]]\nname = "one"\nrun = []\nafter = ["two"]',
            r"one comes after two, which does not stand before",
        ),
        ("[[lane]", r"plan\.toml: Expected"),
    ],
)
def test_a_plan_that_cannot_be_read_is_refused(text: str, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(f"stop_after = 1\n{text}\n")
    with pytest.raises(SystemExit, match=sentence):
        plan.read_plan(path)


@pytest.mark.parametrize("path", sorted(GPU.glob("plans/*.toml")), ids=lambda path: path.stem)
def test_the_plans_are_right(path: Path) -> None:
    check.check_plan(plan.read_plan(path), GPU.parent)


def test_the_calls_of_a_session_fit_its_time() -> None:
    read = plan.read_plan(GPU / "plans/rehearsal.toml")
    sent = list(calls.calls(Path("gpu/plans/rehearsal.toml"), read, ["carry-1", "carry-2"]))
    assert all(len(one) < 2000 for one in sent)
    assert "lanes.py start gpu/plans/rehearsal.toml" in sent[0]
    waits = sum("wait 120" in one for one in sent)
    assert waits * (calls.WAIT_SECONDS + calls.POLL_SECONDS) >= read.stop_after - calls.UPLOAD_SECONDS
