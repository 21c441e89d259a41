"""The model card: what a network is, how good, at what cost, how it was made, and how to load it."""

import json
from collections.abc import Iterator
from typing import Any

from firstspike.data import catalogue
from firstspike.export.source import Source
from firstspike.measure import estimate, sites
from firstspike.models import Network


def model_card(source: Source, target: str, loading: str, licence: str | None = None) -> str:
    """The card in Markdown; `loading` is Python that loads and runs the exported files."""
    from firstspike import __version__

    config, classes = source.net.config, len(source.net.readout.synapse.weight)
    head = (
        f"A time-to-first-spike network: every neuron fires at most once, and the class that spikes first is the "
        f"answer. {config.architecture}, {config.T} steps, {config.encoding} input of shape "
        f"{' x '.join(map(str, config.input_shape))}, {classes} classes. Exported to {target} by firstspike "
        f"{__version__}, normalisation folded into the weights."
    )
    facts = "\n".join(f"| {name} | {value} |" for name, value in _facts(source, licence))
    parts = [
        f"# {source.name}",
        head,
        f"| | |\n|---|---|\n{facts}",
        "## Load it",
        f"```python\n{loading.strip()}\n```",
        "## Layers",
        f"```\n{source.net.fuse()}\n```",
    ]
    if source.recipe:
        parts += ["## Recipe", f"```json\n{json.dumps(source.recipe, indent=2)}\n```"]
    return "\n\n".join(parts) + "\n"


def _facts(source: Source, licence: str | None) -> Iterator[tuple[str, str]]:
    test, recipe = source.test, source.recipe or {}
    data = str((recipe.get("data") or {}).get("name") or (test or {}).get("dataset", "").split(",")[0])
    if recipe:
        yield "trained on", data
    if test is None:
        yield "accuracy", "not measured (export with --measure NAME, or from a finished run)"
    else:
        yield from _measures(source.net, test)
    if source.provenance:
        yield "made by", f"`{source.provenance.get('command')}`, commit {source.provenance.get('commit')}"
    yield "licence of the weights", licence or ("MIT" if source.ships else "not stated (--licence)")
    if data in catalogue:
        yield "licence of the data", f"{catalogue[data].licence} ({catalogue[data].home})"


def _measures(net: Network, test: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "test set", test["dataset"]
    yield (
        "accuracy",
        f"{test['strict']:.2f} % (ties to the lowest class), {test['potential']:.2f} % (to the potential)",
    )
    yield "steps", f"{test['steps']:.2f} of {net.T} on average until the answer"
    yield "tied, silent", f"{test['tied']:.2f} %, {test['silent']:.2f} % of the samples"
    if "spikes" in test:
        yield "spikes", f"{test['spikes']:,.0f} a sample until the answer, all layers"
    if "layer_spikes" in test:
        yield "energy", _energy(net, test)


def _energy(net: Network, test: dict[str, Any]) -> str:
    """What `measure.estimate` says; runs of before synaptic operations were counted have the paper's E1 only."""
    sops, first = test.get("sops"), test.get("input_operations") or 0.0
    energy = estimate(sites(net), test["steps"], test["layer_spikes"], sops or 0.0, first)
    by_formula = f"{energy.e1:.3g} µJ a sample by the paper's E1"
    if sops is None:
        return f"{by_formula} ({energy.hardware})"
    counted = f"{sops:,.0f} synaptic operations" + (
        f" and {first:,.0f} multiplications of the input" if first else ""
    )
    return f"{energy.operations:.3g} µJ a sample for {counted}; {by_formula} ({energy.hardware})"
