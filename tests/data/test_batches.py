"""Batches: the same seed, the same samples, however many processes and wherever the epoch is taken up."""

import hashlib
import itertools
import subprocess
import sys

import pytest
import torch

from firstspike.data import Augment, Batch, Batches, Dataset, load
from firstspike.errors import FirstspikeError

HEAVY = Augment(crop=2, flip=True, cutout=3, erase=0.5, mixup=0.4, cutmix=1.0, trivial=True)
EVENTS = Augment(shift=3, scale=0.2, drop=0.5, cutout=3, mixup=0.4, cutmix=1.0)


@pytest.fixture(params=["pictures", "gestures"])
def case(request: pytest.FixtureRequest) -> tuple[Dataset, Augment]:
    """A set and all that may be done to it."""
    return request.getfixturevalue(request.param), HEAVY if request.param == "pictures" else EVENTS


def same(first: Batch, second: Batch) -> bool:
    return all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


def joined(parts: tuple[Batch, ...], is_events: bool) -> Batch:
    images = torch.cat([part.images for part in parts], 1 if is_events else 0)
    return Batch(images, *(torch.cat(each) for each in zip(*(part[1:] for part in parts), strict=True)))


def test_without_augmentation_an_epoch_is_the_whole_set_once(pictures: Dataset) -> None:
    batches = Batches(pictures, 10, seed=0, shuffle=False)
    epoch = list(batches.epoch(0))
    assert len(epoch) == len(batches) == 10
    assert torch.equal(torch.cat([batch.images for batch in epoch]), pictures.images.float() / 255)
    assert torch.equal(torch.cat([batch.labels for batch in epoch]), pictures.labels)
    assert all(torch.equal(batch.other_labels, batch.labels) and (batch.share == 1).all() for batch in epoch)


def test_shuffled_epochs_differ_and_hold_each_sample_once(pictures: Dataset) -> None:
    batches = Batches(pictures, 10, seed=0, drop_last=False)
    first, second = (torch.cat([batch.images for batch in batches.epoch(number)]) for number in (0, 1))
    assert not torch.equal(first, second)
    assert sorted(first.flatten(1).tolist()) == sorted(second.flatten(1).tolist())
    assert len(Batches(pictures, 10, seed=0)) == 9


def test_the_same_seed_gives_the_same_batches_and_another_one_others(case: tuple[Dataset, Augment]) -> None:
    dataset, augment = case
    first, again = (list(Batches(dataset, 8, seed=5, augment=augment).epoch(2)) for _ in range(2))
    assert all(map(same, first, again))
    other = next(Batches(dataset, 8, seed=6, augment=augment).epoch(2))
    assert not torch.equal(first[0].images, other.images)


@pytest.mark.parametrize("mixes", [{"mixup": 0.4}, {"cutmix": 1.0}, {"mixup": 0.4, "cutmix": 1.0}])
def test_once_mixing_is_over_images_are_as_without_it(pictures: Dataset, mixes: dict[str, float]) -> None:
    plain = Batches(pictures, 10, seed=5, augment=Augment(crop=2))
    mixing = Batches(pictures, 10, seed=5, augment=Augment(crop=2, mix_epochs=2, **mixes))
    always = Batches(pictures, 10, seed=5, augment=Augment(crop=2, **mixes))
    assert all(map(same, mixing.epoch(1), always.epoch(1)))
    for batch, expected in zip(mixing.epoch(2), plain.epoch(2), strict=True):
        assert torch.equal(batch.images, expected.images)
        assert torch.equal(batch.labels, expected.labels)
        assert (batch.share == 1).all()


@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize("drop_last", [True, False])
def test_several_processes_see_what_one_sees(
    case: tuple[Dataset, Augment], world: int, drop_last: bool
) -> None:
    dataset, augment = case
    options = {"seed": 1, "augment": augment, "drop_last": drop_last}
    alone = Batches(dataset, 8, **options).epoch(3)
    ranks = [Batches(dataset, 8, rank=rank, world=world, **options).epoch(3) for rank in range(world)]
    for whole, *parts in zip(alone, *ranks, strict=True):
        assert same(joined(tuple(parts), dataset.is_events), whole)


@pytest.mark.parametrize("start", [0, 1, 4])
def test_a_resumed_epoch_continues_where_it_stopped(case: tuple[Dataset, Augment], start: int) -> None:
    dataset, augment = case
    options = {"seed": 1, "augment": augment}
    whole = itertools.islice(Batches(dataset, 8, **options).epoch(3), start, None)
    assert all(
        same(*pair) for pair in zip(whole, Batches(dataset, 8, **options).epoch(3, start), strict=True)
    )


