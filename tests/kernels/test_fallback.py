"""Without a GPU, or with arguments the kernels do not take, the reference answers."""

import pytest
import torch
from torch import Tensor

from firstspike import FirstspikeError, functional, kernels
from firstspike.kernels import device, neuron_ops, weight


@pytest.fixture
def no_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a call of a fused operator fail."""

    def refuse(*arguments: object) -> Tensor:
        raise AssertionError("a fused operator was called")

    monkeypatch.setattr(device, "_INTERPRETED", False)
    monkeypatch.setattr(neuron_ops, "amos", refuse)
    monkeypatch.setattr(weight, "normalise", refuse)


@pytest.mark.usefixtures("no_kernels")
def test_the_cpu_is_left_to_the_reference() -> None:
    current, bias = torch.randn(4, 2, 3, 5, 5), torch.randn(3)
    assert torch.equal(kernels.amos(current, bias=bias), functional.amos(current, bias=bias))
    rows = torch.randn(4, 6)
    expected = functional.normalise_weight(rows, 0.5, dtype=torch.bfloat16)
    assert torch.equal(kernels.normalise_weight(rows, 0.5, dtype=torch.bfloat16), expected)


@pytest.mark.parametrize(
    ("current", "options"),
    [
        (torch.randn(4, 2, 3).double(), {}),
        (torch.randn(4, 6), {}),
        (torch.randn(300, 1, 2), {}),
        (torch.randn(4, 2, 3), {"bias": torch.randn(3).double()}),
        (torch.randn(4, 2, 3), {"threshold": torch.rand(2, 3)}),
        (torch.randn(4, 2, 3), {"threshold": torch.rand(3).double()}),
    ],
    ids=["float64", "no channels", "T > 255", "bias float64", "per neuron", "threshold float64"],
)
def test_what_the_kernels_do_not_take(
    current: Tensor, options: dict[str, Tensor], no_kernels: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "_INTERPRETED", True)
    monkeypatch.setattr(device, "_INSTALLED", True)
    assert torch.equal(kernels.amos(current, **options), functional.amos(current, **options))


def test_errors_are_those_of_the_reference() -> None:
    with pytest.raises(FirstspikeError, match="tau"):
        kernels.amos(torch.randn(4, 2, 3), tau=0.5)
    with pytest.raises(FirstspikeError, match="floating point"):
        kernels.amos(torch.ones(4, 2, 3, dtype=torch.int32))
    with pytest.raises(FirstspikeError, match="scope"):
        kernels.normalise_weight(torch.randn(4, 6), 0.5, per="rows")  # type: ignore[arg-type]
