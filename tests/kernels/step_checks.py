"""Steps of AMOS in the kernel against `functional.amos_step`: what both the interpreter and the GPU must pass.

Spikes, membranes, masks and counts must be identical, on fresh random inputs.
"""

import os
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from firstspike import functional, kernels
from firstspike.functional.neuron import NeuronState, per_channel
from firstspike.kernels import Past, Wanted


@dataclass(frozen=True)
class StepCase:
    """Neurons run for some rounds of steps: a shape class and its options."""

    shape: tuple[int, ...]
    """`[B, C, ...]`"""
    rounds: tuple[int, ...] = (1, 1, 2)
    dtype: torch.dtype = torch.float32
    layout: str = "contiguous"
    threshold: str = "number"
    tau: float | None = None
    bias: torch.dtype | None = torch.float32
    pool: int = 1
    contiguous: bool = False
    leave: bool = False
    """Whether some samples leave after each round."""

    def __str__(self) -> str:
        options = {
            name: value for name, value in vars(self).items() if value != getattr(StepCase, name, None)
        }
        return ", ".join(f"{name}={value}" for name, value in options.items())


CONV, FC, ODD = (3, 16, 4, 4), (5, 24), (4, 7, 5, 3)
STEP_CASES = [
    StepCase((9, *ODD[1:]), (1, 1, 2, 3), torch.bfloat16, leave=True),
    StepCase((9, 6, 4, 4), (1, 1, 2, 3), torch.bfloat16, "channels_last", pool=2, leave=True),
    *[StepCase(shape, layout=layout) for shape in (CONV, ODD) for layout in ("contiguous", "channels_last")],
    *[StepCase(ODD, dtype=dtype, layout="channels_last") for dtype in (torch.bfloat16, torch.float16)],
    *[StepCase(ODD, layout=layout, tau=tau) for layout in ("transposed", "constant") for tau in (None, 1.7)],
    *[StepCase(ODD, threshold=threshold, leave=True) for threshold in ("channel", "channel_step")],
    *[StepCase(FC, dtype=dtype, tau=2.3, bias=None) for dtype in (torch.float32, torch.bfloat16)],
    StepCase(ODD, dtype=torch.bfloat16, layout="channels_last", bias=torch.bfloat16, leave=True),
    StepCase(ODD, (2, 1), layout="changing", leave=True),
    StepCase((1, 1, 1, 1), (1, 1)),
    StepCase((0, 6, 3, 3), threshold="channel_step"),
    StepCase((2, 300), (1, 3), torch.bfloat16),
    StepCase((2, 5, 9), (3,), layout="channels_last", threshold="channel"),
    StepCase((2, 3, 4, 4), (16,), layout="channels_last"),
    StepCase((2, 3, 4, 4), (9, 8, 1), layout="channels_last", threshold="channel_step", tau=2.0),
    StepCase((9, 3, 4, 4), (1, 9, 7, 1), layout="channels_last", threshold="channel_step", leave=True),
    StepCase((2, 3, 2, 2), (15, 1), layout="constant"),
    *[StepCase(CONV, layout=layout, pool=2) for layout in ("contiguous", "channels_last", "constant")],
    *[StepCase(CONV, layout="channels_last", pool=2, contiguous=c, leave=True) for c in (False, True)],
    StepCase(ODD, dtype=torch.bfloat16, layout="channels_last", pool=2, threshold="channel_step"),
    StepCase((2, 7, 6, 6), (1, 2), torch.float32, "channels_last", "channel_step", 1.9, pool=3),
    StepCase((2, 40, 4, 4), (1, 1, 2, 4), torch.bfloat16, "channels_last", pool=2, contiguous=True),
    StepCase((2, 3, 8, 8), (1, 1), layout="channels_last", pool=4),
    # tiles that lie within one sample, also where they reach beyond its channels or positions
    *[
        StepCase((5, 40, 8, 8), (1, 1, 2), torch.bfloat16, "channels_last", leave=leave)
        for leave in (False, True)
    ],
    *[StepCase((3, 4, n, n), (1, 2), torch.bfloat16, leave=True) for n in (15, 16, 32)],
    *[
        StepCase((5, 40, 8, 8), (1, 2), torch.bfloat16, "channels_last", pool=2, contiguous=c)
        for c in (False, True)
    ],
    StepCase((3, 5, 32, 32), (1, 1), pool=2, leave=True),
    StepCase((0, 3, 4, 4), pool=2),
    StepCase((2, 3, 4, 4), (12, 2, 3), layout="constant", pool=2, tau=3.0),
]


