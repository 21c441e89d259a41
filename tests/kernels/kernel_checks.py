"""Kernels against `functional` on fresh random inputs: what both the interpreter and the GPU must pass.

The reference runs on the CPU. Spikes must be identical; gradients agree to the precision of their dtype.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from firstspike import functional, kernels
from firstspike.functional import ATAN, Surrogate
from firstspike.nn import Linear, Normalisation
from firstspike.training.adam import DeferringAdamW

TOLERANCE = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1e-2}


@dataclass(frozen=True)
class Case:
    """One call of `amos`: a shape class and its options."""

    shape: tuple[int, ...]
    dtype: torch.dtype = torch.float32
    layout: str = "contiguous"
    threshold: str = "number"
    force_last: bool = False
    tau: float | None = None
    surrogate: Surrogate = ATAN
    bias: torch.dtype | None = torch.float32
    pool: int = 1
    contiguous: bool = False

    def __str__(self) -> str:
        options = {name: value for name, value in vars(self).items() if value != getattr(Case, name, None)}
        return ", ".join(f"{name}={value}" for name, value in options.items())


CONV, FC, ODD = (7, 2, 16, 4, 4), (7, 4, 24), (5, 3, 7, 5, 3)
CASES = [
    *[Case(shape, layout=layout) for shape in (CONV, ODD) for layout in ("contiguous", "channels_last")],
    *[Case(ODD, dtype, layout="channels_last", bias=dtype) for dtype in (torch.bfloat16, torch.float16)],
    *[Case(ODD, layout=layout) for layout in ("transposed", "every_second", "shared_batch", "constant")],
    *[Case(ODD, torch.bfloat16, layout="constant", tau=tau) for tau in (None, 1.7)],
    *[Case(ODD, threshold=threshold) for threshold in ("scalar", "channel", "step", "channel_step")],
    *[Case(ODD, surrogate=Surrogate(kind, 1.3)) for kind in ("sigmoid", "triangle", "rectangular")],
    *[Case(FC, force_last=True, tau=tau, bias=None) for tau in (None, 2.3)],
    Case((1, 3, 5)),
    Case((1, 3, 5), force_last=True, threshold="channel_step"),
    Case((2, 3, 1, 4, 4), layout="channels_last"),
    Case((4, 3, 6, 1, 1)),
    Case((4, 2, 6, 9), layout="channels_last"),
    Case((4, 0, 6, 3, 3), threshold="channel_step"),
    Case((16, 3, 5, 2, 2), torch.bfloat16),
    Case((17, 3, 5, 2, 2), layout="channels_last", threshold="channel_step", force_last=True),
    Case((19, 3, 5), torch.bfloat16, layout="constant", tau=3.1, threshold="channel"),
    Case((40, 2, 3, 2, 2), tau=2.3, surrogate=Surrogate("sigmoid")),
    *[Case(CONV, layout=layout, pool=2) for layout in ("contiguous", "channels_last", "transposed")],
    *[Case(CONV, layout=layout, pool=2) for layout in ("constant", "one_frame", "every_second")],
    *[Case(ODD, torch.bfloat16, layout=layout, pool=2) for layout in ("channels_last", "one_frame")],
    *[Case(ODD, layout="channels_last", pool=pool, contiguous=True, tau=1.7) for pool in (2, 3)],
    Case(ODD, layout="one_frame"),
    Case((4, 2, 6, 8, 8), layout="channels_last", pool=4),
    Case((4, 0, 6, 4, 4), pool=2, threshold="channel_step"),
    Case((5, 2, 7, 4, 6), pool=2, threshold="channel_step", force_last=True, bias=None),
    Case((5, 2, 7, 4, 6), torch.float16, layout="channels_last", pool=2, threshold="step", contiguous=True),
    Case((19, 2, 3, 4, 4), torch.bfloat16, layout="channels_last", pool=2),
    *[Case((1, 3, 5, 4, 4), layout="channels_last", pool=2, force_last=force) for force in (False, True)],
    Case((8, 2, 40, 4, 4), torch.bfloat16, layout="channels_last", pool=2, contiguous=True),
    *[Case((steps, 2, 3, 6, 6), layout="channels_last", pool=3, force_last=True) for steps in (8, 9)],
    *[Case((steps, 2, 3, 4, 4), layout="channels_last", pool=2) for steps in (10, 11, 16)],
    Case((16, 1, 3, 3, 3), pool=3, tau=2.0),
]


def check_amos(case: Case, device: str) -> None:
    """Same spikes, and the same gradients of current, bias and threshold."""
    torch.manual_seed(seed := int.from_bytes(os.urandom(4)))
    base, view = _current(case)
    bias = None if case.bias is None else (torch.randn(case.shape[2]) * 0.1).to(case.bias)
    threshold = _threshold(case)
    *first, height, width = case.shape if case.pool > 1 else (*case.shape, 1, 1)
    shape = [*first, height // case.pool, width // case.pool] if case.pool > 1 else list(case.shape)
    grad = torch.randn(shape).to(case.dtype)

    def run(amos: Callable[..., Tensor], device: str) -> list[Tensor]:
        leaves = [
            value.detach().to(device).requires_grad_()
            for value in (base, bias, threshold)
            if isinstance(value, Tensor)
        ]
        values = iter(leaves)
        current = view(next(values))
        shift = None if bias is None else next(values)
        spikes = amos(case, current, next(values, 1.0), shift)
        assert spikes.dtype == case.dtype
        spikes.backward(grad.to(device))
        assert all(leaf.grad is not None for leaf in leaves)
        return [spikes.detach(), *[leaf.grad for leaf in leaves if leaf.grad is not None]]

    expected, found = run(reference, "cpu"), run(fused, device)
    assert torch.equal(found[0].cpu(), expected[0]), f"spikes differ: {case}, seed {seed}"
    for value, wanted in zip(found[1:], expected[1:], strict=True):
        close(value, wanted, TOLERANCE[case.dtype], f"{case}, seed {seed}")


def reference(case: Case, current: Tensor, threshold: float | Tensor, bias: Tensor | None) -> Tensor:
    """`functional.amos`, and torch's own pooling in float32."""
    current = current.expand(case.shape)
    spikes = functional.amos(current, threshold, case.force_last, case.tau, case.surrogate, bias)
    if case.pool == 1:
        return spikes
    pooled = F.avg_pool2d(spikes.flatten(0, 1).float(), case.pool).to(case.dtype)
    return pooled.view(*case.shape[:2], *pooled.shape[1:])


