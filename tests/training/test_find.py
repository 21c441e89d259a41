"""A network that is not there is told of with what to do about it."""

from pathlib import Path

import pytest

from firstspike import FirstspikeError
from firstspike.training import Run
from firstspike.training.find import find_model
from tests.training.small import recipe


@pytest.mark.parametrize(("finished", "advice"), [(True, "firstspike train"), (False, "firstspike resume")])
def test_a_run_without_a_model_says_how_to_get_one(finished: bool, advice: str, tmp_path: Path) -> None:
    run = Run.create(recipe(), tmp_path / "run")
    if finished:
        run.finish({"test": {}})
    with pytest.raises(FirstspikeError, match=rf"`{advice} {run.folder}"):
        find_model(run.folder)
