"""The tables of steps, spikes, operations and energy, and of rate coding against TTFS."""

import math
import statistics
from typing import Any

import torch

from firstspike.measure.energy import Energy, estimate, spike_energy
from firstspike.measure.synapses import sites
from firstspike.models import Network, build_from, load_either
from firstspike.models.twin import Twin
from firstspike.paper import values
from firstspike.paper.entry import Context, Runs
from firstspike.paper.library import from_relu, in_library, preferred
from firstspike.paper.seeds import mean, spread, with_deviation
from firstspike.paper.table import Cell, Claim, Made, Table
from firstspike.training import Run


def energy_of(run: Run) -> tuple[dict[str, Any], Energy] | None:
    """The measures of a run, and its energy on the paper's hardware."""
    if run.summary is None or run.summary["test"].get("layer_spikes") is None:
        return None
    test = run.summary["test"]
    net = load_either(run.model) if run.model.is_dir() else _rebuilt(run)
    network = net.net if isinstance(net, Twin) else net
    sops, inputs = test.get("sops"), test.get("input_operations", 0.0)
    spikes = test["layer_spikes"]
    return test, estimate(sites(network), test["steps"], spikes, math.nan if sops is None else sops, inputs)


def _rebuilt(run: Run) -> Network:
    """The network of a run whose weights are not at hand, on the meta device: enough to count its synapses."""
    from firstspike.data import catalogue
    from firstspike.models import NetworkConfig

    recipe = run.recipe
    shapes = {"cifar10": (3, 32, 32), "cifar100": (3, 32, 32), "dvs-gesture": (2, 64, 64)}
    shape = shapes.get(recipe.data.name, (1, 28, 28))
    classes = len(catalogue[recipe.data.name].classes)
    with torch.device("meta"):
        return build_from(NetworkConfig(recipe.network.architecture, shape, recipe.T, classes))


def energy(runs: Runs, context: Context) -> Made:
    """Steps, spikes, operations and the three estimates."""
    headings = (
        "where",
        "network",
        "steps",
        "N_s",
        "SOPs",
        "E1 (uJ)",
        "E2 / rate",
        "E3 (uJ)",
        "E3, all layers (uJ)",
    )
    rows: list[tuple[Cell, ...]] = [
        ("paper, CIFAR10", name, *printed, None) for name, printed in values.ENERGY.items()
    ]
    known: dict[str, list[tuple[dict[str, Any], Energy]]] = {}
    for label, name in (("rate-hard", "rate"), ("baseline", "tq-ttfs stand-in"), ("full", "ettfs")):
        found = [seed for run in runs[label] if (seed := energy_of(run))]
        if found:
            known[name] = found
    reference = statistics.fmean(spent.e2 for _, spent in known["rate"]) if "rate" in known else None
    for name, seeds in known.items():
        rows.append((f"here, {context.data}", name, *_energy_cells(seeds, reference)))
    paper_rate = spike_energy(*values.ENERGY["rate"][:2])
    for unit, paper in (("rate-hard", True), ("rate-hard", False), ("spike", True), ("spike", False)):
        every = in_library(context, "cifar10", "SCNN6", unit, paper)
        for group in (preferred(from_relu(every, False)), preferred(from_relu(every, True))):
            found = [seed for run in group if (seed := energy_of(run))]
            if found:
                where = f"here, CIFAR10, T = {group[0].recipe.T}"
                rows.append(
                    (
                        where,
                        f"{group[0].recipe.name}, {unit} (E2 over the paper's)",
                        *_energy_cells(found, paper_rate),
                    )
                )
    notes = (
        *values.SLIPS["energy"],
        "E1 = 0.9 pJ x sum of dense operations x spikes per neuron until the answer (padding counted as operations). "
        "E2 = 0.6 x steps + 0.4 x N_s. E3 = 13.574 uJ a step, for one layer of 256 to 256 channels at 32 x 32; the "
        "last column sums all layers of the network measured.",
        "SOPs count each spike times the synapses it drives, borders included; under direct coding the first layer "
        "multiplies a constant current instead, which is not in them. A dash: not counted in that run.",
    )
    needs = "needs fewer steps, spikes and operations than"
    claims = (
        *_fewer(known, "rate", f"TTFS {needs} rate coding on the same network."),
        *_fewer(known, "tq-ttfs stand-in", f"ETTFS {needs} TQ-TTFS (our stand-in)."),
    )
    return Made(Table(headings, rows, notes), claims=claims)


