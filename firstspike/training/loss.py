"""What training minimises: a weighted sum of terms on the output's spikes and membranes."""

import functools
from dataclasses import dataclass
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from firstspike.data import Batch
from firstspike.errors import FirstspikeError
from firstspike.functional.decoding import (
    Decay,
    first_spike,
    mean_membrane,
    temporal_weighting,
    temporal_weights,
)
from firstspike.nn import Output

DecoderKind = Literal["temporal", "first-spike"]


@dataclass(frozen=True)
class Decoder:
    """From output spikes to logits."""

    kind: DecoderKind = "temporal"
    """Temporal weighting, or minus the first spike time (our stand-in for TQ-TTFS)."""
    decay: Decay = "linear"
    """How the temporal weights fall over the steps."""
    gamma: float = 1.0
    """Scale (linear) or base (exponential) of the temporal weights."""

    def __post_init__(self) -> None:
        if self.kind not in get_args(DecoderKind) or self.decay not in get_args(Decay):
            raise FirstspikeError(
                f"Unknown decoder {self.kind!r} with decay {self.decay!r}: choose temporal or first-spike, and "
                "exponential or linear."
            )
        if not self.gamma > 0:
            raise FirstspikeError(f"The decoder's gamma must be positive, not {self.gamma}.")

    def __call__(self, spikes: Tensor) -> Tensor:
        """Logits `[B, C]` of output spikes `[T, B, C]`."""
        if self.kind == "first-spike":
            return first_spike(spikes)
        weights = _weights_on(spikes.device, len(spikes), self.decay, self.gamma)
        return temporal_weighting(spikes, weights)


@functools.lru_cache
def _weights_on(device: torch.device, T: int, decay: Decay, gamma: float) -> Tensor:
    """The temporal weights, brought to the device once: a copy at every step would wait for it."""
    return temporal_weights(T, decay, gamma).to(device)


@dataclass(frozen=True)
class Loss:
    """Weights of the terms (0 leaves one out) and their settings."""

    mse: float = 1.0
    """Squared error between the decoded output and the one-hot target, summed over the classes."""
    cross_entropy: float = 0.0
    """Cross-entropy on the decoded output."""
    temperature: float = 1.0
    """What the decoded output is multiplied by before its cross-entropy."""
    membrane: float = 0.0
    """Cross-entropy on the output's mean membrane potential."""
    threshold: float = 0.0
    """Threshold loss: at every step the label's membrane above the threshold, all others below it."""
    sharpness: float = 2.0
    """Steepness k of the threshold loss, z = k (H - V)."""
    first_step: int = 0
    """First step that the threshold loss looks at, so that earlier ones may wait."""
    label_smoothing: float = 0.0
    """Share of the target spread over all classes (mse and the cross-entropies)."""
    distil: float = 0.0
    """Divergence of the softened answer from the teacher's, at every step; a spiking network's answer is its
    membrane times the sharpness."""
    distil_temperature: float = 4.0
    """What both are divided by there."""

    def __post_init__(self) -> None:
        weights = (self.mse, self.cross_entropy, self.membrane, self.threshold, self.distil)
        if min(weights) < 0 or not any(weights):
            raise FirstspikeError("Loss weights must not be negative, and at least one must be positive.")
        if not 0 <= self.label_smoothing < 1:
            raise FirstspikeError(f"label_smoothing lies in [0, 1), not {self.label_smoothing}.")


