"""The paper's tables, its values beside ours."""

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
from firstspike.paper.table import Cell, Claim, Made, Table
from firstspike.training import Run


def mean(runs: list[Run], measure: str = "strict") -> float | None:
    """Mean over the seeds of a measure on the test set; None where no run is finished or none has it."""
    found = [run.summary["test"].get(measure) for run in runs if run.summary]
    known = [value for value in found if value is not None]
    return statistics.fmean(known) if known else None


def with_deviation(runs: list[Run], measure: str = "strict") -> Cell:
    """Mean and, over several seeds, the sample deviation, as text."""
    found = [run.summary["test"][measure] for run in runs if run.summary and measure in run.summary["test"]]
    if not found:
        return "failed" if runs else None
    text = f"{statistics.fmean(found):.2f}"
    return text if len(found) == 1 else f"{text} ± {statistics.stdev(found):.2f}"


def in_library(context: Context, data: str, architecture: str, prefix: str = "") -> list[Run]:
    """Finished runs of one set and network, by the start of their recipe's name; probes left out."""
    return [
        run
        for run in context.library
        if run.recipe.data.name == data
        and run.recipe.network.architecture == architecture
        and run.recipe.name.startswith(prefix)
        and not run.folder.name.startswith("probe-")
    ]


def _of(runs: Runs, context: Context, data: str, architecture: str, paper: bool) -> list[Run]:
    """The runs of one set, of the paper's method or of our own recipe: those of this entry, else the library's."""
    label = f"{data} {architecture}{' paper' if paper else ''}"
    if label in runs:
        return runs[label]
    found = in_library(context, data, architecture)
    return [run for run in found if run.recipe.name.endswith("-paper") == paper]


def accuracy(runs: Runs, context: Context) -> Made:
    """Accuracy on all sets: the paper, its method here, and our own recipe."""
    rows: list[tuple[Cell, ...]] = []
    for (data, architecture), (printed, deviation) in values.ACCURACY.items():
        method, ours = (_of(runs, context, data, architecture, paper) for paper in (True, False))
        started = values.PRETRAINED.get((data, architecture))
        rows.append(
            (
                data,
                architecture,
                f"{printed:.2f} ± {deviation:.2f}",
                f"{started[0]:.2f}" if started else None,
                with_deviation(method),
                with_deviation(ours),
                with_deviation(ours, "potential"),
                len(ours) or None,
            )
        )
    headings = (
        "set",
        "network",
        "paper %",
        "paper, from ReLU %",
        "its method here, strict %",
        "our recipe, strict %",
        "our recipe, potential %",
        "seeds",
    )
    notes = values.SLIPS["accuracy"]
    if context.quick:
        notes = (
            *notes,
            "Rows trained here are of the quick form; those of other sets come from results/runs.",
        )
    return Made(Table(headings, rows, notes))


def steps(runs: Runs, context: Context) -> Made:
    """Mean steps until the answer."""
    rows: list[tuple[Cell, ...]] = []
    for data, architecture in values.ACCURACY:
        method, ours = (_of(runs, context, data, architecture, paper) for paper in (True, False))
        rows.append(
            (
                data,
                architecture,
                values.TQ_STEPS[data],
                values.STEPS[data],
                with_deviation(method, "steps"),
                with_deviation(ours, "steps"),
                ours[0].recipe.T if ours else None,
            )
        )
    headings = (
        "set",
        "network",
        "paper, TQ-TTFS",
        "paper, ETTFS (T = 8)",
        "its method here (T = 8)",
        "our recipe",
        "our T",
    )
    note = "The paper gives one number a set, not saying for which network. Steps count from 1; silence counts T."
    return Made(Table(headings, rows, (note,)))


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
    known: dict[str, tuple[dict[str, Any], Energy]] = {}
    for label, name in (("rate-hard", "rate"), ("baseline", "tq-ttfs stand-in"), ("full", "ettfs")):
        found = energy_of(runs[label][0]) if runs.get(label) else None
        if found:
            known[name] = found
    reference = known["rate"][1].e2 if "rate" in known else None
    for name, (test, spent) in known.items():
        ratio = spent.e2 / reference if reference else None
        rows.append((f"here, {context.data}", name, *_energy_cells(test, spent, ratio)))
    for run in in_library(context, "cifar10", "SCNN6"):
        found = energy_of(run)
        if found:
            paper_rate = spike_energy(*values.ENERGY["rate"][:2])
            cells = _energy_cells(*found, found[1].e2 / paper_rate)
            rows.append(
                (f"here, CIFAR10, T = {run.recipe.T}", f"{run.recipe.name} (E2 over the paper's)", *cells)
            )
    notes = (
        *values.SLIPS["energy"],
        "E1 = 0.9 pJ x sum of dense operations x spikes per neuron until the answer (padding counted as operations). "
        "E2 = 0.6 x steps + 0.4 x N_s. E3 = 13.574 uJ a step, for one layer of 256 to 256 channels at 32 x 32; the "
        "last column sums all layers of the network measured.",
        "SOPs count each spike times the synapses it drives, borders included; under direct coding the first layer "
        "multiplies a constant current instead, which is not in them. A dash: not counted in that run.",
    )
    claims = []
    if "rate" in known and "ettfs" in known:
        (rate, _), (ours, spent) = known["rate"], known["ettfs"]
        claims.append(
            Claim(
                "TTFS needs fewer steps, spikes and operations than rate coding on the same network.",
                all(ours[key] < rate[key] for key in ("steps", "spikes", "sops")),
                f"Steps {ours['steps']:.2f} against {rate['steps']:.2f}, spikes {ours['spikes']:,.0f} against "
                f"{rate['spikes']:,.0f}, operations {ours['sops']:,.0f} against {rate['sops']:,.0f}.",
            )
        )
    return Made(Table(headings, rows, notes), claims=tuple(claims))


def _energy_cells(test: dict[str, Any], spent: Energy, ratio: float | None) -> tuple[Cell, ...]:
    return test["steps"], test["spikes"], test.get("sops"), spent.e1, ratio, spent.e3, spent.e3_network


def rate(runs: Runs, context: Context) -> Made:
    """Rate coding, by either reset, against TTFS on the same network."""
    rows: list[tuple[Cell, ...]] = []
    for (data, architecture), (printed, ettfs) in values.RATE.items():
        here = data == "fashion-mnist"
        ours = runs["full"] if here else in_library(context, data, architecture)
        rows.append(
            (
                data,
                architecture,
                printed,
                ettfs,
                with_deviation(runs["rate-hard"]) if here else None,
                with_deviation(runs["rate-soft"]) if here else None,
                with_deviation(runs["relu"], "accuracy") if here else None,
                with_deviation(ours) if ours else None,
                with_deviation(ours, "potential") if ours else None,
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
    return Made(Table(headings, rows, values.SLIPS["rate"]), claims=(claim,))
