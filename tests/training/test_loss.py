"""Each loss term against its plain formula."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from firstspike.errors import FirstspikeError
from firstspike.functional import spikes_at, temporal_weights
from firstspike.models import build
from firstspike.nn import Neuron, Output
from firstspike.training.loss import (
    Decoder,
    Loss,
    distillation,
    logits_loss,
    mixed_threshold_loss,
    soft_target,
    spiking_loss,
    threshold_loss,
)
from tests.training.small import a_batch

T, B, C = 5, 6, 4


@pytest.fixture
def labels() -> Tensor:
    return torch.randint(C, (B,))


@pytest.fixture
def output() -> Output:
    """As training makes it: T spikes, of which the last is forced, and T-1 membranes."""
    return Output(spikes_at(torch.randint(T, (B, C), dtype=torch.uint8), T), torch.randn(T - 1, B, C))


def softplus(value: float) -> float:
    return math.log1p(math.exp(-abs(value))) + max(value, 0.0)


def test_threshold_loss_is_the_formula_written_as_a_loop(labels: Tensor) -> None:
    z = 3 * torch.randn(T, B, C, dtype=torch.float64)
    expected = torch.zeros(T, B, dtype=torch.float64)
    for t in range(T):
        for b in range(B):
            label = int(labels[b])
            others = sum(math.exp(z[t, b, c]) for c in range(C) if c != label)
            expected[t, b] = softplus(-float(z[t, b, label])) + softplus(math.log(others))
    torch.testing.assert_close(threshold_loss(z, labels), expected)


def test_threshold_loss_of_a_mixed_sample_weighs_both_labels(labels: Tensor) -> None:
    batch, z = a_batch(labels, mixed=True), torch.randn(T, B, C)
    one, other = threshold_loss(z, batch.labels), threshold_loss(z, batch.other_labels)
    expected = (batch.share * one + (1 - batch.share) * other).mean()
    torch.testing.assert_close(mixed_threshold_loss(z, batch), expected)


def test_a_sample_mixed_with_its_own_kind_is_not_mixed(labels: Tensor) -> None:
    z = torch.randn(T, B, C)
    halves = a_batch(labels)._replace(other_labels=labels.clone(), share=torch.full((B,), 0.3))
    torch.testing.assert_close(mixed_threshold_loss(z, halves), mixed_threshold_loss(z, a_batch(labels)))


@pytest.mark.parametrize("first_step", [0, 2])
@pytest.mark.parametrize("threshold", [1.0, torch.tensor([0.5, 1.0, 1.5, 2.0])], ids=["one", "per channel"])
def test_the_threshold_term_takes_the_steps_from_first_step_on(
    first_step: int, threshold: Any, output: Output, labels: Tensor
) -> None:
    loss = Loss(mse=0, threshold=0.7, sharpness=3.0, first_step=first_step)
    z = 3.0 * (output.membrane - threshold)[first_step:]
    expected = 0.7 * threshold_loss(z, labels).mean()
    found = spiking_loss(output, a_batch(labels), loss, Decoder(), threshold, None)
    torch.testing.assert_close(found, expected)


def test_the_forced_step_is_left_out_where_the_membrane_has_it(output: Output, labels: Tensor) -> None:
    whole = output._replace(membrane=torch.cat([output.membrane, torch.full((1, B, C), 100.0)]))
    loss = Loss(mse=0, threshold=1, membrane=1)
    one, other = (
        spiking_loss(given, a_batch(labels), loss, Decoder(), 1.0, None) for given in (output, whole)
    )
    assert torch.equal(one, other)


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_squared_error_and_cross_entropy_on_the_decoder(
    mixed: bool, smoothing: float, output: Output, labels: Tensor
) -> None:
    batch = a_batch(labels, mixed)
    loss = Loss(mse=2.0, cross_entropy=0.5, temperature=3.0, label_smoothing=smoothing)
    weights, squared, entropy = temporal_weights(T), 0.0, 0.0
    for b in range(B):
        decoded = [sum(float(weights[t] * output.spikes[t, b, c]) for t in range(T)) for c in range(C)]
        total = sum(math.exp(3 * value) for value in decoded)
        share, one, two = float(batch.share[b]), int(batch.labels[b]), int(batch.other_labels[b])
        for c in range(C):
            target = (1 - smoothing) * (share * (c == one) + (1 - share) * (c == two)) + smoothing / C
            squared += (decoded[c] - target) ** 2 / B
            entropy -= target * math.log(math.exp(3 * decoded[c]) / total) / B
    found = spiking_loss(output, batch, loss, Decoder(), 1.0, None)
    assert found.item() == pytest.approx(2 * squared + 0.5 * entropy, rel=1e-4)


def test_membrane_term_is_cross_entropy_on_the_mean(output: Output, labels: Tensor) -> None:
    found = spiking_loss(output, a_batch(labels), Loss(mse=0, membrane=1), Decoder(), 1.0, None)
    probabilities = output.membrane.mean(0).softmax(1)
    torch.testing.assert_close(found, -probabilities[torch.arange(B), labels].log().mean())


def test_terms_add_up(output: Output, labels: Tensor) -> None:
    teacher = torch.randn(B, C)

    def of(**weights: float) -> Tensor:
        loss = Loss(**{"mse": 0.0, **weights})  # type: ignore[arg-type]
        return spiking_loss(output, a_batch(labels), loss, Decoder(), 1.0, teacher)

    parts = {"mse": 0.3, "cross_entropy": 0.5, "membrane": 0.7, "threshold": 1.1, "distil": 1.3}
    torch.testing.assert_close(of(**parts), sum(of(**{name: weight}) for name, weight in parts.items()))


def test_targets_are_probabilities(labels: Tensor) -> None:
    target = soft_target(a_batch(labels, mixed=True), C, 0.1)
    torch.testing.assert_close(target.sum(1), torch.ones(B))
    assert target.min() >= 0.1 / C - 1e-7


def test_distillation_is_nothing_from_itself_and_something_from_another() -> None:
    logits, teacher = torch.randn(B, C), torch.randn(B, C)
    torch.testing.assert_close(distillation(logits, logits + 3, 4.0), torch.tensor(0.0), atol=1e-5, rtol=0)
    p, q = (teacher / 2).softmax(1), (logits / 2).softmax(1)
    torch.testing.assert_close(distillation(logits, teacher, 2.0), 4 * (p * (p / q).log()).sum(1).mean())


def test_a_teacher_of_other_classes_is_refused() -> None:
    with pytest.raises(FirstspikeError, match=r"10 classes apart, but the network being trained 4"):
        distillation(torch.zeros(2, 4), torch.zeros(2, 10), 1.0)


def test_a_twin_takes_cross_entropy(labels: Tensor) -> None:
    logits = torch.randn(B, C)
    expected = -logits.log_softmax(1)[torch.arange(B), labels].mean()
    torch.testing.assert_close(logits_loss(logits, a_batch(labels), Loss(), None), expected)


@pytest.mark.parametrize(
    "loss",
    [
        Loss(),
        Loss(mse=0, cross_entropy=1, temperature=4),
        Loss(mse=0, membrane=1),
        Loss(mse=0, threshold=1),
        Loss(mse=0, distil=1),
    ],
    ids=["mse", "cross-entropy", "membrane", "threshold", "distil"],
)
@pytest.mark.parametrize(
    "decoder", [Decoder(), Decoder(decay="exponential", gamma=2), Decoder("first-spike")]
)
def test_gradients_reach_every_parameter(loss: Loss, decoder: Decoder) -> None:
    neuron = Neuron(learn_threshold="channel")
    net = build("C4K3-P2-FC16-FC16-FC4", (1, 8, 8), T=6, neuron=neuron)
    output = net(torch.rand(16, 1, 8, 8))
    threshold = net.readout.neuron.threshold_for(output.membrane)
    teacher = torch.randn(16, 4)
    spiking_loss(output, a_batch(torch.randint(4, (16,))), loss, decoder, threshold, teacher).backward()  # type: ignore[no-untyped-call]
    for name, parameter in net.named_parameters():
        blind = name.startswith("layers.4.neuron") and (loss.membrane or loss.distil)
        assert blind or (parameter.grad is not None and parameter.grad.abs().max() > 0), name


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"mse": 0.0}, "at least one"),
        ({"mse": -1.0}, "not be negative"),
        ({"label_smoothing": 1.0}, "label_smoothing"),
    ],
)
def test_bad_losses_are_refused(wrong: dict[str, float], words: str) -> None:
    with pytest.raises(FirstspikeError, match=words):
        Loss(**wrong)  # type: ignore[arg-type]