def check_steps(case: StepCase, device: str) -> None:
    """Every round's spikes, membranes and counts; and the state after it, of those who stay."""
    torch.manual_seed(seed := int.from_bytes(os.urandom(4)))
    what = f"{case}, seed {seed}"
    channels, total = case.shape[1], sum(case.rounds)
    bias = None if case.bias is None else (torch.randn(channels) * 0.1).to(case.bias)
    threshold = threshold_for(case.threshold, total, channels)
    expected_state: NeuronState | None = None
    state: NeuronState | Past | None = None
    here, there = _moved(threshold, bias, device), (threshold, bias)
    t = 0
    here_frames: Tensor | None = None
    frames: Tensor | None = None
    for steps in case.rounds:
        if frames is None or case.layout != "constant":
            frames = currents_for(case, steps if case.layout != "constant" else 1, state, t)
            here_frames = frames.to(device)
        assert here_frames is not None
        counts = torch.zeros(steps, frames.shape[1], dtype=torch.int32, device=device)
        wanted = Wanted(case.pool, case.contiguous, case.pool == 1, counts)
        found = kernels.amos_steps(here_frames, state, t, here[0], case.tau, here[1], steps, wanted)
        spikes, membranes = [], []
        for index in range(steps):
            frame = frames[index if len(frames) > 1 else 0]
            level = level_at(there[0], t + index, frame.dim())
            fired, expected_state = functional.amos_step(frame, expected_state, level, case.tau, there[1])
            spikes.append(fired)
            membranes.append(expected_state.membrane)
        assert expected_state is not None
        whole = torch.stack(spikes)
        assert found.spikes.dtype == case.dtype
        assert torch.equal(found.spikes.cpu(), pooled(whole, case)), f"spikes differ: {what}"
        # Counted as integers: a sum in bfloat16 is exact up to 256 only.
        assert torch.equal(counts.cpu(), (whole != 0).flatten(2).sum(2).int()), f"counts differ: {what}"
        if found.membrane is not None:
            assert torch.equal(found.membrane.cpu(), torch.stack(membranes)), f"membranes differ: {what}"
        if case.contiguous and isinstance(found.state, Past):
            assert found.spikes[0].is_contiguous()
        t, state = t + steps, found.state
        if case.leave:
            stay = torch.arange(frames.shape[1])[t % 2 :: 2]
            if t % 3 == 1:  # as a mask, sometimes
                stay = torch.zeros(frames.shape[1], dtype=torch.bool).index_fill_(0, stay, True)
            state, expected_state = state.keep(stay.to(device)), expected_state.keep(stay)
        if device == "cpu" or case.tau is None:  # CUDA's own division rounds differently
            assert torch.equal(state.membrane.cpu(), expected_state.membrane), f"states differ: {what}"
            assert torch.equal(state.fired.cpu(), expected_state.fired), f"masks differ: {what}"


def currents_for(case: StepCase, steps: int, state: NeuronState | Past | None, t: int) -> Tensor:
    """Fresh currents `[steps, B, C, ...]` in the layout of the case, for those still in the batch."""
    batch, channels, *positions = case.shape
    batch = batch if state is None else len(state.fired)
    shape = (steps, batch, channels, *positions)
    match case.layout:
        case "channels_last":
            return _random(case.dtype, steps, batch, *positions, channels).movedim(-1, 2)
        case "transposed":
            return _random(case.dtype, *shape[:3], *reversed(positions)).transpose(-1, -2)
        case "changing" if t:
            return _random(case.dtype, steps, batch, *positions, channels).movedim(-1, 2)
    return _random(case.dtype, *shape)


def _random(dtype: torch.dtype, *shape: int) -> Tensor:
    return (torch.randn(shape) * 0.7).to(dtype)


def threshold_for(kind: str, steps: int, channels: int) -> float | Tensor:
    """A number, `[C]` or `[T, C]`."""
    match kind:
        case "channel":
            return torch.rand(channels) + 0.5
        case "channel_step":
            return torch.rand(steps, channels) + 0.5
    return 1.0


def level_at(threshold: float | Tensor, t: int, rank: int) -> float | Tensor:
    """The threshold of step t as `functional.amos_step` takes it."""
    if not isinstance(threshold, Tensor):
        return threshold
    return per_channel(threshold if threshold.dim() == 1 else threshold[t], rank)


def pooled(spikes: Tensor, case: StepCase) -> Tensor:
    """torch's own pooling, in float32."""
    if case.pool == 1:
        return spikes
    frames = F.avg_pool2d(spikes.flatten(0, 1).float(), case.pool).to(case.dtype)
    return frames.view(*spikes.shape[:2], *frames.shape[1:])


def _moved(
    threshold: float | Tensor, bias: Tensor | None, device: str
) -> tuple[float | Tensor, Tensor | None]:
    moved = threshold.to(device) if isinstance(threshold, Tensor) else threshold
    return moved, None if bias is None else bias.to(device)
