"""What all tests share."""

import pytest
import torch


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """Every test draws the same numbers in whatever order the tests run."""
    torch.manual_seed(0)
