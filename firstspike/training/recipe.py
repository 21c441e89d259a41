"""A recipe: everything that decides how a run comes out, as typed values."""

from dataclasses import dataclass, field
from typing import Literal

from firstspike.data import Augment, Dataset, load, standardisation
from firstspike.errors import FirstspikeError
from firstspike.functional.encoding import Encoding
from firstspike.functional.times import MAX_STEPS
from firstspike.models import NetworkConfig, Pooling
from firstspike.nn import Neuron, Normalisation
from firstspike.training.loss import Decoder, Loss
from firstspike.training.optimizer import OptimizerConfig, Schedule

Precision = Literal["auto", "float32", "bfloat16"]
Unit = Literal["spike", "relu", "rate-hard", "rate-soft"]


@dataclass(frozen=True)
class DataConfig:
    """What to train on."""

    name: str = "fashion-mnist-sample"
    """A data set's name (see `firstspike data list`), or the path of a folder of images or an .npz file."""
    validation: float = 0.0
    """Share (below 1) or number of training samples held out, class-balanced, to choose settings by."""
    validation_seed: int = 0
    """Which samples are held out; apart from the run's seed, so that seeds share their validation set."""
    validation_last: bool = False
    """Hold out the last samples as they are stored, rather than some of all: in DVS Gesture, whole people. With a
    `validation_seed` of 1 those before them, and so on: so everyone is held out once."""
    standardise: bool = True
    """Bring each input channel to mean 0 and deviation 1 (images under direct encoding)."""
    integrate: Literal["duration", "count"] = "duration"
    """Cut events into T frames of equal duration, or of equal event count."""
    fade: float = 0.0
    """Add to the channels of event frames the same counts again, late events weighing most: one counts 1/e after this
    share of a step, so that the two show which way things moved; 0: not."""
    clip: int = 0
    """Largest event count of a pixel in a frame; 1 tells only whether there was one, 0 leaves counts as they are."""

    def load(self, split: Literal["train", "test"], T: int | None, parts: int = 1) -> Dataset:
        """A split of it whole, events brought to T frames as these fields say."""
        return load(
            self.name, split, T=T, integrate=self.integrate, clip=self.clip, fade=self.fade, parts=parts
        )


@dataclass(frozen=True)
class NetConfig:
    """Which network."""

    architecture: str = "SCNN5"
    """A name of the zoo, or an architecture string such as C20K5-P2-FC1000-FC10."""
    unit: Unit = "spike"
    """Neurons that spike at most once; or, as baselines, ReLU units or rate-coded neurons by their reset."""
    pooling: Pooling = "average"
    """Average pooling, or max pooling as the ablation's baseline."""
    dropout: float = 0.0
    """Dropout rate after hidden fully connected layers, one mask for all steps."""
    fall: float = 0.0
    """How far the output's threshold falls over the steps, from V (1 + lift + fall) to V (1 + lift - fall)."""
    lift: float = 0.0
    """How far above V (below it, where negative) the middle of that fall lies."""
    choose_fall: bool = False
    """Choose fall and lift at the end of the training: on what is held out, or else on augmented training samples."""
    answer_steps: int = 0
    """With choose_fall: let the output's threshold fall over up to so many steps, where that is more than T."""
    mean_steps: float = 0.0
    """With choose_fall: at most so many steps until the answer, on average over the samples it is chosen on."""
    start_from: str | None = None
    """A run or model folder whose weights to start from: for example a trained ReLU twin's."""
    teacher: str | None = None
    """A run or model folder to distil from (see loss.distil)."""


