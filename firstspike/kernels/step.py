"""AMOS some steps at a time: `functional.amos_step` as one kernel where the device allows it."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from firstspike import functional
from firstspike.functional.neuron import NeuronState, charge, check_tau, per_channel
from firstspike.kernels import pooled_ops, step_ops
from firstspike.kernels.layout import as_laid_out, dense_frames, is_channels_last
from firstspike.kernels.neuron import DTYPES, avg_pool, takes
from firstspike.kernels.neuron_ops import UNROLLED_STEPS
from firstspike.kernels.windows import has_rest


@dataclass(frozen=True, eq=False)
class Past:
    """The state of neurons as all the currents that they have had: membrane and mask follow from these.

    To a kernel this is less to read and to write than a `NeuronState`, for as long as the steps are few.
    """

    currents: tuple[Tensor, ...]
    """Blocks `[n, B, C, ...]`, one after the other in time; one constant frame is there again and again."""
    rows: tuple[Tensor, ...]
    """For the first of the blocks, in which others have a place as well: which samples these are, int64 `[B]`."""
    threshold: float | Tensor
    """A number, or `[1 or steps, C]` for these steps at least."""
    tau: float | None
    bias: Tensor | None

    @property
    def steps(self) -> int:
        """Steps so far."""
        return sum(map(len, self.currents))

    @property
    def membrane(self) -> Tensor:
        """H[t-1], `[B, ...]`, as in `NeuronState`."""
        return self._membranes()[-1]

    @property
    def fired(self) -> Tensor:
        """F[t-1] as booleans, `[B, ...]`, as in `NeuronState`."""
        membranes = self._membranes()
        threshold = self.threshold
        if isinstance(threshold, Tensor):
            threshold = per_channel(threshold[: self.steps], membranes.dim() - 1)
        return (membranes - threshold >= 0).any(0)

    def keep(self, samples: Tensor) -> "Past":
        """The state of some samples of the batch only (indices, or a boolean mask).

        The currents stay where they are: a kernel reads those of these samples. A constant one is copied, for
        it will be read at every step to come.
        """
        if self.constant:
            return replace(self, currents=(take_samples(self.currents[0], samples),) * self.steps)
        samples = samples.nonzero().flatten() if samples.dtype == torch.bool else samples.long().contiguous()
        new = len(self.currents) - len(self.rows)
        return replace(self, rows=(*[row[samples] for row in self.rows], *[samples] * new))

    @property
    def constant(self) -> bool:
        """Whether one frame stands for all steps."""
        return len(self.currents[0]) == 1 and all(block is self.currents[0] for block in self.currents)

    def _membranes(self) -> Tensor:
        kept = [take_samples(block, row) for block, row in zip(self.currents, self.rows, strict=False)]
        return charge(torch.cat([*kept, *self.currents[len(kept) :]]), self.tau, self.bias)


class Steps(NamedTuple):
    """What neurons did in some steps."""

    spikes: Tensor
    """`[n, B, C, ...]`, pooled where that was asked for."""
    membrane: Tensor | None
    """`[n, B, C, ...]` where it was asked for."""
    state: NeuronState | Past
    """Where the neurons stand after the last of these steps."""


class Wanted(NamedTuple):
    """What is wanted of some steps beside the spikes, and how."""

    pool: int = 1
    """Average the spikes over windows of this side."""
    contiguous: bool = False
    """Lay pooled spikes out for a fully connected layer."""
    membrane: bool = False
    """The membranes too; not with pooling."""
    counts: Tensor | None = None
    """int32 `[n, B]`, to which the spikes of each sample and step are added, before pooling."""


def amos_steps(
    current: Tensor,
    state: NeuronState | Past | None,
    t: int,
    threshold: float | Tensor = 1.0,
    tau: float | None = None,
    bias: Tensor | None = None,
    steps: int | None = None,
    wanted: Wanted | None = None,
) -> Steps:
    """Steps t, t+1, ... of `functional.amos_step`, in one kernel where the device allows it.

    Args:
        current: `[n, B, C, ...]`, or `[1, B, C, ...]` for n = `steps` equal ones.
        state: after step t - 1; None before the first step.
        threshold: V, a number, `[C]`, or `[T, C]` with a row for each step.
    """
    steps, wanted = steps or len(current), wanted or Wanted()
    check_tau(tau)
    rows = threshold[None] if isinstance(threshold, Tensor) and threshold.dim() == 1 else threshold
    before = state.currents if isinstance(state, Past) else ()
    if isinstance(state, NeuronState) or not _fuses(current, rows, bias, steps, sum(map(len, before))):
        return _one_by_one(current, state, t, rows, tau, bias, steps, wanted)
    current = as_laid_out(current, is_channels_last(before[0])) if before else dense_frames(current)
    repeated = steps // len(current)
    if isinstance(rows, Tensor) and len(rows) > 1:
        rows = rows[t - sum(map(len, before)) :]
    kept = state.rows if isinstance(state, Past) else ()
    past = Past((*before, *[current] * repeated), kept, rows, tau, bias)
    return _fused(past, steps, wanted)


def _fused(past: Past, steps: int, wanted: Wanted) -> Steps:
    """The last `steps` of the past, in the kernel."""
    currents = past.currents[:1] if past.constant else past.currents
    per_step = isinstance(past.threshold, Tensor)
    apart = wanted.pool > 1 and not _pools(currents[-1], wanted)
    spikes, membrane = step_ops.amos_step(
        list(currents),
        list(past.rows),
        past.steps - steps,
        steps,
        past.threshold if per_step else None,
        0.0 if per_step else float(past.threshold),
        past.tau,
        past.bias,
        1 if apart else wanted.pool,
        wanted.contiguous,
        wanted.membrane,
        wanted.counts,
    )
    if apart:
        spikes = avg_pool(spikes, wanted.pool, wanted.contiguous)
    return Steps(spikes, membrane if wanted.membrane else None, past)


def _one_by_one(
    current: Tensor,
    state: NeuronState | Past | None,
    t: int,
    rows: float | Tensor,
    tau: float | None,
    bias: Tensor | None,
    steps: int,
    wanted: Wanted,
) -> Steps:
    """`functional.amos_step`, one step after the other."""
    if isinstance(state, Past):
        state = NeuronState(state.membrane, state.fired)
    spikes, membranes = [], []
    for index, frame in enumerate(current.expand(steps, *current.shape[1:])):
        level = rows
        if isinstance(rows, Tensor):
            level = per_channel(rows[t + index if len(rows) > 1 else 0], frame.dim())
        fired, state = functional.amos_step(frame, state, level, tau, bias)
        spikes.append(fired)
        membranes.append(state.membrane)
    assert isinstance(state, NeuronState)
    frames = _stacked(spikes)
    if wanted.counts is not None:
        wanted.counts.add_((frames != 0).flatten(2).sum(2))
    pooled = avg_pool(frames, wanted.pool, wanted.contiguous)
    return Steps(pooled, _stacked(membranes) if wanted.membrane else None, state)


def take_samples(block: Tensor, samples: Tensor) -> Tensor:
    """Some samples of frames `[n, B, C, ...]`, in the layout of the frames."""
    if is_channels_last(block):
        return block.movedim(2, -1)[:, samples].movedim(-1, 2)
    return block[:, samples]


def _stacked(frames: list[Tensor]) -> Tensor:
    """`torch.stack`, without a copy of a single frame."""
    return frames[0][None] if len(frames) == 1 else torch.stack(frames)


def _fuses(current: Tensor, rows: float | Tensor, bias: Tensor | None, steps: int, past: int) -> bool:
    """Whether the kernel takes these neurons and so many steps of them."""
    fits = past + steps <= UNROLLED_STEPS and takes(current, bias, steps)
    if not isinstance(rows, Tensor):
        return fits
    beside = rows.device == current.device and rows.dtype in DTYPES and rows.is_contiguous()
    return fits and beside and rows.shape[1:] == current.shape[2:3]


def _pools(current: Tensor, wanted: Wanted) -> bool:
    """Whether the kernel pools: windows it knows, which cover every neuron that is to be counted."""
    known = current.dim() == 5 and wanted.pool in pooled_ops.POOLS and not wanted.membrane
    return known and (wanted.counts is None or not has_rest(current.shape, wanted.pool))
