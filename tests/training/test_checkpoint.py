"""Checkpoints: exact, whole or not there, and never the reason a run is lost."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from firstspike.errors import FirstspikeError
from firstspike.training import checkpoint

STATE = {
    "epoch": 3,
    "random": [torch.arange(5, dtype=torch.uint8), torch.zeros(0)],
    "optimizers": [{"state": {0: {"momentum": torch.randn(2, 3)}}, "lr": 0.1 + 0.2, "betas": [0.9, 0.999]}],
    "average": None,
    "scalar": torch.tensor(1 / 3, dtype=torch.float64),
    "turned": torch.randn(2, 3).T,
}


def same(one: object, other: object) -> bool:
    if isinstance(one, torch.Tensor):
        return isinstance(other, torch.Tensor) and one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return (
            isinstance(other, dict) and list(one) == list(other) and all(same(one[k], other[k]) for k in one)
        )
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(same, one, other))
    return one == other


def numbers(folder: Path) -> list[int]:
    return sorted(int(path.name) for path in folder.iterdir())


def test_a_state_comes_back_to_the_last_bit(tmp_path: Path) -> None:
    assert same(checkpoint.read(checkpoint.write(tmp_path, 7, STATE)), STATE)


def test_nothing_is_pickled(tmp_path: Path) -> None:
    path = checkpoint.write(tmp_path, 7, STATE)
    assert sorted(file.name for file in path.iterdir()) == ["state.json", "state.safetensors"]


def test_the_last_two_are_kept(tmp_path: Path) -> None:
    for step in (5, 10, 15):
        checkpoint.write(tmp_path, step, STATE)
    assert numbers(tmp_path) == [10, 15]


def flip_a_bit(path: Path) -> None:
    file = path / "state.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "tensors cut short": lambda path: os.truncate(path / "state.safetensors", 40),
    "tensors empty": lambda path: os.truncate(path / "state.safetensors", 0),
    "tensors gone": lambda path: (path / "state.safetensors").unlink(),
    "one bit wrong": flip_a_bit,
    "json cut short": lambda path: os.truncate(path / "state.json", 30),
    "json gone": lambda path: (path / "state.json").unlink(),
    "json of another kind": lambda path: (path / "state.json").write_text("[]"),
    "an empty folder": lambda path: (shutil.rmtree(path), path.mkdir()),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_checkpoint_falls_back_to_the_one_before(
    damage: Callable[[Path], object], tmp_path: Path
) -> None:
    checkpoint.write(tmp_path, 5, STATE | {"epoch": 2})
    newest = checkpoint.write(tmp_path, 10, STATE)
    damage(newest)
    found, (warning,) = checkpoint.find_last(tmp_path)
    assert found is not None
    assert checkpoint.read(found)["epoch"] == 2
    assert str(newest) in warning
    assert "falling back" in warning
    # The run goes on from step 5, and the damaged one must not count as one of the two that are kept.
    checkpoint.write(tmp_path, 8, STATE)
    assert numbers(tmp_path) == [5, 8]


def test_where_none_is_whole_the_run_starts_again(tmp_path: Path) -> None:
    flip_a_bit(checkpoint.write(tmp_path, 5, STATE))
    found, warnings = checkpoint.find_last(tmp_path)
    assert found is None
    assert "starting from the beginning" in warnings[-1]
    assert checkpoint.find_last(tmp_path / "nothing") == (None, [])


def test_a_whole_checkpoint_is_not_put_at_risk_to_write_it_again(tmp_path: Path) -> None:
    first = (checkpoint.write(tmp_path, 5, STATE) / "state.json").stat()
    again = (checkpoint.write(tmp_path, 5, STATE) / "state.json").stat()
    assert (first.st_ino, first.st_mtime_ns) == (again.st_ino, again.st_mtime_ns)
    flip_a_bit(tmp_path / "000000005")
    checkpoint.write(tmp_path, 5, STATE)
    assert checkpoint.damage(tmp_path / "000000005") is None


@pytest.mark.parametrize("step", ["save_file", "_sync", "os.replace"])
def test_a_kill_while_writing_leaves_the_ones_before(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    checkpoint.write(tmp_path, 5, STATE)
    with monkeypatch.context() as patch:
        patch.setattr(f"firstspike.training.checkpoint.{step}", killed)
        with pytest.raises(KeyboardInterrupt):
            checkpoint.write(tmp_path, 10, STATE)
    assert checkpoint.find_last(tmp_path) == (tmp_path / "000000005", [])
    checkpoint.write(tmp_path, 11, STATE)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["000000005", "000000011"], "a part is left"


@pytest.mark.parametrize("step", ["save_file", "Path.write_text", "_sync"])
def test_a_full_disk_is_told_plainly_and_keeps_what_is_there(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    checkpoint.write(tmp_path, 5, STATE)
    with monkeypatch.context() as patch:
        patch.setattr(f"firstspike.training.checkpoint.{step}", full)
        with pytest.raises(FirstspikeError, match=r"No space left on device.*The one before it is kept"):
            checkpoint.write(tmp_path, 10, STATE)
    assert [path.name for path in tmp_path.iterdir()] == ["000000005"]


@pytest.mark.skipif(os.name != "posix", reason="needs limits on the size of files")
def test_a_write_that_the_system_cuts_off_is_told_plainly_too(tmp_path: Path) -> None:
    """A real failing write, through safetensors: files may not grow beyond 64 KiB."""
    import resource

    checkpoint.write(tmp_path, 5, STATE)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (65536, before[1]))
    try:
        with pytest.raises(FirstspikeError, match="Could not write the checkpoint"):
            checkpoint.write(tmp_path, 10, {"large": torch.zeros(100_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [path.name for path in tmp_path.iterdir()] == ["000000005"]
