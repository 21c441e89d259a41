"""An entry of the registry: which runs a table or figure needs, and how it is made from them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from firstspike.paper.table import Made
from firstspike.training import Recipe, Run
from firstspike.training.optimizer import OptimizerConfig, Schedule
from firstspike.training.recipe import DataConfig

SEEDS = 3
"""Seeds of the full form, for the entries that most claims rest on; sweeps have one."""

Runs = Mapping[str, list[Run]]
"""The runs of each recipe of an entry, a seed each."""


@dataclass(frozen=True)
class Context:
    """What a render function may look at beside its runs."""

    quick: bool
    library: list[Run]
    """Finished runs of other origins: results/runs."""

    @property
    def data(self) -> str:
        """The set that is trained on."""
        return "the shipped sample of Fashion-MNIST" if self.quick else "Fashion-MNIST"


@dataclass(frozen=True)
class Entry:
    """A table or a figure of the paper's."""

    name: str
    title: str
    kind: Literal["table", "figure"]
    recipes: Callable[[], dict[str, Recipe]]
    """The runs in full form, by a label."""
    render: Callable[[Runs, Context], Made]
    quick: tuple[str, ...] | None = None
    """Labels of the recipes that the quick form trains; None for all."""
    diagnosed: bool = False
    """Whether it needs what was recorded in training, which runs made elsewhere do not have."""
    seeds: int = 1
    """Seeds of the full form, unless told otherwise. Entries with several are trained before those with one."""
    needs: tuple[str, ...] | None = None
    """Labels that it cannot be drawn without; None for all."""

    def plan(self, quick: bool, seeds: int | None = None) -> dict[str, list[Recipe]]:
        """The recipes to run, by label, a seed each; the quick form has one seed."""
        full = self.recipes()
        if not quick:
            count = self.seeds if seeds is None else seeds
            return {label: [replace(one, seed=seed) for seed in range(count)] for label, one in full.items()}
        chosen = full if self.quick is None else self.quick
        return {label: [make_quick(full[label])] for label in chosen}


SMALL = {
    "SCNN5": "C4K5-P2-C8K5-P2-FC64-FC10",
    "SCNN1": "C4K5-P2-C8K5-P2-FC64-FC10",
    "FC1": "FC64-FC10",
    "FC2": "FC64-FC64-FC10",
}
QUICK_EPOCHS = 4
# SGD 0.1 of the full form wants more epochs than these; under AdamW all eight rows of the ablation learn in four.
QUICK_OPTIMIZER = OptimizerConfig(kind="adamw", lr=3e-3)


def make_quick(recipe: Recipe) -> Recipe:
    """The same experiment in about half a minute on a CPU: a smaller network, four epochs of AdamW, 5,000 images."""
    architecture = recipe.network.architecture
    small = SMALL.get(
        architecture, architecture.replace("C20K5-P2-C40K5", "C4K5-P2-C8K5").replace("FC400", "FC64")
    )
    return replace(
        recipe,
        name=f"quick-{recipe.name}",
        epochs=QUICK_EPOCHS,
        batch_size=64,
        data=DataConfig("fashion-mnist-sample"),
        network=replace(recipe.network, architecture=small),
        optimizer=QUICK_OPTIMIZER,
        schedule=Schedule(warmup=0.25),
    )
