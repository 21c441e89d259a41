"""What each augmentation does to a batch."""

import dataclasses
import math
import re

import pytest
import torch

from firstspike.data import Augment, Batches, Dataset
from firstspike.data.apply import apply
from firstspike.data.augment import Column, draw_rows
from firstspike.data.mix import mix
from firstspike.data.move import turn
from firstspike.data.names import named
from firstspike.data.steps import rolled, to_steps
from firstspike.data.thin import hashed_uniform
from firstspike.data.trivial import OPERATIONS, trivial
from firstspike.errors import FirstspikeError

COUNT = 400


def rows(augment: Augment = Augment(), count: int = COUNT) -> torch.Tensor:  # noqa: B008 (frozen)
    return draw_rows(augment, count, seed=0, epoch=0)


def images(channels: int = 3, height: int = 12, width: int = 10) -> torch.Tensor:
    return torch.randint(0, 256, (COUNT, channels, height, width)).to(torch.uint8)


def test_crop_moves_by_at_most_its_padding_and_fills_with_black() -> None:
    raw = images()
    result = apply(raw, rows(), Augment(crop=2), False)
    padded = torch.nn.functional.pad(raw.float() / 255, (2, 2, 2, 2))
    windows = [padded[:, :, y : y + 12, x : x + 10] for y in range(5) for x in range(5)]
    matches = torch.stack([(window == result).flatten(1).all(1) for window in windows])
    assert matches.any(0).all()
    assert matches.any(1).all()  # every offset occurs


def test_flip_mirrors_about_half_of_the_images() -> None:
    raw = images()
    result = apply(raw, rows(), Augment(flip=True), False) * 255
    mirrored = (result == raw.flip(3)).flatten(1).all(1)
    assert ((result == raw).flatten(1).all(1) | mirrored).all()
    assert 0.4 < mirrored.float().mean() < 0.6


def test_cutout_blanks_a_square_with_the_images_mean() -> None:
    raw = images(height=16, width=16)
    result = apply(raw, rows(), Augment(cutout=5), False)
    plain = raw.float() / 255
    changed = (result != plain).any(1)
    mean = plain.mean((2, 3), keepdim=True).expand_as(plain)
    assert torch.equal(result[changed[:, None].expand_as(result)], mean[changed[:, None].expand_as(result)])
    assert changed.any(2).sum(1).max() == 5
    assert changed.any(1).sum(1).max() == 5
    assert changed.any(1).any(0).all()
    assert changed.any(2).any(0).all()  # it reaches every row and column


def test_erasing_spares_the_share_it_should() -> None:
    raw = images(height=20, width=20)
    changed = (
        (apply(raw, rows(), Augment(erase=0.3), False) != raw.float() / 255).any(1).flatten(1).float().mean(1)
    )
    assert 0.2 < (changed > 0).float().mean() < 0.4
    assert changed.max() < 0.4


def test_shift_and_scale_move_all_steps_alike_and_invent_no_pixel() -> None:
    still = torch.randint(0, 9, (COUNT, 1, 2, 16, 16)).to(torch.uint8).expand(-1, 4, -1, -1, -1)
    result = apply(still.flatten(1, 2), rows(), Augment(shift=3, scale=0.2), True).view(COUNT, 4, 2, 16, 16)
    assert (result == result[:, :1]).all()
    assert result.max() <= 8
    assert not torch.equal(result, still.float())


def test_the_largest_scale_reads_from_a_larger_or_a_smaller_area() -> None:
    ramp = torch.arange(100).to(torch.uint8).expand(2, 1, 100, 100)
    extremes = rows()[:2].clone()
    extremes[:, Column.SCALE] = torch.tensor([0.0, 1.0])
    shrunk, grown = apply(ramp, extremes, Augment(scale=0.2), True)[:, 0, 50]
    assert shrunk[0] == 0
    assert shrunk[11] > 0  # ten columns of border on each side
    assert grown[0] == pytest.approx(10, abs=1)
    assert grown[99] == pytest.approx(89, abs=1)


def test_dropping_keeps_the_expected_share_of_events_and_adds_none() -> None:
    counts = torch.randint(0, 4, (COUNT, 8, 16, 16)).to(torch.uint8)
    drawn = rows()
    result = apply(counts, drawn, Augment(drop=0.8), True)
    assert (result <= counts).all()
    assert (result >= 0).all()
    kept = result.flatten(1).sum(1) / counts.flatten(1).sum(1)
    torch.testing.assert_close(kept, 1 - 0.8 * drawn[:, Column.DROP], atol=0.06, rtol=0)


def test_hashed_numbers_are_uniform_and_unlike_from_seed_to_seed() -> None:
    numbers = hashed_uniform(torch.arange(64), 4096)
    assert numbers.min() >= 0
    assert numbers.max() < 1
    assert numbers.mean().item() == pytest.approx(0.5, abs=0.005)
    assert numbers.var().item() == pytest.approx(1 / 12, abs=0.002)
    assert torch.corrcoef(numbers)[~torch.eye(64, dtype=torch.bool)].abs().max() < 0.1