def fused(case: Case, current: Tensor, threshold: float | Tensor, bias: Tensor | None) -> Tensor:
    """The same through the kernels; and each frame must come as it was asked for."""
    options = (case.force_last, case.tau, case.surrogate, bias, case.shape[0], case.pool, case.contiguous)
    spikes = kernels.amos(current, threshold, *options)
    if case.contiguous:
        assert spikes[0].is_contiguous()
    elif case.layout == "channels_last":
        assert spikes[0].movedim(1, -1).is_contiguous()
    return spikes


def check_normalise_weight(
    shape: tuple[int, ...], device: str, dtype: torch.dtype | None, gain: bool, channels_last: bool = False
) -> None:
    """Same weights, and the same gradients of weight and gain."""
    torch.manual_seed(seed := int.from_bytes(os.urandom(4)))
    weight, factors = torch.randn(shape) * 0.3 + 0.1, torch.rand(shape[0]) + 0.5
    if channels_last:
        weight = weight.movedim(1, -1).contiguous().movedim(-1, 1)
    grad = torch.randn(shape).to(dtype or torch.float32)

    def run(normalise: Callable[..., Tensor], device: str) -> list[Tensor]:
        leaves = [value.detach().to(device).requires_grad_() for value in (weight, factors)][: 1 + gain]
        result = normalise(leaves[0], 0.37, "channel", leaves[1] if gain else None, dtype)
        assert result.dtype == (dtype or torch.float32)
        assert result.stride() == weight.stride()
        result.backward(grad.to(device))
        return [result.detach(), *[leaf.grad for leaf in leaves if leaf.grad is not None]]

    expected, found = run(functional.normalise_weight, "cpu"), run(kernels.normalise_weight, device)
    tolerance = TOLERANCE[dtype or torch.float32]
    for value, reference in zip(found, expected, strict=True):
        close(value, reference, tolerance, f"{shape}, {dtype}, seed {seed}")


