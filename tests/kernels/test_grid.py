"""Launches fit the grid whatever the shape: only its first axis takes more than 65,535 programs."""

from typing import Any

import pytest
import torch

from firstspike.kernels import neuron_ops, pool_ops, pooled_ops, sums, weight
from firstspike.kernels.layout import Plane, tile

OPTIONS = (None, 1.0, False, None, "atan", 2.0)


class Recorder:
    """Stands for a module of kernels, and notes how they are launched."""

    def __init__(self) -> None:
        self.launches: list[tuple[tuple[int, ...], dict[str, Any]]] = []

    def __getattr__(self, name: str) -> "Recorder":
        return self

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        def launch(*_: Any, **arguments: Any) -> None:
            self.launches.append((grid, arguments))

        return launch


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[tuple[tuple[int, ...], dict[str, Any]]]:
    recorder = Recorder()
    for module in (neuron_ops, pool_ops, pooled_ops, sums, weight):
        monkeypatch.setattr(module, "triton_kernels", lambda _: recorder)
    return recorder.launches


@pytest.mark.parametrize("shape", [(3, 256, 257, 1, 1), (2, 70_000, 1, 2, 2), (20, 300, 300), (2, 1, 70_000)])
def test_one_axis_holds_all_programs(shape: tuple[int, ...], launches: list[Any]) -> None:
    current = torch.zeros(shape)
    spikes = neuron_ops.amos(current, shape[0], *OPTIONS, None)
    neuron_ops.amos_backward(spikes, current, *OPTIONS, None, False, True)
    assert [len(grid) for grid, _ in launches] == [1] * 3
    *both, ((tiles,), sums) = launches
    assert tiles * sums["BLOCK_C"] >= shape[2]
    for grid, arguments in both:
        assert grid[0] * arguments["BLOCK_R"] * arguments["BLOCK_K"] * 4096 >= current[0].numel()
    (programs,), arguments = launches[0]
    assert programs * arguments["BLOCK_R"] * arguments["BLOCK_K"] >= current[0].numel()


def test_one_axis_holds_all_windows(launches: list[Any]) -> None:
    current = torch.zeros(2, 70_000, 3, 2, 2)
    pooled = pooled_ops.amos_pooled(current, 2, *OPTIONS, None, 2, False)
    pooled_ops.amos_pooled_backward(pooled, current, *OPTIONS, None, 2, False, True)
    pool_ops.avg_pool(current, 2, False)
    pool_ops.avg_pool_backward(pooled, list(current.shape), 2, False)
    assert [len(grid) for grid, _ in launches] == [1] * 5


def test_one_axis_holds_all_rows_of_a_weight(launches: list[Any]) -> None:
    rows = torch.zeros(70_000, 2)
    _, means, scales = weight.normalise(rows, None, 1.0, torch.float32)
    weight.normalise_backward(rows, rows, None, means, scales, 1.0, False)
    assert [grid for grid, _ in launches] == [(70_000,)] * 2


@pytest.mark.parametrize("elements", [512, 1024])
def test_billions_of_neurons_fit(elements: int) -> None:
    for plane in (
        Plane(2**31 - 1, 256, 256, 1, 256),
        Plane(1024, 2**28, 1, 1024, 256),
        Plane(1, 2**31 - 1, 1, 1, 256),
        Plane(2**24, 1, 1, 2**24, 1),
    ):
        tiles, kept_tiles = tile(plane, elements).counts(plane.reduced, plane.kept)
        assert tiles * kept_tiles <= 2**31 - 1
