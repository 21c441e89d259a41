"""`firstspike train`, `resume` and `recipes`."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from firstspike.cli.show import follow, show_summary
from firstspike.training import RECIPES, Options, Recipe, Run, get_recipe, training
from firstspike.training.distributed import find_place

DEFAULT_RECIPE = "fashion-mnist-sample"


def take_recipe(args: list[str]) -> tuple[list[str], Recipe]:
    """Take the recipe's name out of `train NAME ...`; the flags left over are read against its values."""
    if len(args) > 1 and args[0] == "train" and not args[1].startswith("-"):
        return [args[0], *args[2:]], get_recipe(args[1])
    return args, get_recipe(DEFAULT_RECIPE)


@dataclass(frozen=True)
class TrainArguments:
    """The flags of `firstspike train`: those of the recipe, and those that do not change its outcome."""

    recipe: Annotated[Recipe, tyro.conf.arg(name="")]
    options: Annotated[Options, tyro.conf.arg(name="")] = field(default_factory=Options)
    out: Path | None = None
    """Run folder; by default a new one under runs/."""


def train_command(recipe: Recipe) -> Callable[..., None]:
    """The `train` command, its defaults those of `recipe`."""

    def train(
        arguments: Annotated[TrainArguments, tyro.conf.arg(name=""), tyro.conf.AvoidSubcommands] = TrainArguments(  # noqa: B008
            recipe
        ),
    ) -> None:
        """Train a recipe: `firstspike train [RECIPE] [flags]`. Without a recipe, the first run of all."""
        place = find_place(arguments.options.device)
        try:
            run = Run.create(arguments.recipe, arguments.out) if place.leads else None
            folder = place.share(str(run.folder) if run else "")
            follow(training(Run(folder), place, arguments.options), Run(folder), place)
        finally:
            place.leave()

    return train


def resume(
    run: tyro.conf.Positional[Path],
    options: Annotated[Options, tyro.conf.arg(name="")] = Options(),  # noqa: B008
) -> None:
    """Continue a run that was stopped or killed.

    Args:
        run: the run folder.
    """
    place = find_place(options.device)
    found = Run(run)
    if found.summary:
        print(f"{run} is finished already.", file=sys.stderr)
        show_summary(found)
        return
    try:
        follow(training(found, place, options), found, place)
    finally:
        place.leave()


def recipes() -> None:
    """List the named recipes."""
    width = max(map(len, RECIPES))
    for name, recipe in RECIPES.items():
        print(f"{name:<{width}}  {recipe.summary}")