def _fewer(
    known: dict[str, list[tuple[dict[str, Any], Energy]]], baseline: str, sentence: str
) -> tuple[Claim, ...]:
    """Whether the whole method takes less than a baseline; nothing where either has failed."""
    if baseline not in known or "ettfs" not in known:
        return ()
    other, ours = (
        {key: statistics.fmean(test[key] for test, _ in known[name]) for key in ("steps", "spikes", "sops")}
        for name in (baseline, "ettfs")
    )
    evidence = (
        f"Steps {ours['steps']:.2f} against {other['steps']:.2f}, spikes {ours['spikes']:,.0f} against "
        f"{other['spikes']:,.0f}, operations {ours['sops']:,.0f} against {other['sops']:,.0f}."
    )
    return (Claim(sentence, all(ours[key] < other[key] for key in ours), evidence),)


def _energy_cells(seeds: list[tuple[dict[str, Any], Energy]], reference: float | None) -> tuple[Cell, ...]:
    """Means over seeds with their deviations; E2 as a share of the reference."""
    columns = (
        [test["steps"] for test, _ in seeds],
        [test["spikes"] for test, _ in seeds],
        [test.get("sops") for test, _ in seeds],
        [spent.e1 for _, spent in seeds],
        [spent.e2 / reference if reference else None for _, spent in seeds],
        [spent.e3 for _, spent in seeds],
        [spent.e3_network for _, spent in seeds],
    )
    known = ([value for value in column if value is not None] for column in columns)
    return tuple(spread(column) if column else None for column in known)


def rate(runs: Runs, context: Context) -> Made:
    """Rate coding, by either reset, against TTFS on the same network."""
    rows: list[tuple[Cell, ...]] = []
    for (data, architecture), (printed, ettfs) in values.RATE.items():
        kinds = {
            unit: preferred(
                in_library(context, data, architecture, unit)
                + in_library(context, data, architecture, unit, paper=True)
            )
            for unit in ("rate-hard", "rate-soft", "relu")
        }
        started = (data, architecture) in values.PRETRAINED  # as the paper's, which stands beside it
        kinds["full"] = preferred(from_relu(in_library(context, data, architecture), started))
        found = runs if data == "fashion-mnist" else kinds
        rows.append(
            (
                data,
                architecture,
                printed,
                ettfs,
                with_deviation(found["rate-hard"]),
                with_deviation(found["rate-soft"]),
                with_deviation(found["relu"], "accuracy"),
                with_deviation(found["full"]),
                with_deviation(found["full"], "potential"),
            )
        )
    headings = (
        "set",
        "network",
        "paper, rate %",
        "paper, ETTFS %",
        "rate, hard reset %",
        "rate, soft reset %",
        "ReLU twin %",
        "TTFS, strict %",
        "TTFS, potential %",
    )
    best = max(mean(runs[label]) or 0.0 for label in ("rate-hard", "rate-soft"))
    strict = mean(runs["full"]) or 0.0
    claim = Claim(
        "Rate coding is a little ahead of TTFS on Fashion-MNIST.",
        best > strict,
        f"{best:.2f} against {strict:.2f} %.",
    )
    note = "Fashion-MNIST: one recipe, in which the neuron alone differs. Other sets: runs in results/runs."
    return Made(Table(headings, rows, (*values.SLIPS["rate"], note)), claims=(claim,))
