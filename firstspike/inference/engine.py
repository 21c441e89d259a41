"""The event-driven engine: a network compiled for the native core."""

from typing import Any, get_args

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from firstspike.errors import FirstspikeError
from firstspike.functional.decoding import TieRule
from firstspike.inference import native
from firstspike.inference.answer import Answer
from firstspike.inference.found import Found
from firstspike.inference.given import check_images, check_ties
from firstspike.inference.plan import Plan, Weights, make_plan
from firstspike.inference.quantise import calibrate, quantised_network
from firstspike.models import Network


class Engine:
    """A trained network, fused and packed for the native core: `Engine(net)(images)` is an `Answer`.

    Later changes of `net` do not reach it. Calls from several threads wait for each other.

    Args:
        net: any network of firstspike's own layers, in float32 on the CPU.
        weights: float32; int8 with a scale per output channel for fully connected layers, which have most weights
            and hardly feel it; or int8-all for convolutions too, faster where spikes are few and less faithful (a
            first layer that takes an image stays float32).
        calibration: images (or event frames), as the network takes them, from which the int8 scales learn what
            the weights meet; a hundred or so are plenty.
        threads: over the images of a batch, and over the rows and channels of large layers for a single one.
        instruction_set: avx512, avx2 or portable; by default the best of this machine.
    """

    def __init__(
        self,
        net: Network,
        weights: Weights = "float32",
        calibration: Tensor | None = None,
        threads: int = 1,
        instruction_set: str | None = None,
    ) -> None:
        core = native.require()
        if weights not in get_args(Weights):
            raise FirstspikeError(f"Unknown weights {weights!r}: choose float32, int8 or int8-all.")
        if not 1 <= threads <= 1024:
            raise FirstspikeError(f"threads must be between 1 and 1024, not {threads}.")
        if instruction_set is not None and instruction_set not in core.instruction_sets():
            known = ", ".join(core.instruction_sets())
            raise FirstspikeError(f"This machine has no {instruction_set!r}: choose from {known}.")
        self.net = net.fuse()
        self.weights, self.threads = weights, threads
        self._instruction_set = instruction_set or ""
        self._calibration = None if calibration is None else calibrate(self.net, calibration)
        self._plan = self._make_plan(net.config.encoding)
        self._core = self._compile(self._plan, net.config.encoding)
        self.instruction_set: str = self._core.isa
        self.layers = tuple(self._plan.names)
        self.name = f"{weights}, {self.instruction_set}"
        self._image_shape = self._plan.input_shape
        self._frames = net.config.encoding == "frames"
        self._plain = len(net.config.input_shape) == 3 and not self._plan.input_pools.sizes

    def _make_plan(self, encoding: str) -> Plan:
        return make_plan(self.net, encoding, self.weights, self._calibration)

    def _compile(self, plan: Plan, encoding: str, threads: int | None = None) -> Any:
        channels = plan.input_shape[0]
        mean, deviation = (
            np.ascontiguousarray(values.flatten().expand(channels).numpy())
            for values in (self.net.input_mean, self.net.input_std)
        )
        try:
            return native.require().Core(
                plan.layers,
                self.net.T,
                encoding,
                mean,
                deviation,
                self.threads if threads is None else threads,
                self._instruction_set,
            )
        except ValueError as error:
            raise FirstspikeError(f"The engine cannot run this network: {error}.") from error

    def open_stream(self) -> Any:
        """The core's side of a `Stream`. A direct input may differ at each step there, as frames do."""
        encoding = "latency" if self.net.config.encoding == "latency" else "frames"
        return native.require().Stream(self._compile(self._make_plan(encoding), encoding, threads=1))

    @property
    def reference(self) -> Network:
        """The plain network whose spikes this engine computes: the fused one, or for int8 its quantised copy."""
        return self.net if self.weights == "float32" else quantised_network(self.net, self._plan)

    def __call__(self, images: Tensor, ties: TieRule = "potential", times: bool = False) -> Answer:
        """Answers for images `[B, C, H, W]`, or event frames `[T, B, C, H, W]`: see `infer`."""
        check_ties(ties)
        if not self._is_ready(images):
            images = self.prepare(check_images(self.net, images))
        batch = images.shape[1 if self._frames else 0]
        try:
            found = self._core.run(images.data_ptr(), images.numel(), batch, ties == "potential", times)
        except ValueError as error:
            raise FirstspikeError(str(error)) from error
        return Found(found, self.layers, self.name, times)

    def _is_ready(self, images: Tensor) -> bool:
        """Whether the core can read the images where they are; a microsecond counts at this place."""
        return (
            self._plain
            and images.shape[-3:] == self._image_shape
            and images.dim() == (5 if self._frames else 4)
            and (not self._frames or images.shape[0] == self.net.T)
            and images.dtype is torch.float32
            and images.is_cpu
            and images.is_contiguous()
        )

    def prepare(self, images: Tensor) -> Tensor:
        """What the core reads: float32, contiguous, on the CPU, pooled where pooling comes first."""
        images = images.detach().to("cpu", torch.float32)
        if not self._plain:
            lead = images.shape[: images.dim() - len(self.net.config.input_shape)]
            flat = images.reshape(
                -1, *(self.net.config.input_shape if images.dim() > 2 else self._image_shape)
            )
            for size in self._plan.input_pools.sizes:
                flat = F.avg_pool2d(flat, size)
            images = flat.reshape(*lead, *self._image_shape)
        return images.contiguous()

    def __repr__(self) -> str:
        config = self.net.config
        return f"Engine({config.architecture}, {self.name}, {self.threads} thread{'s' * (self.threads > 1)})"
