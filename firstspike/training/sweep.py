"""Many runs of one recipe: several seeds, a sweep over fields, or a grid of both, in one folder.

sweep.json        the recipe, the fields and their values, the number of seeds
<run>/            a run folder for each
results.json      the measures of all runs, and their mean and deviation over the seeds
results.md        the same as a table
"""

import itertools
import json
import math
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from firstspike.config import from_dict, to_dict
from firstspike.data import Dataset
from firstspike.errors import FirstspikeError
from firstspike.models import build_from
from firstspike.training.distributed import Place
from firstspike.training.loop import Options, Progress, begin, go_on
from firstspike.training.override import override
from firstspike.training.recipe import Recipe
from firstspike.training.results import collect, markdown
from firstspike.training.run import Run, new_folder, whole, write_json
from firstspike.training.trainer import test_set, training_sets

PLAN_NAME = "sweep.json"


@dataclass(frozen=True)
class Axis:
    """A field of the recipe, and the values it takes, as they were typed."""

    field: str
    values: tuple[str, ...]

    @classmethod
    def of(cls, words: tuple[str, ...]) -> "Axis":
        """The axis of `--sweep FIELD VALUE ...`."""
        if len(words) < 2:
            raise FirstspikeError(
                f"--sweep {' '.join(words)} has no values: give a field and its values, as in "
                "--sweep neuron.tau none 2 4."
            )
        return cls(words[0].replace("-", "_"), words[1:])


@dataclass(frozen=True)
class Variant:
    """One run of a sweep."""

    settings: dict[str, str]
    """Its value of each field that is swept."""
    recipe: Recipe
    folder: str


