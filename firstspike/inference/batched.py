"""Inference in batches: some steps at a time, for those who have no answer yet."""

from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from firstspike.functional.decoding import TieRule, predict
from firstspike.functional.times import spike_times
from firstspike.inference.answer import Answer
from firstspike.inference.given import check_finite, check_images, check_ties
from firstspike.inference.replay import Replay, Tree
from firstspike.models import Network, State
from firstspike.nn import Spiking

FEW = 32
"""Samples up to which a round takes several steps at once."""

GRAPH_UP_TO = 1024
"""The largest batch whose rounds are captured as graphs; larger ones keep the device busy anyway."""

RUNS = 4
"""Batch sizes that are kept ready."""


class Batched:
    """A network made ready to answer batch after batch on its device.

    The steps run in rounds, each layer by layer, and those who have their answer leave the batch in between, as
    soon as it fits a smaller size: the host looks once a round. On CUDA the rounds of a batch size that comes
    again are replayed as graphs.
    """

    def __init__(self, net: Network) -> None:
        self.net = ready(net)
        self._runs: dict[tuple[object, ...], Run] = {}

    @torch.no_grad()
    def __call__(self, images: Tensor, ties: TieRule = "potential") -> Answer:
        """The answers for images `[B, C, H, W]`, or event frames `[T, B, C, H, W]`."""
        check_ties(ties)
        check_images(self.net, images)
        check_finite(self.net, images)
        return self.run(images).answer(ties)

    @torch.no_grad()
    def run(self, images: Tensor) -> "Board":
        """What the output does, until each sample has its answer. Good until the next call."""
        key = (tuple(images.shape), images.dtype, images.device)
        if key not in self._runs:
            if len(self._runs) == RUNS:
                del self._runs[next(iter(self._runs))]
            self._runs[key] = Run(self.net, images)
        return self._runs[key](images)


class Board:
    """What the output did at each step that a sample was there for, and the spikes of each layer."""

    def __init__(self, net: Network, batch: int, device: torch.device) -> None:
        named = zip(net.names, net.layers, strict=True)
        self.layers = tuple(name for name, layer in named if isinstance(layer, Spiking))
        weight = net.readout.synapse.weight
        shape = (net.T, batch, len(weight))
        wide = torch.promote_types(weight.dtype, torch.float32)
        self.spikes = torch.zeros(shape, dtype=torch.bool, device=device)
        self.membrane = torch.zeros(shape, dtype=wide, device=device)
        self.counts = torch.zeros(len(self.layers), net.T, batch, dtype=torch.int32, device=device)

    def clear(self) -> None:
        """Forget the batch before. Membranes need not be forgotten: they are read where a step was noted."""
        self.spikes.zero_()
        self.counts.zero_()

    def answer(self, ties: TieRule) -> Answer:
        """Decode the first output spikes."""
        label, steps, tied, silent = predict(spike_times(self.spikes), self.membrane, ties)
        at = torch.arange(len(label), device=label.device)
        until = torch.arange(len(self.spikes), device=label.device)[:, None] < steps
        spikes = (self.counts * until).sum(1).T
        membrane = self.membrane[steps - 1, at]
        return Answer(label, steps, tied, silent, membrane, spikes, self.layers, None, engine=None)


class Round(NamedTuple):
    """Where a batch stands after a round."""

    state: State
    here: Tensor
    """Who is still in the batch, int64 `[b]`."""
    done: Tensor
    """Who of them has an answer, bool `[b]`."""
    left: Tensor
    """How many have none, `[]`."""


class Run:
    """All rounds for batches of one size, on memory that stays where it is."""

    def __init__(self, net: Network, images: Tensor) -> None:
        self.net = net
        self.events = net.config.encoding == "frames"
        self.images = torch.empty_like(images)
        if images.dim() == 4 and _is_channels_last(net):
            self.images = self.images.to(memory_format=torch.channels_last)
        self.batch = images.shape[1] if self.events else len(images)
        self.board = Board(net, self.batch, images.device)
        graphs = images.is_cuda and self.batch <= GRAPH_UP_TO
        self.first = Replay(self._first, Tree(graphs))

    def __call__(self, images: Tensor) -> Board:
        self.images.copy_(images)
        work = self.first
        stands = work()
        while stands.state.t < self.net.T and (left := int(stands.left)):
            places = min(places_for(left), len(stands.here))
            work = work.then(places, partial(self._next, stands, places))
            stands = work()
        return self.board

    def _first(self) -> Round:
        self.board.clear()
        here = torch.arange(self.batch, device=self.images.device)
        state = self.net.start(self.images[0] if self.events else self.images)
        return self._round(state, here, torch.zeros_like(here, dtype=torch.bool))

    def _next(self, before: Round, places: int) -> Round:
        """The round after another, for as many of its samples as there are places: those without answers first."""
        state, here, done, _ = before
        if places < len(here):
            order = done.to(torch.uint8).argsort(stable=True)[:places]
            state, here, done = state.keep(order), here[order], done[order]
        return self._round(state, here, done)

    def _round(self, state: State, here: Tensor, done: Tensor) -> Round:
        steps = steps_for(state.t, len(here), self.net.T)
        board, part = self.board, slice(state.t, state.t + steps)
        counts = board.counts.new_zeros(len(board.layers), steps, len(here))
        frames = self.images[part][:, here] if self.events else None
        output, state = self.net.advance(frames, state, steps, counts)
        fired = output.spikes != 0
        board.spikes[part, here] = fired
        board.membrane[part, here] = output.membrane.to(board.membrane.dtype)
        board.counts[:, part, here] = counts
        done = done | fired.any(2).any(0)
        return Round(state, here, done, (~done).sum())


def steps_for(t: int, places: int, T: int) -> int:
    """Steps of the round that begins at step t: one, or as many as all before where few samples take part.

    A step of few samples takes as long to launch as to run, and hardly anyone runs on after the answer.
    """
    return min(1 if places > FEW else max(1, t), T - t)


def places_for(left: int) -> int:
    """So many samples, rounded up to one of few sizes: every size has its graphs and its plans for convolutions.

    Sizes are an eighth apart or more, so that it pays to leave whenever a smaller one will do.
    """
    step = max(8, (1 << left.bit_length()) // 8)
    return -(-left // step) * step


def ready(net: Network) -> Network:
    """The fused network with weights as they are used: in the compute dtype, channels-last if that is short."""
    fused = net.fuse()
    dtype = fused.compute_dtype
    if dtype is not None:
        for layer in fused.layers:
            if isinstance(layer, Spiking):
                weight = layer.synapse.weight.detach().to(dtype)
                layer.synapse.weight = nn.Parameter(weight, requires_grad=False)
    if _is_channels_last(fused):
        fused.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return fused


def _is_channels_last(net: Network) -> bool:
    """Whether convolutions are fastest with channels side by side, as they are in 16 bits."""
    return net.compute_dtype in (torch.bfloat16, torch.float16)