def test_mixup_blends_by_its_share() -> None:
    one, other = torch.rand(COUNT, 3, 8, 8), torch.rand(COUNT, 3, 8, 8)
    augment = Augment(mixup=0.5)
    mixed, share = mix(one, other, rows(augment), augment)
    torch.testing.assert_close(mixed, share.view(-1, 1, 1, 1) * one + (1 - share.view(-1, 1, 1, 1)) * other)
    assert share.mean().item() == pytest.approx(0.5, abs=0.08)


def test_cutmix_pastes_and_its_share_is_the_area_that_is_left() -> None:
    one, other = torch.zeros(COUNT, 1, 16, 16), torch.ones(COUNT, 1, 16, 16)
    augment = Augment(cutmix=1.0)
    mixed, share = mix(one, other, rows(augment), augment)
    assert set(mixed.unique().tolist()) == {0.0, 1.0}
    torch.testing.assert_close(1 - mixed.mean((1, 2, 3)), share)


def test_both_mixes_share_the_samples() -> None:
    augment = Augment(mixup=1.0, cutmix=1.0)
    mixed, _ = mix(torch.zeros(COUNT, 1, 16, 16), torch.ones(COUNT, 1, 16, 16), rows(augment), augment)
    pasted = ((mixed == 0) | (mixed == 1)).flatten(1).all(1).float().mean()
    assert 0.4 < pasted < 0.6


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_each_operation_keeps_to_the_range_and_does_something(operation: str, channels: int) -> None:
    pictures = torch.rand(6, channels, 12, 10) * 0.8
    drawn = rows(count=6)
    drawn[:, Column.TRIVIAL] = (OPERATIONS.index(operation) + 0.5) / len(OPERATIONS)
    drawn[:, Column.TRIVIAL_STRENGTH] = 0.7
    result = trivial(pictures, drawn)
    assert result.min() >= 0
    assert result.max() <= 1
    unchanged = operation == "identity" or (operation == "colour" and channels == 1)
    assert torch.allclose(result, pictures, atol=1e-6) == unchanged


def test_operations_of_no_strength_change_nothing_but_the_two_that_have_none() -> None:
    pictures = (torch.randint(0, 256, (COUNT, 3, 12, 10)).float() / 255).clamp(max=250 / 255)
    drawn = rows()
    drawn[:, Column.TRIVIAL_STRENGTH] = 0
    changed = (trivial(pictures, drawn) - pictures).abs().flatten(1).amax(1) > 1e-5
    names = [OPERATIONS[int(number)] for number in (drawn[:, Column.TRIVIAL] * len(OPERATIONS)).floor()]
    assert {name for name, moved in zip(names, changed, strict=True) if moved} <= {"autocontrast", "equalize"}


def test_a_rotation_by_a_right_angle_is_one() -> None:
    pictures = torch.rand(1, 3, 9, 9)
    drawn = rows(count=1)
    drawn[:, Column.TRIVIAL] = (OPERATIONS.index("rotate") + 0.5) / len(OPERATIONS)
    drawn[:, Column.TRIVIAL_STRENGTH] = 90 / 135
    turned = trivial(pictures, drawn)
    assert any(torch.allclose(turned, pictures.rot90(k, (2, 3)), atol=1e-4) for k in (1, 3))


def test_pictures_turn_by_at_most_the_angle_given() -> None:
    picture = torch.rand(2, 3, 9, 9)
    drawn = rows(count=2)
    drawn[:, Column.ROTATE] = torch.tensor([0.0, 1.0])
    one, other = turn(picture, drawn, 90, is_events=False)
    turned = {k for k in (1, 3) if torch.allclose(one, picture[0].rot90(k, (1, 2)), atol=1e-4)}
    back = {k for k in (1, 3) if torch.allclose(other, picture[1].rot90(k, (1, 2)), atol=1e-4)}
    assert len(turned | back) == 2
    drawn[:, Column.ROTATE] = 0.5
    torch.testing.assert_close(turn(picture, drawn, 90, is_events=False), picture)


def test_turning_events_moves_all_steps_alike_and_invents_no_count(gestures: Dataset) -> None:
    batch = next(Batches(gestures, 8, seed=0, augment=Augment(rotate=20)).epoch(0)).images
    assert set(batch.unique().tolist()) <= set(gestures.images.unique().tolist())
    still = torch.full((1, 4, 8, 8), 3.0) * torch.rand(1, 1, 8, 8).round()
    moved = turn(still, rows(count=1), 30, is_events=True)
    assert all(torch.equal(moved[0, 0], frame) for frame in moved[0])


def test_a_blank_image_survives_every_operation() -> None:
    for value in (0.0, 1.0):
        result = trivial(torch.full((COUNT, 3, 8, 8), value), rows())
        assert torch.isfinite(result).all()


