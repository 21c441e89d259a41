"""The trained networks of the package do what their summaries say."""

import json

import pytest
import torch

from firstspike.config import from_dict
from firstspike.data import load
from firstspike.errors import FirstspikeError
from firstspike.measure import evaluate
from firstspike.models import pretrained
from firstspike.models.shipped import FOLDER
from firstspike.training import Recipe

NAMES = sorted(path.name for path in FOLDER.iterdir())


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_network_is_that_of_its_recipe(name: str) -> None:
    net = pretrained(name)
    recipe = from_dict(Recipe, json.loads((FOLDER / name / "recipe.json").read_text()))
    assert recipe.name == name
    assert (net.T, net.config.architecture) == (recipe.T, recipe.network.architecture)
    assert json.loads((FOLDER / name / "provenance.json").read_text())["commit"]
    output = net(torch.rand(5, *net.config.input_shape))
    assert output.spikes.sum(0).max() <= 1


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("fashion")])
def test_it_is_as_accurate_as_its_summary_says_within_what_a_sample_can_tell(name: str) -> None:
    told = json.loads((FOLDER / name / "summary.json").read_text())["test"]["strict"]
    found = evaluate(pretrained(name).fuse(), load("fashion-mnist-sample", "test"))
    assert abs(found.strict - told) < 3  # 1,000 images: a deviation of 0.9 points


def test_an_unknown_name_is_refused_with_those_there_are() -> None:
    with pytest.raises(FirstspikeError, match=r"choose from fashion-mnist-fc2, .*mnist-scnn1"):
        pretrained("nosuch")
