"""Inference in plain PyTorch: the fused network step by step, finished samples leaving the batch."""

import torch
from torch import Tensor

from firstspike.functional.decoding import TieRule
from firstspike.inference.answer import Answer
from firstspike.inference.given import check_finite, check_images, check_ties
from firstspike.models import Network, State, Step
from firstspike.nn import Spiking


@torch.no_grad()
def reference(net: Network, images: Tensor, ties: TieRule = "potential", times: bool = False) -> Answer:
    """As `infer`, always in PyTorch, on the device and in the precision of the network."""
    check_ties(ties)
    check_images(net, images)
    check_finite(net, images)
    fused = net.fuse()
    frames = images if net.config.encoding == "frames" else None
    batch = images.shape[1] if frames is not None else len(images)
    tally = Tally(fused, batch, images.device, times)
    waiting = torch.arange(batch, device=images.device)
    state = fused.start(images[0] if frames is not None else images)
    for t in range(net.T):
        step, state = fused.step(None if frames is None else frames[t, waiting], state)
        done = tally.take(waiting, step, state, ties)
        if done.any():
            waiting, state = waiting[~done], state.keep(~done)
        if not len(waiting):
            break
    return tally.answer()


class Tally:
    """The answers of a batch as they come in."""

    def __init__(self, net: Network, batch: int, device: torch.device, times: bool) -> None:
        self.T = net.T
        self.neurons = [index for index, layer in enumerate(net.layers) if isinstance(layer, Spiking)]
        self.layers = tuple(net.names[index] for index in self.neurons)
        self.label = torch.zeros(batch, dtype=torch.int64, device=device)
        self.steps = torch.zeros_like(self.label)
        self.tied, self.silent = (torch.zeros(batch, dtype=torch.bool, device=device) for _ in range(2))
        self.spikes = torch.zeros(batch, len(self.neurons), dtype=torch.int64, device=device)
        classes = net.readout.synapse.weight
        self.membrane = torch.zeros(batch, len(classes), dtype=classes.dtype, device=device)
        self.times: dict[str, Tensor] | None = {} if times else None

    def take(self, samples: Tensor, step: Step, state: State, ties: TieRule) -> Tensor:
        """Note what the step did to `samples` `[B]`; whether each has its answer now, bool `[B]`."""
        fired = step.spikes != 0
        done = fired.any(1)
        if self.times is not None:
            self._note_times(self.times, samples, state)
        silent = ~done & (state.t == self.T)
        done = done | silent
        answered = samples[done]
        strict = torch.where(silent, 0, fired.long().argmax(1))
        among = step.membrane.masked_fill(~fired & ~silent[:, None], -torch.inf)
        self.label[answered] = (strict if ties == "strict" else among.argmax(1))[done]
        self.steps[answered] = state.t
        self.tied[answered] = fired.sum(1)[done] > 1
        self.silent[answered] = silent[done]
        self.membrane[answered] = step.membrane[done].to(self.membrane.dtype)
        for column, index in enumerate(self.neurons):
            neuron = state.neurons[index]
            if neuron is not None:
                self.spikes[answered, column] = neuron.fired[done].flatten(1).sum(1)
        return done

    def _note_times(self, times: dict[str, Tensor], samples: Tensor, state: State) -> None:
        for name, index in zip(self.layers, self.neurons, strict=True):
            neuron = state.neurons[index]
            if neuron is None:
                continue
            if name not in times:
                shape = (len(self.label), *neuron.fired.shape[1:])
                times[name] = torch.full(shape, self.T, dtype=torch.uint8, device=samples.device)
            before = times[name][samples]
            now = neuron.fired & (before == self.T)
            times[name][samples] = before.masked_fill(now, state.t - 1)

    def answer(self) -> Answer:
        return Answer(
            self.label,
            self.steps,
            self.tied,
            self.silent,
            self.membrane,
            self.spikes,
            self.layers,
            self.times,
            engine=None,
        )
