"""Runs of data sets and networks that were made elsewhere: found, and told apart."""

from dataclasses import replace

from firstspike.paper.entry import Context
from firstspike.paper.runs import digest, origin
from firstspike.training import Recipe, Run
from firstspike.training.recipes import RECIPES


def in_library(
    context: Context, data: str, architecture: str, unit: str = "spike", paper: bool = False
) -> list[Run]:
    """Finished runs of one set and network by the paper's method or another, probes left out."""
    return [
        run
        for run in context.library
        if run.recipe.data.name == data
        and run.recipe.network.architecture == architecture
        and run.recipe.network.unit == unit
        and run.recipe.name.endswith("-paper") == paper
        and not run.folder.name.startswith("probe-")
    ]


def preferred(runs: list[Run]) -> list[Run]:
    """The seeds of one recipe among several: as it stands today, in steps and epochs, or else trained last."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(digest(replace(run.recipe, seed=0)), []).append(run)
    return max(
        groups.values(),
        key=lambda seeds: (_is_todays(seeds[0].recipe), max(_started(run) for run in seeds)),
        default=[],
    )


def _is_todays(recipe: Recipe) -> bool:
    today = RECIPES.get(recipe.name)
    return today is not None and (recipe.T, recipe.epochs) == (today.T, today.epochs)


def _started(run: Run) -> str:
    return str(origin(run).get("started", ""))


def from_relu(runs: list[Run], started: bool) -> list[Run]:
    """Those that started from a ReLU network's weights, or those that did not."""
    return [run for run in runs if bool(run.recipe.network.start_from) == started]
