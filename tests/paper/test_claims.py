"""The paper's claims that do not depend on a lucky seed: fresh networks, and (slow) short training."""

from dataclasses import replace
from pathlib import Path

import pytest

from firstspike.paper import recipes as experiments
from firstspike.paper.entry import make_quick
from firstspike.paper.initialisation import looked_at, pooling_claim, unforced
from firstspike.paper.runs import obtain
from firstspike.training import Options, Recipe, Run

DEEP = "{FC100}*7-FC10"


def test_ettfs_init_keeps_the_currents_variance_where_kaimings_is_small() -> None:
    found = looked_at(DEEP)
    variances = {init: [at["variance"] for at in layers.values()][1:] for init, layers in found.items()}
    assert all(0.5 < variance < 2 for variance in variances["ettfs"])
    assert all(variance < 0.09 for variance in variances["kaiming"])


def test_without_forced_spikes_kaimings_signal_dies_out() -> None:
    variances = unforced(DEEP)
    assert variances["kaiming"][-1] == 0
    assert variances["ettfs"][-1] > 0.05


def test_ettfs_inits_gradients_are_larger() -> None:
    found = looked_at(DEEP)
    for layer, at in found["ettfs"].items():
        assert at["gradient_rms"] > 10 * found["kaiming"][layer]["gradient_rms"]


def test_average_pooling_keeps_one_spike_and_max_pooling_does_not() -> None:
    assert pooling_claim().holds


def trained(recipe: Recipe, folder: Path, seed: int) -> Run:
    options = Options(device="cpu", tensorboard=False)
    return obtain(replace(make_quick(recipe), seed=seed), folder, [], options, lambda line: None)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_ttfs_spikes_less_and_answers_earlier_than_rate_coding(seed: int, tmp_path: Path) -> None:
    tests = {}
    for name in ("rate-hard", "full"):
        summary = trained(experiments.rates()[name], tmp_path, seed).summary
        assert summary is not None
        tests[name] = summary["test"]
    for measure in ("steps", "spikes", "sops"):
        assert tests["full"][measure] < tests["rate-hard"][measure]
