"""Steps of AMOS without Triton: several at a time are what one after the other are."""

import pytest
from step_checks import STEP_CASES, StepCase, check_steps


@pytest.mark.parametrize("case", STEP_CASES, ids=str)
def test_steps_equal_the_reference(case: StepCase) -> None:
    check_steps(case, "cpu")
