"""Recipes are plain values: written, read, changed and refused strictly."""

import dataclasses
import json
from dataclasses import replace

import pytest

from firstspike.config import from_dict, to_dict
from firstspike.errors import FirstspikeError
from firstspike.training import RECIPES, Recipe, get_recipe
from firstspike.training.loss import Loss
from firstspike.training.recipe import DataConfig, NetConfig
from firstspike.training.trainer import training_sets


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES.keys())
def test_a_recipe_survives_json(recipe: Recipe) -> None:
    assert from_dict(Recipe, json.loads(json.dumps(to_dict(recipe)))) == recipe


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES.keys())
def test_a_named_recipe_has_its_own_name_and_a_line_about_it(recipe: Recipe) -> None:
    assert RECIPES[recipe.name] is recipe
    assert recipe.summary
    assert "\n" not in recipe.summary


def test_every_field_can_be_explained() -> None:
    """The help of the command line is made from these: a field without words would have none."""
    import inspect

    def check(kind: type) -> None:
        source = inspect.getsource(kind)
        for field in dataclasses.fields(kind):  # type: ignore[arg-type]
            inner = field.default_factory if field.default is dataclasses.MISSING else None
            if isinstance(inner, type):
                check(inner)
                assert inner.__doc__, inner
            else:
                _, _, after = source.partition(f"    {field.name}:")
                assert after.splitlines()[1].strip().startswith('"""'), f"{kind.__name__}.{field.name}"

    check(Recipe)


@pytest.mark.parametrize("changes", [{"clip": 1}, {"fade": 0.1}])
def test_what_is_done_to_event_frames_is_refused_for_images(changes: dict[str, float]) -> None:
    recipe = get_recipe("fashion-mnist-sample")
    train, _ = training_sets(recipe)
    wrong = replace(recipe, data=replace(recipe.data, **changes))  # type: ignore[arg-type]
    with pytest.raises(FirstspikeError, match="for event frames, but fashion-mnist-sample is made of images"):
        wrong.network_config(train)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"epoch": 3}, "Unknown field 'epoch': did you mean epochs"),
        ({"optimizer": {"lrr": 1.0}}, "Unknown field 'optimizer.lrr': did you mean lr"),
        ({"T": 4.5}, "T is 4.5, but should be int"),
        ({"T": True}, "T is True, but should be int"),
        ({"encoding": "rate"}, "choose one of direct, latency, frames"),
        ({"optimizer": 3}, "Expected a table of fields for optimizer"),
        ({"epochs": 0}, "at least one epoch"),
    ],
)
def test_what_is_not_a_recipe_is_refused_by_name(values: dict[str, object], sentence: str) -> None:
    with pytest.raises(FirstspikeError, match=sentence):
        from_dict(Recipe, values)


def test_settings_that_do_not_fit_together_are_refused() -> None:
    base = Recipe()
    with pytest.raises(FirstspikeError, match="take T of 2 or more"):
        replace(base, T=1)
    assert replace(base, T=1, network=NetConfig(unit="relu")).T == 1
    with pytest.raises(FirstspikeError, match="take a smaller one"):
        replace(base, T=4, loss=Loss(threshold=1.0, first_step=3))
    with pytest.raises(FirstspikeError, match="needs a teacher"):
        replace(base, loss=Loss(distil=1.0))


def test_an_unknown_recipe_is_refused_with_the_nearest() -> None:
    with pytest.raises(FirstspikeError, match=r"did you mean .*fashion-mnist-sample"):
        get_recipe("fashion-mnist-sampel")


def test_validation_is_a_share_or_a_number_of_samples() -> None:
    for held, size in ((0.1, 500), (1000.0, 1000)):
        recipe = Recipe(data=DataConfig(validation=held))
        train, validation = training_sets(recipe)
        assert validation is not None
        assert (len(train), len(validation)) == (5000 - size, size)
    with pytest.raises(FirstspikeError, match="whole number of samples"):
        Recipe(data=DataConfig(validation=10.5))