def check_adam(shape: tuple[int, int], device: str, dtype: torch.dtype, gain: bool) -> None:
    """Three steps of AdamW from deferred gradients: same weights, gains, moments and norms of gradients.

    The reference is float64: torch's float32 norm of a million gradients on the CPU is itself off by 1e-5. Gradients
    come in `dtype`, but all that is done with them is float32.
    """
    torch.manual_seed(seed := int.from_bytes(os.urandom(4)))
    start, factors = torch.randn(shape) * 0.3 + 0.1, torch.rand(shape[0]) + 0.5
    grads = [torch.randn(shape).to(dtype) for _ in range(3)]

    def run(device: str, wide: torch.dtype, defer: bool) -> list[Tensor]:
        synapse = Linear(shape[1], shape[0], 4, Normalisation(gain=gain, bias=False)).to(device, wide)
        with torch.no_grad():
            for parameter, values in zip(synapse.parameters(), (start, factors), strict=False):
                parameter.copy_(values)
        groups = [{"params": [parameter]} for parameter in synapse.parameters()]
        groups[0] |= {"weight_decay": 0.1}
        optimizer: torch.optim.Optimizer
        if defer:
            optimizer = DeferringAdamW(groups, 0.01, (0.9, 0.999), [synapse])
        else:
            optimizer = torch.optim.AdamW(groups, 0.01, (0.9, 0.999))
        norms = []
        for grad in grads:
            optimizer.zero_grad()
            if synapse.deferred is not None:
                synapse.deferred.normalise(dtype)
                synapse.deferred.add(grad.to(device))
            else:
                options = (synapse.std, "channel", synapse.gain, dtype)
                functional.normalise_weight(synapse.weight, *options).backward(grad)
            optimizer.step()
            assert (synapse.weight.grad is None) is defer
            norms.append(synapse.gradient_norm())
        state = optimizer.state[synapse.weight]
        assert state["step"] == 3
        moments = state["exp_avg"], state["exp_avg_sq"]
        parameters = [parameter.detach() for parameter in synapse.parameters()]
        return [torch.stack(norms), *moments, *parameters]

    found, expected = run(device, torch.float32, True), run("cpu", torch.float64, False)
    names = ("norms of gradients", "exp_avg", "exp_avg_sq", "weight", "gain")[: len(found)]
    for name, value, reference in zip(names, found, expected, strict=True):
        what = f"AdamW, {name}, {shape}, {dtype}, seed {seed}"
        close(value, reference.to(value.dtype), TOLERANCE[torch.float32], what)


def close(value: Tensor, reference: Tensor, tolerance: float, what: str) -> None:
    """Equal up to `tolerance` of the reference's size, in the mean square and at the worst element."""
    assert value.shape == reference.shape
    assert value.dtype == reference.dtype
    if not reference.numel():
        return
    value, reference = value.cpu().double(), reference.double()
    error, size = value - reference, max(reference.abs().max().item(), 1e-3)
    assert error.norm() <= tolerance * max(reference.norm().item(), 1e-3), f"gradients differ: {what}"
    assert error.abs().max().item() <= 3 * tolerance * size, f"a gradient differs: {what}"


def _current(case: Case) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """A leaf, and how the current of the case is a view of it."""
    T, B, C, *positions = case.shape
    scale = 0.7

    def random(*shape: int) -> Tensor:
        return (torch.randn(shape) * scale).to(case.dtype)

    match case.layout:
        case "contiguous":
            return random(*case.shape), lambda leaf: leaf
        case "channels_last":
            return random(T, B, *positions, C), lambda leaf: leaf.movedim(-1, 2)
        case "transposed":
            return random(T, B, C, *reversed(positions)), lambda leaf: leaf.transpose(-1, -2)
        case "every_second":
            return random(2 * T, B, C, *positions), lambda leaf: leaf[::2]
        case "shared_batch":
            return random(T, 1, C, *positions), lambda leaf: leaf.expand(case.shape)
        case "constant":
            return random(B, C, *positions), lambda leaf: leaf.expand(case.shape)
        case "one_frame":
            return random(1, B, C, *positions), lambda leaf: leaf
    raise ValueError(case.layout)


def _threshold(case: Case) -> float | Tensor:
    T, _, C, *positions = case.shape
    ones = [1] * len(positions)
    match case.threshold:
        case "number":
            return 1.0
        case "scalar":
            return torch.tensor(0.8)
        case "channel":
            return torch.rand(1, 1, C, *ones) + 0.5
        case "step":
            return torch.rand(T, 1, 1, *ones) + 0.5
        case "channel_step":
            return torch.rand(T, 1, C, *ones) + 0.5
    raise ValueError(case.threshold)
