"""The named recipes."""

import difflib

from firstspike.errors import FirstspikeError
from firstspike.training.recipe import Recipe

RECIPES: dict[str, Recipe] = {recipe.name: recipe for recipe in (Recipe(),)}


def get_recipe(name: str) -> Recipe:
    """The recipe of that name; an unknown one is refused with the nearest."""
    if name in RECIPES:
        return RECIPES[name]
    near = difflib.get_close_matches(name, RECIPES, n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else "`firstspike recipes` lists them all."
    raise FirstspikeError(f"Unknown recipe {name!r}: {hint}")