@dataclass(frozen=True)
class Sweep:
    """The plan of many runs: the product of all axes and the seeds."""

    recipe: Recipe
    axes: tuple[Axis, ...] = ()
    seeds: int = 1

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise FirstspikeError(f"The number of seeds is {self.seeds}: give 1 or more.")
        fields = [axis.field for axis in self.axes]
        if len(set(fields)) < len(fields):
            raise FirstspikeError(
                f"A field is swept twice in {', '.join(fields)}: give all its values at once."
            )
        if self.seeds > 1 and "seed" in fields:
            raise FirstspikeError("Give the seeds by --seeds or by --sweep seed, not both.")

    @cached_property
    def variants(self) -> list[Variant]:
        """All runs, the seeds of one setting together; a value that does not fit its field is refused."""
        made = []
        for number, values in enumerate(itertools.product(*(axis.values for axis in self.axes)), start=1):
            settings = {axis.field: value for axis, value in zip(self.axes, values, strict=True)}
            recipe = self.recipe
            for name, value in settings.items():
                recipe = override(recipe, name, value)
            for seed in range(recipe.seed, recipe.seed + self.seeds):
                folder = _folder(number, settings, seed if self.seeds > 1 else None)
                made.append(Variant(settings, replace(recipe, seed=seed), folder))
        return made

    def open(self, folder: Path | None, place: Place) -> Path:
        """The folder of this sweep: a new one, or the one that holds it already. All runs are checked first."""
        self.check()
        kind = "sweep" if self.axes else f"{self.seeds}-seeds"
        folder = Path(place.share(str(folder or new_folder(f"{self.recipe.name}-{{}}-{kind}"))))
        if place.leads:
            self._write(folder)
        place.wait()
        return folder

    def _write(self, folder: Path) -> None:
        if Run(folder).recipe_path.exists() or (Sweep.is_in(folder) and Sweep.read(folder) != self):
            raise FirstspikeError(
                f"{folder} already holds something else: continue that with `firstspike resume {folder}`, or give "
                "another folder."
            )
        with Run(folder).writing():
            folder.mkdir(parents=True, exist_ok=True)
            write_json(folder / PLAN_NAME, to_dict(self))

    @staticmethod
    def is_in(folder: Path) -> bool:
        return (folder / PLAN_NAME).exists()

    @classmethod
    def read(cls, folder: Path) -> "Sweep":
        """The sweep that a folder holds."""
        try:
            return from_dict(cls, json.loads((folder / PLAN_NAME).read_text()))
        except (OSError, ValueError) as error:
            raise FirstspikeError(f"{folder / PLAN_NAME} cannot be read: {error}.") from error

    def check(self) -> None:
        """Refuse data or networks that do not work, before the first run starts."""
        key, data = None, None
        for variant in self.variants:
            recipe = variant.recipe
            wanted = (recipe.data, recipe.encoding, recipe.T if recipe.encoding == "frames" else None)
            try:
                if data is None or wanted != key:
                    key, data = wanted, _both_sets(recipe)
                config = recipe.network_config(data)
                with torch.device("meta"):  # the shapes without the memory
                    build_from(config)
            except FirstspikeError as error:
                settings = ", ".join(f"{name} = {value}" for name, value in variant.settings.items())
                raise FirstspikeError(f"{settings}: {error}" if settings else str(error)) from error

    def runs(self, folder: Path, place: Place, options: Options) -> Iterator[tuple[str, Iterator[Progress]]]:
        """Each run's label and its training, from wherever it stands; nothing to train where it is finished.

        `max_minutes` are those of all together. In one process, a run that fails says so and is passed over.
        """
        end = options.deadline()
        for variant in self.variants:
            left = None if end is None else max(end - time.monotonic(), 0) / 60
            run = Run(folder / variant.folder)
            if place.any(run.summary is not None):
                yield f"{variant.folder} is finished already.", iter(())
                continue
            progress = start_or_go_on(run, variant.recipe, place, replace(options, max_minutes=left))
            yield variant.folder, progress if place.world > 1 else _noting_failure(progress, run)

    def unfinished(self, folder: Path) -> list[tuple[Variant, Run]]:
        """The runs that are still to be trained, or trained to their end."""
        runs = [(variant, Run(folder / variant.folder)) for variant in self.variants]
        return [(variant, run) for variant, run in runs if run.summary is None]

    def write_results(self, folder: Path) -> dict[str, Any]:
        """Gather the measures of all runs into results.json and results.md."""
        runs = [
            (variant.settings, variant.recipe.seed, Run(folder / variant.folder)) for variant in self.variants
        ]
        results = collect(runs, choosing=bool(self.axes))
        with Run(folder).writing():
            write_json(folder / "results.json", results)
            with whole(folder / "results.md") as part:
                part.write_text(markdown(results))
        return results


def _folder(number: int, settings: dict[str, str], seed: int | None) -> str:
    """Where a run lies in the folder of its sweep, as `02-neuron.tau=2/seed0`."""
    label = ",".join(f"{name}={value}" for name, value in settings.items())
    parts = [f"{number:02d}-" + re.sub(r"[^\w.,=+-]", "_", label)] if settings else []
    return "/".join([*parts, *([] if seed is None else [f"seed{seed}"])]) or "run"


def start_or_go_on(run: Run, recipe: Recipe, place: Place, options: Options) -> Iterator[Progress]:
    """The training of a run that may have been begun before."""
    if place.any(run.recipe_path.exists()):
        return go_on(run, place, options)
    return begin(recipe, place, options, run.folder)[1]


def _noting_failure(progress: Iterator[Progress], run: Run) -> Iterator[Progress]:
    """As `progress`; but a run that fails on the way is logged to have, and ends there."""
    last = Progress(0, 1, 0, 1, 0.0, math.nan, {})
    try:
        for last in progress:
            yield last
    except FirstspikeError as error:
        run.log("failed", sentence=str(error))
        yield replace(last, message=f"Failed: {error}")


def _both_sets(recipe: Recipe) -> Dataset:
    """The training set; the test set is tried too."""
    test_set(recipe)
    return training_sets(recipe)[0]
