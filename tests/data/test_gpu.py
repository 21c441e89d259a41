"""On a CUDA device: the same samples, no wait for the host, and a batch inside a CUDA graph."""

import pytest
import torch

from firstspike.data import Augment, Batches, Dataset, load

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]
HEAVY = Augment(
    crop=2, flip=True, cutout=8, erase=0.5, mixup=0.4, cutmix=1.0, trivial=True, shift=1, scale=0.1
)


@pytest.mark.parametrize("options", [{}, {"capture": False}, {"resident_limit": 0}, {"batch_size": 300}])
def test_a_device_sees_what_the_cpu_sees(options) -> None:
    sample = load("fashion-mnist-sample", "test")
    options = {"batch_size": 100, "seed": 0, "augment": HEAVY, "drop_last": False, **options}
    here = Batches(sample, **options).epoch(1)
    there = Batches(sample, device="cuda", **options).epoch(1)
    for one, other in zip(list(here), list(there), strict=True):  # kept, so that none may overwrite another
        assert torch.equal(one.labels, other.labels.cpu())
        assert torch.equal(one.other_labels, other.other_labels.cpu())
        # Rounding may carry a pixel over a step of posterize, solarize or equalize; nearly all agree closely.
        assert ((one.images - other.images.cpu()).abs() < 1e-3).float().mean() > 0.999
        torch.testing.assert_close(one.share, other.share.cpu())


@pytest.mark.parametrize("capture", [True, False])
def test_events_fade_there_as_here(capture: bool) -> None:
    counts = torch.randint(0, 4, (24, 20, 2, 16, 16)).to(torch.uint8)
    events = Dataset("noise", "train", counts, torch.zeros(24).long(), ("a",), parts=5, fade=0.2)
    augment = Augment(flip=True, shift=2, rotate=15, drop=0.3, roll=1.0)
    here = Batches(events, 8, seed=0, augment=augment).epoch(1)
    there = Batches(events, 8, seed=0, augment=augment, device="cuda", capture=capture).epoch(1)
    for one, other in zip(list(here), list(there), strict=True):
        # A pixel on the edge between two may turn to either.
        assert ((one.images - other.images.cpu()).abs() < 1e-4).float().mean() > 0.999


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_a_batch_waits_for_nothing_and_fits_in_a_graph() -> None:
    sample = load("fashion-mnist-sample", "test")
    batches = Batches(sample, 100, seed=0, augment=HEAVY, device="cuda")
    expected = list(batches.epoch(3))
    positions = batches.positions(0).clone()
    batches.make(positions)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        batches.make(positions)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = batches.make(positions)
    batches.prepare(3)
    for step, batch in enumerate(expected):
        positions.copy_(batches.positions(step))
        graph.replay()
        torch.testing.assert_close(captured.images, batch.images)
        assert torch.equal(captured.other_labels, batch.other_labels)
