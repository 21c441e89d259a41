"""Decoders, and the answer of a network."""

import pytest
import torch
from torch import Tensor

from firstspike.errors import FirstspikeError
from firstspike.functional import (
    Prediction,
    first_spike,
    mean_membrane,
    predict,
    spikes_at,
    temporal_weighting,
    temporal_weights,
)


def test_exponential_and_linear_weights_by_hand() -> None:
    assert temporal_weights(4, "exponential", 2.0).tolist() == [1, 0.5, 0.25, 0.125]
    assert temporal_weights(4, "linear", 3.0).tolist() == [3, 2.25, 1.5, 0.75]
    assert temporal_weights(1).tolist() == [1]


def test_temporal_weighting_gives_a_spike_the_weight_of_its_step() -> None:
    times = torch.tensor([[0, 1, 2, 3]], dtype=torch.uint8)  # the last is silent
    weights = torch.tensor([5.0, 3.0, 2.0])
    assert temporal_weighting(spikes_at(times, 3), weights).tolist() == [[5, 3, 2, 0]]


def test_the_first_spike_decoder_is_minus_the_time() -> None:
    times = torch.tensor([[0, 1, 2, 3], [3, 3, 0, 1]], dtype=torch.uint8)
    assert first_spike(spikes_at(times, 3)).tolist() == [[0, -1, -2, -3], [-3, -3, 0, -1]]


def test_decoders_pass_on_gradients() -> None:
    spikes = spikes_at(torch.tensor([[0, 2]], dtype=torch.uint8), 3).requires_grad_()
    (first_spike(spikes)[0, 1] + temporal_weighting(spikes, torch.tensor([1.0, 4.0, 9.0]))[0, 0]).backward()
    assert spikes.grad is not None
    assert spikes.grad[:, 0].tolist() == [[1, 3], [4, 2], [9, 1]]


def test_the_membrane_decoder_averages_over_steps() -> None:
    membrane = torch.tensor([[[1.0, 2.0]], [[3.0, -2.0]]])
    assert mean_membrane(membrane).tolist() == [[2, 0]]


def test_unknown_decays_and_wrong_lengths_are_refused() -> None:
    with pytest.raises(FirstspikeError, match=r"'quadratic'.*exponential or linear"):
        temporal_weights(4, "quadratic")  # type: ignore[arg-type]
    with pytest.raises(FirstspikeError, match="4 temporal weights, but the output has 3 steps"):
        temporal_weighting(torch.zeros(3, 1, 2), temporal_weights(4))
    with pytest.raises(FirstspikeError, match=r"T must be between 1 and 255.*not 0"):
        temporal_weights(0)


def case(times: list[int], membrane: list[list[float]], ties: str) -> tuple[int, int, bool, bool]:
    """The answer for one sample, as plain values."""
    answer = predict(
        torch.tensor([times], dtype=torch.uint8),
        torch.tensor(membrane)[:, None],
        ties,  # type: ignore[arg-type]
    )
    return tuple(field.item() for field in answer)  # type: ignore[return-value]


MEMBRANE = [[0.1, 0.2, 0.3], [1.1, 1.4, 0.5], [0.2, 0.4, 0.8]]


@pytest.mark.parametrize(
    ("times", "strict", "potential"),
    [
        # times of three classes over T = 3 -> (label, steps, tied, silent)
        ([2, 0, 1], (1, 1, False, False), (1, 1, False, False)),
        ([1, 1, 3], (0, 2, True, False), (1, 2, True, False)),  # 1.4 > 1.1 at step 1
        ([0, 0, 0], (0, 1, True, False), (2, 1, True, False)),
        ([2, 3, 3], (0, 3, False, False), (0, 3, False, False)),  # not the highest, but the only one
        ([3, 3, 3], (0, 3, False, True), (2, 3, False, True)),  # silent: class 0, or the highest at the end
    ],
)
def test_answers_by_hand(times: list[int], strict: tuple, potential: tuple) -> None:
    assert case(times, MEMBRANE, "strict") == strict
    assert case(times, MEMBRANE, "potential") == potential


def test_among_tied_classes_a_higher_membrane_elsewhere_does_not_count() -> None:
    """Class 2 is highest at the step of the tie, but has not fired: its threshold may differ."""
    assert case([0, 0, 2], [[1.0, 1.2, 9.0]] * 3, "potential")[0] == 1


def test_a_batch_is_answered_sample_by_sample() -> None:
    times = torch.randint(0, 6, (40, 4)).to(torch.uint8)
    membrane = torch.randn(5, 40, 4)
    for ties in ("strict", "potential"):
        whole = predict(times, membrane, ties)  # type: ignore[arg-type]
        for i in range(40):
            alone = predict(times[i : i + 1], membrane[:, i : i + 1], ties)  # type: ignore[arg-type]
            assert [field[0] for field in alone] == [field[i] for field in whole]


def test_strict_is_the_argmax_of_every_decaying_decoder() -> None:
    times = torch.randint(0, 6, (200, 4)).to(torch.uint8)
    spikes = spikes_at(times, 5)
    label = predict(times, torch.zeros(5, 200, 4)).label
    assert torch.equal(label, temporal_weighting(spikes, temporal_weights(5)).argmax(1))
    assert torch.equal(label, first_spike(spikes).argmax(1))


def test_types_of_an_answer() -> None:
    answer: Prediction = predict(torch.zeros(2, 3, dtype=torch.uint8), torch.rand(4, 2, 3))
    dtypes: list[torch.dtype] = [field.dtype for field in answer if isinstance(field, Tensor)]
    assert dtypes == [torch.int64, torch.int64, torch.bool, torch.bool]


def test_an_unknown_tie_rule_is_refused() -> None:
    with pytest.raises(FirstspikeError, match=r"'random'.*strict or potential"):
        predict(torch.zeros(1, 2, dtype=torch.uint8), torch.zeros(1, 1, 2), "random")  # type: ignore[arg-type]
