"""From a recipe to a finished run folder."""

from firstspike.training.loop import Options, Progress, fit, resume
from firstspike.training.recipe import Recipe
from firstspike.training.recipes import RECIPES, get_recipe
from firstspike.training.run import Run

__all__ = ["RECIPES", "Options", "Progress", "Recipe", "Run", "fit", "get_recipe", "resume"]
