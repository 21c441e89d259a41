"""`firstspike train`, `resume` and `recipes`."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from firstspike.cli.show import STOPPED_STATUS, follow, show_results, show_summary, tell
from firstspike.config import from_dict
from firstspike.errors import FirstspikeError
from firstspike.training import RECIPES, Options, Recipe, Run, get_recipe
from firstspike.training.distributed import Place, find_place
from firstspike.training.loop import begin, go_on
from firstspike.training.side_by_side import End, Job, check_jobs, refuse_broken, side_by_side
from firstspike.training.sweep import Axis, Sweep

DEFAULT_RECIPE = "fashion-mnist-sample"


def take_recipe(args: list[str]) -> tuple[list[str], Recipe]:
    """Take the recipe out of `train RECIPE ...`; the flags left over are read against its values."""
    if len(args) > 1 and args[0] == "train" and not args[1].startswith("-"):
        return [args[0], *args[2:]], find_recipe(args[1])
    return args, get_recipe(DEFAULT_RECIPE)


def find_recipe(name: str) -> Recipe:
    """A recipe by its name, or that of a run folder or a recipe.json."""
    path = Path(name)
    if name in RECIPES or (not path.exists() and "/" not in name):
        return get_recipe(name)
    if not path.exists():
        raise FirstspikeError(f"There is no run folder or recipe file {name}.")
    if path.is_dir():
        return Run(path).recipe
    try:
        return from_dict(Recipe, json.loads(path.read_text()))
    except (OSError, ValueError) as error:
        raise FirstspikeError(f"{path} is not a recipe: {error}.") from error


@dataclass(frozen=True)
class Many:
    """More than one run."""

    seeds: Annotated[int, tyro.conf.arg(metavar="N")] = 1
    """Train N times, with the seeds from --seed on, and report mean and deviation."""
    sweep: Annotated[
        tyro.conf.UseAppendAction[tuple[tuple[str, ...], ...]],
        tyro.conf.arg(metavar="FIELD VALUE [VALUE ...]"),
    ] = ()
    """Train once for each value of a field, as in --sweep neuron.tau none 2 4; repeat the flag for a grid."""
    ray: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Run them on Ray (pip install 'firstspike[ray]'), side by side, instead of one after the other."""
    jobs: Annotated[int, tyro.conf.arg(metavar="N")] = 1
    """Train N of them at a time on this machine, side by side on the same device."""

    @property
    def any(self) -> bool:
        return self.seeds != 1 or bool(self.sweep)


@dataclass(frozen=True)
class TrainArguments:
    """The flags of `firstspike train`: those that do not change a run's outcome, and those of the recipe."""

    recipe: Annotated[Recipe, tyro.conf.arg(name="")]
    out: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    """Run folder; by default a new one under runs/."""
    options: Annotated[Options, tyro.conf.arg(name="")] = field(default_factory=Options)
    many: Annotated[Many, tyro.conf.arg(name="")] = field(default_factory=Many)


def train_command(recipe: Recipe) -> Callable[..., None]:
    """The `train` command, its defaults those of `recipe`."""
    defaults = TrainArguments(recipe)

    def train(
        arguments: Annotated[TrainArguments, tyro.conf.arg(name=""), tyro.conf.AvoidSubcommands] = defaults,
    ) -> None:
        """Train a recipe: firstspike train [RECIPE] [flags].

        RECIPE is a name (firstspike recipes lists them), or a run folder to repeat.

        The flags change it; the defaults shown are those of the recipe given.
        """
        options, many = arguments.options, arguments.many
        axes = tuple(Axis.of(words) for words in many.sweep)
        sweep = Sweep(arguments.recipe, axes, many.seeds)
        check_jobs(many.jobs, many.ray)
        place = find_place(options.device)
        with place.together():
            if many.any:
                run_sweep(sweep.open(arguments.out, place), place, options, many.ray, many.jobs)
                return
            run, progress = begin(arguments.recipe, place, options, arguments.out)
            stop_or_show(run, follow(progress, place), place)

    return train


def resume(
    run: tyro.conf.Positional[Path],
    options: Annotated[Options, tyro.conf.arg(name="")] = Options(),  # noqa: B008
    ray: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
    jobs: Annotated[int, tyro.conf.arg(metavar="N")] = 1,
) -> None:
    """Continue a run, or a folder of seeds or of a sweep, that was stopped or killed.

    Args:
        run: The run folder.
        ray: Go on with a sweep on Ray.
        jobs: Train N runs of a sweep at a time.
    """
    check_jobs(jobs, ray)
    place = find_place(options.device)
    with place.together():
        if Sweep.is_in(run):
            run_sweep(run, place, options, ray, jobs)
            return
        found = Run(run)
        if found.summary and place.leads:
            print(f"{run} is finished already.", file=sys.stderr)
        stop_or_show(found, follow(go_on(found, place, options), place), place)


def stop_or_show(run: Run, finished: bool, place: Place) -> None:
    """The results of a run; or, where it was stopped, how to continue it and the status that says so."""
    if not finished:
        stopped(run.folder, place)
    if place.leads:
        show_summary(run)


def stopped(folder: Path, place: Place) -> None:
    """Say how to go on, and end with the status of a run that was stopped."""
    if place.leads:
        print(f"Continue with: firstspike resume {folder}", file=sys.stderr)
    sys.exit(STOPPED_STATUS)


def run_sweep(folder: Path, place: Place, options: Options, ray: bool, jobs: int) -> None:
    """All runs of a sweep that are not finished yet, and the table of all."""
    sweep, ends = Sweep.read(folder), dict[str, End]()
    if ray:
        from firstspike.training.on_ray import run_on_ray

        if not run_on_ray(sweep, folder, options, print):
            stopped(folder, place)
    elif jobs > 1:
        todo = [Job(variant.folder, run, variant.recipe) for variant, run in sweep.unfinished(folder)]
        ends = side_by_side(todo, jobs, options, tell)
        if "stopped" in ends.values():
            stopped(folder, place)
    else:
        for number, (label, progress) in enumerate(sweep.runs(folder, place, options), start=1):
            if place.leads:
                print(f"[{number}/{len(sweep.variants)}] {label}", file=sys.stderr)
            if not follow(progress, place):
                stopped(folder, place)
    if place.leads:
        show_results(sweep.write_results(folder), folder)
    refuse_broken(ends, f"`firstspike resume {folder} --jobs {jobs}`")


def recipes() -> None:
    """List the named recipes."""
    width = max(map(len, RECIPES))
    for name, recipe in RECIPES.items():
        print(f"{name:<{width}}  {recipe.summary}")