def test_switching_one_augmentation_on_leaves_the_others_as_they_were(pictures: Dataset) -> None:
    crop = next(Batches(pictures, 50, seed=0, augment=Augment(crop=2)).epoch(0)).images
    both = next(Batches(pictures, 50, seed=0, augment=Augment(crop=2, cutout=2)).epoch(0)).images
    assert (crop == both).float().mean() > 0.9


def test_every_augmentation_is_off_by_default_and_explained() -> None:
    assert not Augment().any
    for field in dataclasses.fields(Augment):
        assert not field.default


@pytest.mark.parametrize(
    "wrong",
    [
        {"crop": -1},
        {"erase": 1.5},
        {"drop": 2.0},
        {"scale": 1.0},
        {"mixup": -0.1},
        {"cutmix": float("inf")},
        {"erase": float("nan")},
    ],
)
def test_impossible_strengths_are_refused(wrong) -> None:
    with pytest.raises(FirstspikeError, match=f"augmentation {next(iter(wrong))} is"):
        Augment(**wrong)


def test_events_have_no_colour(gestures: Dataset) -> None:
    with pytest.raises(FirstspikeError, match="no colour"):
        Batches(gestures, 8, seed=0, augment=Augment(trivial=True))


def test_a_rolled_recording_begins_elsewhere_and_keeps_its_events() -> None:
    stored = torch.arange(1, 9, dtype=torch.uint8).view(1, 8, 1, 1, 1).repeat(3, 1, 2, 4, 4)
    drawn = rows(count=3)
    drawn[:, Column.ROLL] = torch.tensor([0.0, 0.5, 0.9999])
    begun = to_steps(rolled(stored, drawn, 0.5), parts=2)[:, :, 0, 0, 0]
    assert begun.tolist() == [[3, 7, 11, 15], [7, 11, 15, 3], [9, 13, 9, 5]]
    assert to_steps(rolled(stored, drawn, 0.0), parts=2)[:, :, 0, 0, 0].tolist() == [[3, 7, 11, 15]] * 3


def test_fading_weighs_events_by_their_age_and_by_1_on_average() -> None:
    stored = torch.zeros(1, 6, 2, 1, 1, dtype=torch.uint8)
    stored[0, 1, 0], stored[0, 2, 0], stored[0, 5, 1] = 1, 1, 4
    counts = to_steps(stored, parts=3)
    both = to_steps(stored, parts=3, fade=0.5)
    assert both[:, :, :2].equal(counts.float())
    early, late = both[0, 0, 2, 0, 0].item(), both[0, 1, 3, 0, 0].item()
    weights = [math.exp(-age / 0.5) for age in (2.5 / 3, 1.5 / 3, 0.5 / 3)]
    mean = sum(weights) / 3
    assert early == pytest.approx((weights[1] + weights[2]) / mean)
    assert late == pytest.approx(4 * weights[2] / mean)
    everywhere = to_steps(torch.ones_like(stored), parts=3, fade=0.1)
    assert everywhere.flatten().tolist() == pytest.approx([3.0] * 8)


def test_thinning_weighed_events_keeps_their_share() -> None:
    values = torch.cat((torch.full((COUNT, 2, 8, 8), 0.3), torch.full((COUNT, 2, 8, 8), 7.5)), 1)
    drawn = rows()
    result = apply(values, drawn, Augment(drop=0.8), True)
    kept = 1 - 0.8 * drawn[:, Column.DROP]
    assert result[:, 2:].allclose(7.5 * kept[:, None, None, None].expand(-1, 2, 8, 8))
    few = result[:, :2]
    assert set(few.unique().tolist()) <= {0.0, values[0, 0, 0, 0].item()}
    assert ((few > 0).float().mean((1, 2, 3)) - kept).abs().max() < 0.2


def test_a_mirrored_gesture_gets_the_label_that_it_then_has(gestures: Dataset) -> None:
    mirrored = dataclasses.replace(gestures, mirrored=(1, 0, 2))
    plain = next(Batches(gestures, 32, seed=0, augment=Augment(flip=True)).epoch(0))
    swapped = next(Batches(mirrored, 32, seed=0, augment=Augment(flip=True)).epoch(0))
    assert plain.images.equal(swapped.images)
    turned = torch.tensor(
        [not (image == gestures.images).flatten(1).all(1).any() for image in plain.images.transpose(0, 1)]
    )
    assert 0 < turned.sum() < 32
    wanted = torch.where(turned, torch.tensor([1, 0, 2])[plain.labels], plain.labels)
    assert swapped.labels.equal(wanted)
    assert swapped.other_labels.equal(wanted)


def test_the_mirror_of_dvs_gesture_swaps_sides_and_directions() -> None:
    entry = named("dvs-gesture")
    words = {
        "right": "left",
        "left": "right",
        "counter_clockwise": "clockwise",
        "clockwise": "counter_clockwise",
    }
    for label, other in enumerate(entry.mirrored):
        assert entry.mirrored[other] == label
        swapped = re.sub(
            "right|left|counter_clockwise|clockwise", lambda found: words[found[0]], entry.classes[label]
        )
        assert entry.classes[other] == swapped
