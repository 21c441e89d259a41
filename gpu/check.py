"""Whether a plan's commands are right, as far as can be known at home: they are read by the project's own parsers."""

import contextlib
import functools
import inspect
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro
from plan import Plan

from firstspike.cli import paper, train
from firstspike.cli.flags import registry
from firstspike.data.names import named
from firstspike.errors import FirstspikeError
from firstspike.models.shipped import FOLDER as SHIPPED
from firstspike.paper import ENTRIES, Settings
from firstspike.paper.make import missing
from firstspike.training import Recipe
from firstspike.training.sweep import Axis, Sweep


@dataclass(frozen=True)
class Meaning:
    """What a command trains, and where to."""

    recipes: Sequence[Recipe]
    out: str

    @property
    def networks(self) -> set[str]:
        """Trained networks that it starts from or learns from."""
        given = {name for one in self.recipes for name in (one.network.start_from, one.network.teacher)}
        return {name for name in given if name}


def check_plan(plan: Plan, root: Path) -> None:
    """Refuse what cannot work, in one sentence that names the lane and the command."""
    made: dict[str, set[str]] = {}
    for lane in plan.lane:
        there = set[str]().union(*(made[name] for name in lane.after))
        made[lane.name] = there
        for one in lane.run:
            try:
                if one.words[0] != "firstspike":
                    continue
                meaning = read(one.words[1:], root)
                check_needs(meaning, lane.sets, there)
                if any(meaning.out in outs for outs in made.values()):
                    raise FirstspikeError(f"another command trains into {meaning.out} too.")
                there.add(meaning.out)
            except FirstspikeError as error:
                raise SystemExit(f"Lane {lane.name}, {one.command}: {error}") from error


def check_needs(meaning: Meaning, sets: Sequence[str], there: set[str]) -> None:
    """Refuse data that the lane does not wait for, and networks that nothing has trained before."""
    known = {name for name in sets if named(name)}
    for recipe in meaning.recipes:
        if recipe.data.name not in known and named(recipe.data.name).format != "sample":
            raise FirstspikeError(f"it trains on {recipe.data.name}: name that among the `sets` of the lane.")
    for network in sorted(meaning.networks):
        made = any(Path(network).is_relative_to(out) for out in there)
        if not made and not (SHIPPED / network).is_dir():
            raise FirstspikeError(
                f"it wants the network {network}, which is not in the package and which no command before it trains, "
                "in this lane or in those it comes after."
            )


def read(words: list[str], root: Path) -> Meaning:
    """What `firstspike WORDS` means."""
    if words[:1] == ["train"]:
        left, recipe = train.take_recipe(words)
        given = parsed(train.train_command(recipe), left[1:])["arguments"]
        if given.out is None:
            raise FirstspikeError("it has no --out: give the run folder a name, as in --out runs/NAME.")
        axes = tuple(Axis.of(axis) for axis in given.many.sweep)
        variants = Sweep(given.recipe, axes, given.many.seeds).variants
        return Meaning([variant.recipe for variant in variants], str(given.out))
    if words[:2] == ["paper", "make"]:
        given = parsed(paper.make, words[2:])
        names = ENTRIES if given["names"] == ("all",) else given["names"]
        library, kept = root / given["library"], root / given["kept"]
        settings = Settings(
            given["quick"], cache=root / given["runs"], library=library, seeds=given["seeds"], kept=kept
        )
        jobs = missing([paper.find(name) for name in names], settings)
        return Meaning([job.recipe for job in jobs], str(given["runs"]))
    raise FirstspikeError("a lane runs `firstspike train` and `firstspike paper make`, or another program.")


def parsed(command: Callable[..., None], words: list[str]) -> dict[str, Any]:
    """The arguments that a command of the project's would be called with."""

    @functools.wraps(command)
    def noted(*args: Any, **named: Any) -> dict[str, Any]:
        return inspect.signature(command).bind(*args, **named).arguments

    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            return tyro.cli(noted, args=words, registry=registry)
    except SystemExit as ended:
        raise FirstspikeError(sentence(said.getvalue())) from ended


def sentence(said: str) -> str:
    """What the parser has said in a box, without the box, its title and its help."""
    lines = [line.strip(" │|") for line in said.splitlines()]
    lines = [line for line in lines if line.strip("─-╭╮╰╯ ")][1:]
    end = next(
        (n for n, line in enumerate(lines) if line.startswith(("For full", "Argument help"))), len(lines)
    )
    return " ".join(lines[:end])