@dataclass(frozen=True)
class Recipe:
    """A training run, whole."""

    name: str = "own"
    """Name of the recipe."""
    summary: str = "A recipe of your own"
    """What it is for, in a line."""
    epochs: int = 12
    """Passes over the training set."""
    batch_size: int = 64
    """Samples a step, over all processes."""
    T: int = 8
    """Time steps."""
    seed: int = 0
    """Seed of the initial weights, the order of the samples, augmentation and dropout."""
    encoding: Encoding = "direct"
    """How the input becomes current: images `direct` or by `latency`, event `frames` as they are."""
    precision: Precision = "auto"
    """What synapses compute in; auto is bfloat16 on CUDA and float32 elsewhere."""
    data: DataConfig = field(default_factory=DataConfig)
    augment: Augment = field(default_factory=Augment)
    network: NetConfig = field(default_factory=NetConfig)
    neuron: Neuron = field(default_factory=Neuron)
    normalisation: Normalisation = field(default_factory=Normalisation)
    decoder: Decoder = field(default_factory=Decoder)
    loss: Loss = field(default_factory=Loss)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    schedule: Schedule = field(default_factory=Schedule)

    def __post_init__(self) -> None:
        held = self.data.validation
        if held < 0 or (held >= 1 and held != int(held)):
            raise FirstspikeError(
                f"data.validation is {held}: give a share below 1, or a whole number of samples to hold out."
            )
        if self.epochs < 1 or self.batch_size < 1:
            raise FirstspikeError(
                f"A run needs at least one epoch and one sample a step, not epochs={self.epochs} and "
                f"batch_size={self.batch_size}."
            )
        fewest = min(self.T, *self.schedule.grow) if self.schedule.grow else self.T
        if fewest < 2 and self.network.unit == "spike":
            raise FirstspikeError(
                f"Training forces the last step, so T = {fewest} leaves nothing to learn from: take T of 2 or more."
            )
        if self.loss.threshold and self.loss.first_step >= fewest - 1:
            raise FirstspikeError(
                f"loss.first_step is {self.loss.first_step}, but the threshold loss looks at steps 0 to "
                f"{fewest - 2}: take a smaller one."
            )
        fixed = self.encoding != "direct" or self.neuron.learn_threshold == "channel-step"
        if self.schedule.grow and (self.network.unit != "spike" or fixed):
            raise FirstspikeError(
                "schedule.grow is for spiking networks of images under direct encoding, without thresholds learned "
                "per step: others know their number of steps."
            )
        if self.network.unit.startswith("rate") and not (self.loss.mse or self.loss.cross_entropy):
            raise FirstspikeError(
                "A rate-coded network is trained on its firing rates: set loss.mse or loss.cross_entropy."
            )
        self._check_choice()
        if self.loss.distil and not self.network.teacher:
            raise FirstspikeError(
                "loss.distil needs a teacher: give network.teacher the folder of a trained model."
            )

    def _check_choice(self) -> None:
        """Refuse at the start what could not be chosen at the end."""
        network = self.network
        if (network.answer_steps or network.mean_steps) and not network.choose_fall:
            raise FirstspikeError(
                "network.answer_steps and network.mean_steps say how to choose the fall of the output's threshold: "
                "set network.choose_fall as well."
            )
        if network.choose_fall and self.neuron.learn_threshold != "fixed":
            raise FirstspikeError(
                "A threshold is either learned or chosen: leave out choose_fall or learn_threshold."
            )
        if network.mean_steps and not network.mean_steps >= 1:
            raise FirstspikeError(
                f"An answer takes at least 1 step, so network.mean_steps cannot be {network.mean_steps}."
            )
        if not 0 <= network.answer_steps <= MAX_STEPS:
            raise FirstspikeError(
                f"network.answer_steps lies between 0 and {MAX_STEPS}, not {network.answer_steps}."
            )
        if network.answer_steps > self.T and self.encoding != "direct":
            raise FirstspikeError(
                f"network.answer_steps asks for more than T = {self.T} steps, which only images under direct "
                f"encoding can give, not encoding={self.encoding}."
            )

    def network_config(self, train: Dataset) -> NetworkConfig:
        """The network this recipe trains on the data set `train`."""
        if train.is_events != (self.encoding == "frames"):
            kind, right = ("events", "frames") if train.is_events else ("images", "direct or latency")
            raise FirstspikeError(
                f"{train.name} is made of {kind}: set encoding to {right}, not {self.encoding}."
            )
        if not train.is_events and (self.data.clip or self.data.fade):
            raise FirstspikeError(
                f"data.clip and data.fade are for event frames, but {train.name} is made of images: leave them out."
            )
        mean, std = (0.0,), (1.0,)
        if self.data.standardise and self.encoding == "direct":
            mean, std = standardisation(train)  # type: ignore[assignment]
        # A ReLU unit's variance is kept by sqrt(2 / N), which is the spiking rule at two steps.
        T = 2 if self.network.unit == "relu" else self.T
        return NetworkConfig(
            architecture=self.network.architecture,
            input_shape=train.input_shape,
            T=T,
            classes=len(train.classes),
            encoding=self.encoding,
            neuron=self.neuron,
            normalisation=self.normalisation,
            pooling=self.network.pooling,
            dropout=self.network.dropout,
            fall=self.network.fall if self.network.unit == "spike" else 0.0,
            lift=self.network.lift if self.network.unit == "spike" else 0.0,
            input_mean=mean,
            input_std=std,
        )
