"""A network: one list of layers from encoded input to output spikes."""

import copy
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from firstspike.errors import FirstspikeError
from firstspike.functional.encoding import direct, latency
from firstspike.functional.times import check_steps, spike_times
from firstspike.kernels import Wanted
from firstspike.models.config import NetworkConfig
from firstspike.models.state import State, Step
from firstspike.nn import AMOS, AvgPool2d, Conv2d, Output, Readout, Spiking, Synapse
from firstspike.nn.chain import parts, run
from firstspike.nn.neuron import LayerState


class Network(nn.Module):
    """Layers between an encoding and a readout, run over `config.T` steps.

    `net(x)` runs all steps layer by layer; `net.start(x)` and `net.step(x_t, state)` run step by step. Both
    start fresh every time: there is nothing to reset.

    Training forces every neuron to fire by the last step. That step then follows from the others whatever
    its current, so it is not computed: hidden layers see T-1 frames, and the output's last frame is appended
    (exact, see the spec of the neuron). `skip_last_frame = False` computes it all the same.

    Args:
        layers: modules from `firstspike.nn`, the last one a `Readout`.
        config: what the input is and how long to run; `spec` documents the layers.
    """

    input_mean: Tensor
    input_std: Tensor

    def __init__(self, layers: Sequence[nn.Module], config: NetworkConfig) -> None:
        super().__init__()
        if not layers or not isinstance(layers[-1], Readout):
            raise FirstspikeError("The last layer of a network must be a Readout.")
        check_steps(config.T)
        self.config = config
        self.layers = nn.ModuleList(layers)
        shape = (-1, *[1] * (len(config.input_shape) - 1))
        self.register_buffer("input_mean", torch.tensor(config.input_mean).view(shape), persistent=False)
        self.register_buffer("input_std", torch.tensor(config.input_std).view(shape), persistent=False)
        self.compute_dtype: torch.dtype | None = None
        """What the synapses compute in; None: as the input comes. The membrane is float32 or wider always."""
        self.skip_last_frame = True
        self.recompute = False
        """Train with less memory and more time: see `nn.chain.run`. Gradients are the same."""

    @property
    def T(self) -> int:
        return self.config.T

    @property
    def readout(self) -> Readout:
        return self.layers[-1]  # type: ignore[return-value]

    @property
    def names(self) -> list[str]:
        """A name for each layer, in the words of the architecture grammar: `1.C20K5`, `2.P2`, ..."""
        return [f"{number}.{_label(layer)}" for number, layer in enumerate(self.layers, start=1)]

    @property
    def skip_last_frame(self) -> bool:
        """Whether training leaves out the last step, which follows from the others."""
        return self._skip_last_frame

    @skip_last_frame.setter
    def skip_last_frame(self, skip: bool) -> None:
        self._skip_last_frame = skip = skip and self.config.T > 1
        for module in self.modules():
            if isinstance(module, AMOS):
                module.force_last = False if skip else None

    def forward(self, x: Tensor) -> Output:
        """Run all steps: images `[B, C, H, W]`, or event frames `[T, B, C, H, W]`, in; the `Output` out."""
        output: Output = run(list(self.layers), self.encode(x), self.recompute and self.training)
        return output.with_forced_step() if len(output.spikes) < self.T else output

    def trace(self, x: Tensor) -> tuple[Output, dict[str, Tensor]]:
        """As `net(x)`, with the spike times (uint8, T = silent) of every layer of neurons, by its name."""
        times: dict[str, Tensor] = {}
        spikes = self.encode(x)
        for name, layer in zip(self.names, self.layers[:-1], strict=False):
            spikes = layer(spikes)
            if isinstance(layer, Spiking):
                times[name] = spike_times(spikes)
        output: Output = self.readout(spikes)
        if len(output.spikes) < self.T:
            output = output.with_forced_step()
        times[self.names[-1]] = output.spike_times
        return output, times

    def encode(self, x: Tensor) -> Tensor:
        """Input currents or spikes `[T, B, C, H, W]` (T-1 frames while training, see the class)."""
        frames = self.T - 1 if self.training and self.skip_last_frame else self.T
        match self.config.encoding:
            case "direct":
                return direct(self.prepare(x, events=False), frames)
            case "latency":  # read off the pixels before the compute dtype rounds them
                return self._cast(latency(self._standardise(x, events=False), self.T)[:frames])
            case "frames":
                return self.prepare(x, events=True)[:frames]

    def prepare(self, x: Tensor, events: bool) -> Tensor:
        """Check the input's shape, standardise it and bring it to the compute dtype."""
        return self._cast(self._standardise(x, events))

    def _cast(self, x: Tensor) -> Tensor:
        return x if self.compute_dtype is None else x.to(self.compute_dtype)

    def _standardise(self, x: Tensor, events: bool) -> Tensor:
        shape = self.config.input_shape
        lead = ["T", "B"] if events else ["B"]
        wrong_steps = events and x.dim() > 0 and x.shape[0] != self.T
        if tuple(x.shape[len(lead) :]) != shape or x.dim() != len(lead) + len(shape) or wrong_steps:
            expected = ", ".join(
                [str(self.T) if events else "B", *(["B"] if events else []), *map(str, shape)]
            )
            raise FirstspikeError(
                f"This network takes input of shape [{expected}], but was given {list(x.shape)}: "
                "check the axes, the number of channels and the image size."
            )
        if not x.is_floating_point():
            raise FirstspikeError(
                f"The input must be floating point, not {x.dtype}: for images, x.float() / 255."
            )
        return (x - self.input_mean) / self.input_std if self.config.standardises else x

    def start(self, x: Tensor) -> State:
        """The state before the first step, for images `[B, C, H, W]` (or any one event frame of that shape).

        Under direct encoding the first layer's current is worked out here, once.
        """
        self._check_stepping()
        latent = self.config.encoding == "latency"
        source = self._standardise(x, events=False) if latent else self.prepare(x, events=False)
        first = self.layers[0]
        constant = None
        if self.config.encoding == "direct" and isinstance(first, Spiking):
            constant = first.synapse.current(source[None])
        return State(0, (None,) * len(self.layers), source, constant)

    def step(self, x_t: Tensor | None, state: State) -> tuple[Step, State]:
        """One time step through all layers.

        Args:
            x_t: the input at this step, `[B, C, H, W]`. None takes it from what `start` was given, as the
                encoding says; event frames have to be given.
            state: from `start`, or from the step before.
        """
        output, state = self.advance(None if x_t is None else x_t[None], state)
        return Step(output.spikes[0], output.membrane[0]), state

    def advance(
        self, x: Tensor | None, state: State, steps: int = 1, counts: Tensor | None = None
    ) -> tuple[Output, State]:
        """Some time steps, layer by layer: what `step` does so many times, with fewer and larger launches.

        Args:
            x: as in `step`, a frame for each step: `[steps, B, C, H, W]`.
            counts: int32 `[layers of neurons, steps, B]`, to which each layer's spikes are added.
        """
        self._check_stepping()
        steps = steps if x is None else len(x)
        if state.t + steps > self.T:
            gone = "all" if state.t == self.T else str(state.t)
            raise FirstspikeError(f"This network runs for T = {self.T} steps, and {gone} of them are done.")
        if x is None and self.config.encoding == "frames":
            raise FirstspikeError(
                "A network of event frames needs the frame of every step: net.step(frame, state)."
            )
        constant = state.current if x is None else None
        spikes = self._frames(x, state, steps) if constant is None else state.source[None]
        neurons: list[LayerState | None] = [None] * len(self.layers)
        membrane, rows = spikes, iter(() if counts is None else counts)
        for index, layer, pool, contiguous in parts(list(self.layers)):
            if not isinstance(layer, Spiking):
                spikes = layer(spikes)
                continue
            wanted = Wanted(pool, contiguous, layer is self.readout, next(rows, None))
            before = state.neurons[index]
            if index == 0 and constant is not None:
                done = layer.neuron.steps(constant[0], before, state.t, constant[1], steps, wanted)
            else:
                done = layer.steps(spikes, before, state.t, wanted)
            spikes, neurons[index] = done.spikes, done.state
            membrane = spikes if done.membrane is None else done.membrane
        return Output(spikes, membrane), state._replace(t=state.t + steps, neurons=tuple(neurons))

    def _check_stepping(self) -> None:
        if self.training:
            raise FirstspikeError("Stepping is for inference: call net.eval() first.")

    def _frames(self, x: Tensor | None, state: State, steps: int) -> Tensor:
        """The encoded frames `[steps, B, ...]` from the state's step on."""
        if x is not None:
            frames = self.prepare(x[0] if len(x) == 1 else x.flatten(0, 1), events=False)
            return frames.view(*x.shape[:2], *frames.shape[1:])
        if self.config.encoding == "latency":
            return self._cast(latency(state.source, self.T)[state.t : state.t + steps])
        return state.source.expand(steps, *state.source.shape)

    def set_fall(self, fall: float, lift: float = 0.0, T: int | None = None) -> None:
        """Let the output's threshold fall otherwise (see `NetworkConfig`), over T steps if given.

        Weights, and the membranes of the steps there were, stay as they are. More steps make a slower fall, which
        parts answers that came together.
        """
        if T is not None and T != self.T:
            self._set_steps(T)
        self.config = replace(self.config, fall=fall, lift=lift)
        old = self.readout.neuron
        if isinstance(old.threshold, nn.Parameter) and not fall and not lift:
            return  # a learned threshold stays what it has become
        new = AMOS(old.neuron, self.readout.synapse.weight.shape[0], self.T, fall, lift)
        new.force_last = old.force_last
        self.readout.neuron = new.to(self.input_mean.device).train(old.training)

    def _set_steps(self, T: int) -> None:
        """Run for T steps from now on, on the same weights."""
        check_steps(T)
        if self.config.encoding != "direct" or self.config.neuron.learn_threshold == "channel-step":
            raise FirstspikeError(
                f"Only a network of images under direct encoding, and without thresholds learned per step, can run "
                f"for other than its T = {self.T} steps: its input or its thresholds would not be the same."
            )
        for module in self.modules():
            if isinstance(module, Synapse):
                module.set_steps(T)
        self.config = replace(self.config, T=T, normalisation=self.readout.synapse.normalisation)
        self.skip_last_frame = self.skip_last_frame

    def fuse(self) -> "Network":
        """The same network with normalisation, gain and bias folded into plain weights: the same spikes."""
        layers = [
            layer.fuse() if isinstance(layer, Spiking) else copy.deepcopy(layer) for layer in self.layers
        ]
        fused = Network(layers, self.config.fused())
        fused.input_mean, fused.input_std = self.input_mean.clone(), self.input_std.clone()
        fused.compute_dtype = self.compute_dtype
        return fused.eval()

    def __str__(self) -> str:
        from firstspike.models.table import layer_table

        return layer_table(self)


def _label(layer: nn.Module) -> str:
    """A layer in the words of the architecture grammar, where it has one."""
    if isinstance(layer, Spiking):
        weight = layer.synapse.weight
        return (
            f"C{weight.shape[0]}K{weight.shape[2]}"
            if isinstance(layer.synapse, Conv2d)
            else f"FC{weight.shape[0]}"
        )
    return f"P{layer.size}" if isinstance(layer, AvgPool2d) else type(layer).__name__
