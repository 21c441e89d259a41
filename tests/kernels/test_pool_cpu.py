"""Average pooling on the CPU equals PyTorch's."""

import pytest
import torch
import torch.nn.functional as F

from firstspike.kernels import pool_cpu


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("shape", [(4, 3, 6, 6), (2, 1, 7, 5), (1, 2, 5, 11), (0, 3, 6, 6)])
@pytest.mark.parametrize("layout", ["contiguous", "channels_last", "every_second"])
def test_values_and_gradients_are_those_of_torch(size: int, shape: tuple[int, ...], layout: str) -> None:
    torch.manual_seed(0)
    frames = torch.randn(shape)
    if layout == "channels_last":
        frames = frames.to(memory_format=torch.channels_last)
    if layout == "every_second":
        frames = frames.repeat_interleave(2, 3)[..., ::2]
    results = []
    for pool in (F.avg_pool2d, pool_cpu.avg_pool):
        leaf = frames.clone().requires_grad_()
        pooled = pool(leaf, size)
        pooled.backward(torch.arange(pooled.numel()).view(pooled.shape).float() + 1)
        results.append((pooled.detach(), leaf.grad))
    (values, grad), (found, found_grad) = results
    torch.testing.assert_close(found, values)
    torch.testing.assert_close(found_grad, grad)


def test_pooled_spikes_are_exact() -> None:
    spikes = (torch.rand(3, 4, 9, 9) < 0.3).float()
    assert torch.equal(pool_cpu.avg_pool(spikes, 3), F.avg_pool2d(spikes, 3))
    assert torch.equal(pool_cpu.avg_pool(spikes, 2), F.avg_pool2d(spikes, 2))


def test_its_gradient_is_the_numerical_one() -> None:
    frames = torch.randn(2, 3, 5, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda values: pool_cpu.avg_pool(values, 2), frames)
