"""`firstspike evaluate`: what a trained network achieves and costs."""

import json
from dataclasses import replace
from typing import Annotated, Any, Literal

import torch
import tyro
from rich.console import Console
from rich.table import Table

from firstspike.config import to_dict
from firstspike.errors import FirstspikeError
from firstspike.measure import PAPER_HARDWARE, Hardware, Measures, estimate, evaluate, evaluate_rate, sites
from firstspike.models import Network, RateTwin, Twin
from firstspike.training.distributed import find_place
from firstspike.training.find import find_model
from firstspike.training.finish import score
from firstspike.training.recipe import DataConfig


def evaluate_command(
    run: tyro.conf.Positional[str],
    data: str | None = None,
    split: Literal["test", "train"] = "test",
    samples: int | None = None,
    device: str | None = None,
    json_: Annotated[bool, tyro.conf.arg(name="json"), tyro.conf.FlagCreatePairsOff] = False,
    hardware: Hardware = PAPER_HARDWARE,
) -> None:
    """Measure a trained network: accuracy, steps, spikes, synaptic operations and energy, with early stopping.

    Args:
        run: A run folder, a model folder, or the name of a network in the package (fashion-mnist-scnn5).
        data: A data set's name or path; by default what the run was trained on.
        split: Which split to measure on.
        samples: Only the first so many samples.
        device: cpu, cuda or cuda:N; by default CUDA where there is one.
        json_: Print the numbers as JSON instead of a table.
        hardware: Constants that energy is estimated with.
    """
    place = find_place(device)
    net, trained_on = find_network(run)
    T = net.config.T if net.config.encoding == "frames" else None
    dataset = replace(trained_on, name=data or trained_on.name).load(split, T)
    if samples is not None:
        if samples < 1:
            raise FirstspikeError(f"--samples is {samples}: give 1 or more.")
        short = dataset.subset(torch.arange(min(samples, len(dataset))))
        dataset = replace(short, split=f"{dataset.split}, the first {len(short):,}")
    values = measure(net, dataset, place.device, hardware)
    if json_:
        print(json.dumps(values, indent=2))
    else:
        show(values)


def find_network(name: str) -> tuple[Network | Twin, DataConfig]:
    """The network of a run, of a model folder or of the package, and the data it was trained on."""
    found = find_model(name)
    return found.model, found.run.recipe.data if found.run else DataConfig(_guess(found.name))


def _guess(name: str) -> str:
    """The data set that a model is named after."""
    from firstspike.data import catalogue

    known = sorted((entry for entry in catalogue if name.startswith(entry)), key=len)
    return known[-1] if known else "fashion-mnist-sample"


def measure(net: Network | Twin, dataset: Any, device: Any, hardware: Hardware) -> dict[str, Any]:
    """All measures as plain values."""
    net = net.to(device)
    if isinstance(net, Network):
        found: Measures = evaluate(net.fuse(), dataset, device=device)
    elif isinstance(net, RateTwin):
        found = evaluate_rate(net, dataset, device=device)
    else:
        return score(net, dataset, device)
    values = found.as_dict()
    if found.sops is not None:
        whole = net if isinstance(net, Network) else net.net
        energy = estimate(
            sites(whole), found.steps, found.layer_spikes, found.sops, found.input_operations, hardware
        )
        values["energy"] = {**to_dict(energy), "constants": hardware.constants()}
    return values


def show(values: dict[str, Any]) -> None:
    """The measures as tables."""
    console = Console()
    rows = {
        "samples": ("samples", "{:,}"),
        "accuracy": ("accuracy", "{:.2f} %"),
        "strict": ("accuracy, strict ties", "{:.2f} %"),
        "potential": ("accuracy, potential ties", "{:.2f} %"),
        "steps": ("mean steps", f"{{:.3f}} of {values.get('T')}"),
        "tied": ("tied", "{:.2f} %"),
        "silent": ("silent", "{:.2f} %"),
        "spikes": ("spikes (N_s)", "{:,.1f}"),
        "sops": ("synaptic operations (SOPs)", "{:,.0f}"),
        "input_operations": ("multiplications of the input", "{:,.0f}"),
    }
    table = _titled(values["dataset"], ("", "a sample"))
    for key, (label, text) in rows.items():
        if values.get(key) is not None:
            table.add_row(label, text.format(values[key]))
    for key, label in ENERGIES.items():
        if "energy" in values:
            table.add_row(label, f"{values['energy'][key]:,.4g}" + ("" if key == "e2" else " uJ"))
    console.print(table)
    if "layer_spikes" in values:
        _show_layers(values, console)
        steps = ", ".join(f"{step}: {n:,}" for step, n in enumerate(values["step_histogram"], start=1) if n)
        console.print(f"Samples answered at step {steps}.", highlight=False)
    if "energy" in values:
        console.print(f"Energy on: {values['energy']['hardware']}.", highlight=False)


ENERGIES = {
    "e1": "E1, dense operations x firing rate",
    "operations": "energy of the operations counted",
    "e2": "E2, steps and spikes (no unit)",
    "e3": "E3, memory access, the paper's one layer",
    "e3_network": "E3, memory access, all layers of this network",
}


def _show_layers(values: dict[str, Any], console: Console) -> None:
    table = _titled("By layer", ("layer", "spikes", "spikes per neuron", "synaptic operations"))
    for name, spikes in values["layer_spikes"].items():
        operations = values["layer_sops"].get(name)
        cells = (
            f"{spikes:,.1f}",
            f"{values['layer_rates'][name]:.4f}",
            "" if operations is None else f"{operations:,.0f}",
        )
        table.add_row(name, *cells)
    console.print(table)


def _titled(title: str, headings: tuple[str, ...]) -> Table:
    table = Table(title=title, title_justify="left")
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number else "left")
    return table