def spiking_loss(
    output: Output,
    batch: Batch,
    loss: Loss,
    decoder: Decoder,
    threshold: float | Tensor,
    teacher: Tensor | None,
) -> Tensor:
    """The loss of a spiking network's output, one number.

    Args:
        threshold: V of the output neurons, broadcasting against the membrane `[T-1, B, C]`.
        teacher: logits `[B, C]`, where the loss distils.
    """
    membrane = output.membrane[: len(output.spikes) - 1]  # the last step is forced, whatever its membrane
    total = output.spikes.new_zeros(())
    target = soft_target(batch, output.spikes.shape[2], loss.label_smoothing)
    if loss.mse or loss.cross_entropy:
        decoded = decoder(output.spikes)
    if loss.mse:
        total = total + loss.mse * (decoded - target).square().sum(1).mean()
    if loss.cross_entropy:
        total = total + loss.cross_entropy * F.cross_entropy(loss.temperature * decoded, target)
    if loss.membrane:
        total = total + loss.membrane * F.cross_entropy(mean_membrane(membrane), target)
    if loss.threshold:
        overdrive = loss.sharpness * (membrane - threshold)[loss.first_step :]
        total = total + loss.threshold * mixed_threshold_loss(overdrive, batch)
    if loss.distil and teacher is not None:
        answers = (loss.sharpness * membrane).flatten(0, 1)
        wanted = teacher.repeat(len(membrane), 1)
        total = total + loss.distil * distillation(answers, wanted, loss.distil_temperature)
    return total


def logits_loss(logits: Tensor, batch: Batch, loss: Loss, teacher: Tensor | None) -> Tensor:
    """The loss of a ReLU twin: cross-entropy, and distillation where asked for."""
    target = soft_target(batch, logits.shape[1], loss.label_smoothing)
    total = F.cross_entropy(logits, target)
    if loss.distil and teacher is not None:
        total = total + loss.distil * distillation(logits, teacher, loss.distil_temperature)
    return total


def rate_loss(rates: Tensor, batch: Batch, loss: Loss) -> Tensor:
    """The loss of a rate-coded network: squared error or cross-entropy on its firing rates `[B, C]`."""
    target = soft_target(batch, rates.shape[1], loss.label_smoothing)
    total = loss.mse * (rates - target).square().sum(1).mean()
    if loss.cross_entropy:
        total = total + loss.cross_entropy * F.cross_entropy(loss.temperature * rates, target)
    return total


def soft_target(batch: Batch, classes: int, smoothing: float) -> Tensor:
    """The target as probabilities `[B, C]`: both labels of a mixed sample, smoothed."""
    share = batch.share[:, None]
    target = share * F.one_hot(batch.labels, classes) + (1 - share) * F.one_hot(batch.other_labels, classes)
    return (1 - smoothing) * target + smoothing / classes


def mixed_threshold_loss(overdrive: Tensor, batch: Batch) -> Tensor:
    """`threshold_loss` for both labels of each sample, by their shares; the mean over steps and samples."""
    loss = threshold_loss(overdrive, batch.labels)
    if batch.other_labels is batch.labels:
        return loss.mean()
    return (batch.share * loss + (1 - batch.share) * threshold_loss(overdrive, batch.other_labels)).mean()


def threshold_loss(overdrive: Tensor, labels: Tensor) -> Tensor:
    """softplus(-z_label) + softplus(logsumexp of z over the other classes), `[T, B]`.

    `overdrive` is z = k (H - V), `[T, B, C]`. The threshold is treated as one more class: the label above
    it, every other class below it, at every step.
    """
    index = labels.expand(len(overdrive), -1).unsqueeze(2)
    others = overdrive.scatter(2, index, -torch.inf).logsumexp(2)
    return F.softplus(-overdrive.gather(2, index).squeeze(2)) + F.softplus(others)


def distillation(logits: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """Kullback-Leibler divergence from the teacher, both softened, scaled back by the temperature squared."""
    if logits.shape != teacher.shape:
        raise FirstspikeError(
            f"The teacher tells {teacher.shape[1]} classes apart, but the network being trained {logits.shape[1]}: "
            "take a teacher trained on the same classes."
        )
    student = F.log_softmax(logits / temperature, 1)
    wanted = F.log_softmax(teacher / temperature, 1)
    return F.kl_div(student, wanted, reduction="batchmean", log_target=True) * temperature**2