@pytest.mark.parametrize("world", [1, 2])
def test_a_streamed_set_gives_the_same_batches(case: tuple[Dataset, Augment], world: int) -> None:
    dataset, augment = case
    options = {"seed": 1, "augment": augment, "world": world, "drop_last": False}
    resident, streamed = Batches(dataset, 8, **options), Batches(dataset, 8, resident_limit=0, **options)
    assert resident.resident
    assert not streamed.resident
    assert all(same(*pair) for pair in zip(resident.epoch(1), streamed.epoch(1), strict=True))
    assert same(streamed.make(streamed.positions(2)), resident.make(resident.positions(2)))


def test_a_stream_may_be_left_early_and_taken_up_again(pictures: Dataset) -> None:
    batches = Batches(pictures, 8, seed=0, resident_limit=0, prefetch=2)
    epoch = batches.epoch(0)
    first = next(epoch)
    epoch.close()
    assert same(next(batches.epoch(0)), first)


def test_an_error_while_streaming_reaches_the_consumer(
    pictures: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = Batches(pictures, 8, seed=0, resident_limit=0)
    monkeypatch.setattr(batches, "_images", None)
    with pytest.raises(TypeError):
        next(batches.epoch(0))


def test_mixing_stays_within_the_global_batch_and_never_takes_the_sample_itself(pictures: Dataset) -> None:
    numbered = Dataset("n", "all", pictures.images, torch.arange(97), tuple(map(str, range(97))))
    batches = Batches(numbered, 10, seed=0, augment=Augment(mixup=1.0), drop_last=False)
    for batch in batches.epoch(0):
        assert set(batch.other_labels.tolist()) <= set(batch.labels.tolist())
        assert (batch.labels != batch.other_labels).all()


def test_a_last_batch_of_one_sample_is_mixed_with_itself(pictures: Dataset) -> None:
    few = pictures.subset(torch.arange(9))
    *_, last = Batches(few, 8, seed=0, augment=Augment(mixup=1.0), shuffle=False).epoch(0)
    torch.testing.assert_close(last.images, few.images[8:].float() / 255)
    assert torch.equal(last.labels, last.other_labels)


def test_event_frames_come_time_major_as_counts(gestures: Dataset) -> None:
    batch = next(Batches(gestures, 8, seed=0, shuffle=False).epoch(0))
    assert batch.images.shape == (4, 8, 2, 16, 16)
    assert torch.equal(batch.images, gestures.images[:8].transpose(0, 1).float())


def test_the_type_is_the_one_asked_for(pictures: Dataset) -> None:
    batch = next(Batches(pictures, 8, seed=0, augment=HEAVY, dtype=torch.bfloat16).epoch(0))
    assert batch.images.dtype == torch.bfloat16
    assert batch.share.dtype == torch.float32


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "the batch size is 0"),
        ({"batch_size": 9, "world": 2}, "batch size is 9 for 2 processes; expected a positive multiple of 2"),
        ({"batch_size": 8, "world": 2, "rank": 2}, "rank is 2 of 2 processes"),
        ({"batch_size": 8, "seed": -1}, "seed is -1"),
        ({"batch_size": 200}, "97 samples, fewer than one batch of 200"),
        ({"batch_size": 8, "augment": Augment(drop=0.1)}, "no events to drop"),
    ],
)
def test_what_cannot_be_batched_is_refused(pictures: Dataset, options, message: str) -> None:
    with pytest.raises(FirstspikeError, match=message):
        Batches(pictures, **{"seed": 0, **options})


@pytest.mark.parametrize(("number", "start"), [(-1, 0), (0, -1), (0, 13)])
def test_epochs_and_batches_that_are_none_are_refused(pictures: Dataset, number: int, start: int) -> None:
    with pytest.raises(FirstspikeError, match=f"epoch {number} was asked for from batch {start}"):
        next(Batches(pictures, 8, seed=0).epoch(number, start))


def test_two_real_processes_see_what_one_sees() -> None:
    script = """
import hashlib, sys
from firstspike.data import Augment, Batches, load
heavy = Augment(crop=2, flip=True, cutout=3, mixup=0.4, cutmix=1.0)
batches = Batches(load("fashion-mnist-sample", "test"), 100, seed=7, augment=heavy, rank=int(sys.argv[1]), world=2)
for batch in batches.epoch(1):
    print(hashlib.sha256(batch.images.numpy().tobytes() + batch.share.numpy().tobytes()).hexdigest())
"""
    command = [sys.executable, "-c", script]
    children = [subprocess.Popen([*command, rank], stdout=subprocess.PIPE, text=True) for rank in ("0", "1")]
    printed = [child.communicate(timeout=120)[0].split() for child in children]
    assert [child.returncode for child in children] == [0, 0]
    augment = Augment(crop=2, flip=True, cutout=3, mixup=0.4, cutmix=1.0)
    for step, batch in enumerate(
        Batches(load("fashion-mnist-sample", "test"), 100, seed=7, augment=augment).epoch(1)
    ):
        for rank in (0, 1):
            part = slice(rank * 50, rank * 50 + 50)
            raw = batch.images[part].numpy().tobytes() + batch.share[part].numpy().tobytes()
            assert printed[rank][step] == hashlib.sha256(raw).hexdigest()
