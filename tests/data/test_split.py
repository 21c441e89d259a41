"""Held-out samples and the statistics of a set."""

from dataclasses import replace

import pytest
import torch

from firstspike.data import Dataset, hold_out, load, standardisation
from firstspike.errors import FirstspikeError


def test_the_validation_split_is_class_balanced_and_fixed_by_its_seed() -> None:
    sample = load("fashion-mnist-sample")
    train, validation = hold_out(sample, 500, seed=3)
    assert validation.labels.bincount().tolist() == [50] * 10
    assert train.labels.bincount().tolist() == [450] * 10
    again = hold_out(sample, 0.1, seed=3)[1]
    assert again.images.equal(validation.images)
    assert not hold_out(sample, 500, seed=4)[1].images.equal(validation.images)
    assert validation.split == "validation, 500 held out of train by seed 3"


def test_nothing_is_lost_or_doubled(pictures: Dataset) -> None:
    train, validation = hold_out(pictures, 0.3, seed=0)
    assert len(validation) == 29
    both = torch.cat([train.images, validation.images]).flatten(1).tolist()
    assert sorted(both) == sorted(pictures.images.flatten(1).tolist())
    share = validation.labels.bincount() / pictures.labels.bincount()
    assert (share - 0.3).abs().max() < 0.03


@pytest.mark.parametrize("wrong", [0, 97, 0.0, 1.0, -5])
def test_impossible_counts_are_refused(pictures: Dataset, wrong: float) -> None:
    with pytest.raises(FirstspikeError, match="cannot be held out"):
        hold_out(pictures, wrong, seed=0)


def test_standardisation_is_the_mean_and_spread_of_each_channel(pictures: Dataset) -> None:
    mean, std = standardisation(pictures)
    values = pictures.images.double().transpose(0, 1).flatten(1) / 255
    torch.testing.assert_close(torch.tensor(mean).double(), values.mean(1), atol=1e-6, rtol=0)
    torch.testing.assert_close(torch.tensor(std).double(), values.std(1, unbiased=False), atol=1e-6, rtol=0)


def test_events_go_in_as_they_are_and_a_flat_channel_is_not_divided_by_zero(gestures: Dataset) -> None:
    assert standardisation(gestures) == ((0.0, 0.0), (1.0, 1.0))
    flat = Dataset(
        "flat", "all", torch.full((4, 1, 2, 2), 51, dtype=torch.uint8), torch.zeros(4).long(), ("a",)
    )
    assert standardisation(flat) == ((0.2,), (1.0,))


def test_a_data_set_is_described_in_a_line(pictures: Dataset) -> None:
    assert repr(pictures) == "Dataset('noise', 'train, 97 samples', uint8 [97, 3, 12, 10], 3 classes)"


def test_a_data_set_refuses_what_does_not_fit_together() -> None:
    images, labels = torch.zeros(2, 1, 4, 4, dtype=torch.uint8), torch.tensor([0, 1])
    for wrong in (
        (images[0, 0], labels),
        (images.float(), labels),
        (images, labels[:1]),
        (images, labels.float()),
        (images, labels + 1),
        (images[:0], labels[:0]),
    ):
        with pytest.raises(FirstspikeError, match=r"^mine \(test\): .* expected"):
            Dataset("mine", "test", *wrong, ("a", "b"))


@pytest.mark.parametrize("fade", [-0.1, float("nan"), float("inf")])
def test_fading_is_a_share_of_a_step_and_not_for_images(
    pictures: Dataset, gestures: Dataset, fade: float
) -> None:
    with pytest.raises(FirstspikeError, match=f"fade is {fade}; expected a share"):
        replace(gestures, fade=fade)
    with pytest.raises(FirstspikeError, match=r"fade is 0\.1; expected a share of a step, or 0 for images"):
        replace(pictures, fade=0.1)


def test_the_last_samples_can_be_held_out_as_they_are_stored(pictures: Dataset) -> None:
    train, validation = hold_out(pictures, 20, seed=0, in_a_row=True)
    assert validation.images.equal(pictures.images[-20:])
    assert train.labels.equal(pictures.labels[:-20])
    assert validation.split == "validation, 20 held out of train from its end"


def test_blocks_in_a_row_hold_everyone_out_once(pictures: Dataset) -> None:
    """All but the first, when their size does not divide the set."""
    held = []
    for seed in range(4):
        train, validation = hold_out(pictures, 20, seed, in_a_row=True)
        assert len(train) == 77
        assert not {*map(bytes, train.images.numpy())} & {*map(bytes, validation.images.numpy())}
        held.append(validation.images)
    assert torch.cat(held[::-1]).equal(pictures.images[-80:])
    for wrong in (4, -1):
        with pytest.raises(FirstspikeError, match=f"the validation seed is {wrong}; .* from 0 to 3"):
            hold_out(pictures, 20, wrong, in_a_row=True)
