"""The compiled CPU neuron equals the reference: identical spikes, the same gradients."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from kernel_checks import CASES, Case, check_amos

from firstspike import FirstspikeError, functional, kernels
from firstspike.functional.surrogate import Surrogate
from firstspike.kernels import neuron_cpu, rows
from firstspike.kernels.rows import Rows

pytestmark = pytest.mark.skipif(not neuron_cpu.HAS_NUMBA, reason="numba is not installed")

SHAPES = [(2, 3, 4, 5), (3, 7), (1, 2, 1, 1), (5, 1, 3)]


@pytest.mark.parametrize("kind", ["atan", "sigmoid", "triangle", "rectangular"])
@pytest.mark.parametrize("shape", SHAPES)
def test_spikes_are_identical_and_gradients_agree(shape: tuple[int, ...], kind: str) -> None:
    torch.manual_seed(0)
    for T, force, tau, biased, constant in itertools.product(
        (1, 2, 3, 8), (False, True), (None, 2.0), (False, True), (False, True)
    ):
        frames = torch.randn(1 if constant else T, *shape)
        bias = 0.3 * torch.randn(shape[1]) if biased else None
        incoming = torch.randn(T, *shape)
        results = []
        for amos in (functional.amos, neuron_cpu.amos):
            leaf = frames.clone().requires_grad_()
            shift = bias.clone().requires_grad_() if bias is not None else None
            current = leaf.expand(T, *shape) if constant else leaf
            spikes = amos(current, 1.0, force, tau, Surrogate(kind, 1.5), shift)
            spikes.backward(incoming)
            results.append((spikes.detach(), leaf.grad, None if shift is None else shift.grad))
        (spikes, grad, bias_grad), (found, found_grad, found_bias_grad) = results
        assert torch.equal(spikes, found)
        torch.testing.assert_close(found_grad, grad, rtol=1e-4, atol=1e-5)
        if biased:
            torch.testing.assert_close(found_bias_grad, bias_grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("shape", [(2, 3, 4, 6), (3, 2, 7, 5), (1, 1, 9, 9)])
def test_pooled_in_the_same_pass_is_pooled_afterwards(shape: tuple[int, ...], size: int) -> None:
    torch.manual_seed(0)
    for T, force, tau, constant in itertools.product((1, 3), (False, True), (None, 2.0), (False, True)):
        frames = torch.randn(1 if constant else T, *shape)
        bias = 0.3 * torch.randn(shape[1])
        incoming = torch.randn(T, *shape[:2], shape[2] // size, shape[3] // size)
        results = []
        for fused in (False, True):
            leaf, shift = frames.clone().requires_grad_(), bias.clone().requires_grad_()
            current = leaf.expand(T, *shape) if constant else leaf
            if fused:
                pooled = neuron_cpu.amos(current, 1.0, force, tau, Surrogate(), shift, pool=size)
            else:
                spikes = functional.amos(current, 1.0, force, tau, Surrogate(), shift)
                pooled = F.avg_pool2d(spikes.flatten(0, 1), size).view(incoming.shape)
            pooled.backward(incoming)
            results.append((pooled.detach(), leaf.grad, shift.grad))
        (pooled, grad, bias_grad), (found, found_grad, found_bias_grad) = results
        assert torch.equal(pooled, found)
        torch.testing.assert_close(found_grad, grad, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(found_bias_grad, bias_grad, rtol=1e-4, atol=1e-5)


def test_it_is_what_the_cpu_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr(neuron_cpu, "amos", lambda *arguments: calls.append(arguments))
    kernels.amos(torch.randn(3, 2, 4))
    assert len(calls) == 1


def test_an_exact_hit_of_the_threshold_fires() -> None:
    current = torch.tensor([0.5, 0.5, 1.0]).view(3, 1, 1)
    assert neuron_cpu.amos(current, 1.0, False, None, Surrogate(), None).flatten().tolist() == [0, 1, 0]


@pytest.mark.parametrize("piece", [1, 1024])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_all_layouts_and_dtypes_equal_the_reference(
    case: Case, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "PIECE", piece)
    check_amos(case, "cpu")


@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_many_pieces_of_a_row_equal_the_reference(dtype: torch.dtype, layout: str) -> None:
    for shape, pool in (((3, 2, 5, 40, 38), 2), ((3, 2, 5, 39, 37), 3), ((2, 2, 3, 40, 40), 1)):
        case = Case(shape, dtype, layout, pool=pool)
        assert Rows.of(torch.empty(shape).contiguous(), pool).span > rows.PIECE
        check_amos(case, "cpu")


@pytest.mark.parametrize("pool", [1, 2])
def test_channels_last_currents_stay_so_and_are_taken(pool: int) -> None:
    current = torch.randn(4, 2, 4, 6, 3, dtype=torch.bfloat16).movedim(-1, 2).requires_grad_()
    assert neuron_cpu.takes(current, 1.0, None)
    assert neuron_cpu.pools(current, pool)
    spikes = kernels.amos(current, pool=pool)
    assert spikes[0].movedim(1, -1).is_contiguous()
    spikes.backward(torch.randn(spikes.shape).to(spikes.dtype))
    assert current.grad is not None
    assert current.grad[0].movedim(1, -1).is_contiguous()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_nan_is_refused(value: float) -> None:
    current = torch.zeros(3, 2, 4)
    current[1, 0, 2] = value
    with pytest.raises(FirstspikeError, match="NaN or infinite"):
        kernels.amos(current)
