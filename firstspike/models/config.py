"""All that says what a network is, apart from its weights."""

import math
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from firstspike.errors import FirstspikeError
from firstspike.functional.encoding import Encoding
from firstspike.functional.times import check_steps
from firstspike.nn import Neuron, Normalisation
from firstspike.nn.synapse import fused_normalisation

Pooling = Literal["average", "max"]


@dataclass(frozen=True)
class NetworkConfig:
    """An architecture, the input it takes and how its neurons and synapses work."""

    architecture: str
    """A name of the zoo (`SCNN5`) or an architecture string (`C20K5-P2-FC1000-FC10`)."""
    input_shape: tuple[int, ...]
    """Shape of one image or event frame: (channels, height, width)."""
    T: int = 8
    """Time steps."""
    classes: int | None = None
    """Number of classes; none leaves the architecture's own last layer."""
    encoding: Encoding = "direct"
    """How the input becomes current: images `direct` or by `latency`, event `frames` as they are."""
    neuron: Neuron = field(default_factory=Neuron)
    normalisation: Normalisation = field(default_factory=Normalisation)
    pooling: Pooling = "average"
    """Average pooling, or max pooling as the ablation's baseline."""
    dropout: float = 0.0
    """Dropout rate after hidden fully connected layers, one mask for all steps."""
    fall: float = 0.0
    """How far the output's threshold falls: evenly from V (1 + fall) at the first step to V (1 - fall) at the last.

    A clear answer is given at once all the same; close ones come one after the other, in the order of their
    membranes, instead of together, and weak ones late instead of never.
    """
    lift: float = 0.0
    """How far above V (below it, where negative) the middle of that fall lies, as a share of V."""
    input_mean: tuple[float, ...] = (0.0,)
    """Mean per input channel (or one for all), taken off the input."""
    input_std: tuple[float, ...] = (1.0,)
    """Deviation per input channel (or one for all), which the input is divided by."""

    def __post_init__(self) -> None:
        check_steps(self.T)
        if self.encoding not in get_args(Encoding):
            names = ", ".join(get_args(Encoding))
            raise FirstspikeError(f"Unknown encoding {self.encoding!r}: choose one of {names}.")
        if self.pooling not in get_args(Pooling):
            raise FirstspikeError(f"Unknown pooling {self.pooling!r}: choose average or max.")
        if not self.input_shape or not all(size >= 1 for size in self.input_shape):
            raise FirstspikeError(
                f"The input shape is {self.input_shape}: give (channels, height, width), all at least 1."
            )
        if self.classes is not None and self.classes < 2:
            raise FirstspikeError(f"A classifier needs at least 2 classes, not {self.classes}.")
        if not self.fall >= 0:
            raise FirstspikeError(f"The output's threshold falls by 0 or more, not {self.fall}.")
        if not 1 + self.lift + self.fall > 0:
            raise FirstspikeError(
                f"With a lift of {self.lift} and a fall of {self.fall} the output's threshold begins at "
                f"{1 + self.lift + self.fall:g} V: it must begin above 0."
            )
        for name, values in (("mean", self.input_mean), ("std", self.input_std)):
            if len(values) not in (1, self.input_shape[0]) or not all(map(math.isfinite, values)):
                raise FirstspikeError(
                    f"input_{name} is {values}: give one finite number, or one per input channel "
                    f"({self.input_shape[0]})."
                )
        if not all(value > 0 for value in self.input_std):
            raise FirstspikeError(f"input_std is {self.input_std}: deviations must be positive.")
        if self.encoding == "latency" and self.standardises:
            raise FirstspikeError(
                "Latency coding takes pixels in [0, 1]: leave out input_mean and input_std."
            )

    @property
    def standardises(self) -> bool:
        return any(self.input_mean) or any(value != 1 for value in self.input_std)

    def fused(self) -> "NetworkConfig":
        """The configuration of the fused network."""
        has_bias = self.normalisation.bias or self.normalisation.kind == "batch"
        folds = has_bias and self.neuron.tau is None and self.T > 1  # see Readout.fuse
        normalisation = fused_normalisation(self.normalisation, has_bias)
        fall, lift = (0.0, 0.0) if folds else (self.fall, self.lift)
        return replace(self, normalisation=normalisation, fall=fall, lift=lift)
