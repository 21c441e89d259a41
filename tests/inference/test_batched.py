"""`Batched`: rounds of steps, from which samples leave, give the answers of the reference."""

import pytest
import torch

from firstspike.errors import FirstspikeError
from firstspike.inference import Batched, batched, infer, reference, replay
from firstspike.inference.batched import places_for, steps_for
from firstspike.inference.replay import Replay, Tree
from firstspike.models import Network
from firstspike.nn import Normalisation
from tests.inference.nets import CASES, inputs, make


def slow(T: int = 8) -> Network:
    """A network whose samples take their time, and not all the same."""
    net = make({"T": T, "normalisation": Normalisation(variance=1.0)}).double()
    net.readout.neuron.threshold = 1.0
    images = inputs(net, 60).double()
    while len(reference(net, images).steps.unique()) < 4:
        net.readout.neuron.threshold *= 1.2
    return net


FIELDS = ("label", "steps", "tied", "silent", "spikes")


@pytest.mark.parametrize("ties", ["strict", "potential"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_rounds_give_the_answers_of_the_reference(case: dict, ties: str) -> None:
    net = make(case).double()
    ready = Batched(net)
    for batch in (24, 24, 7):  # the second on memory that the first has left
        images = inputs(net, batch).double()
        expected, found = reference(net, images, ties), ready(images, ties)
        for name in FIELDS:
            assert torch.equal(getattr(found, name), getattr(expected, name)), name
        torch.testing.assert_close(found.membrane, expected.membrane)
        assert found.layers == expected.layers


def test_it_does_not_matter_who_leaves_when(monkeypatch: pytest.MonkeyPatch) -> None:
    net = slow()
    images = inputs(net, 60).double()
    expected = reference(net, images)
    for places in (lambda left: left, lambda left: 60):
        monkeypatch.setattr(batched, "places_for", places)
        assert torch.equal(Batched(net)(images).steps, expected.steps)


class Recorded(Replay):
    """A replay without a GPU: the work is done again, and its result put where the first one is."""

    def _capture(self) -> None:
        self.result, self.graph = self.work(), self
        self.tree.left -= 1

    def replay(self) -> None:
        for old, new in zip(tensors(self.result), tensors(self.work()), strict=True):
            old.copy_(new)


def tensors(value: object) -> list[torch.Tensor]:
    """All tensors in nested tuples."""
    if isinstance(value, tuple):
        return [tensor for part in value for tensor in tensors(part)]
    return [value] if isinstance(value, torch.Tensor) else []


@pytest.mark.parametrize("most", [0, 2, 100])
def test_replayed_rounds_answer_new_batches(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """On memory that stays where it is, along every way in which a batch has shrunk before."""
    monkeypatch.setattr(replay, "Replay", Recorded)
    monkeypatch.setattr(batched, "Replay", Recorded)
    tree = Tree(graphs=False)
    tree.left = most
    monkeypatch.setattr(batched, "Tree", lambda graphs: tree)
    net = slow()
    ready = Batched(net)
    for _ in range(12):
        images = inputs(net, 60).double()
        expected, found = reference(net, images), ready(images)
        for name in FIELDS:
            assert torch.equal(getattr(found, name), getattr(expected, name)), name
    assert tree.left == 0 or most - tree.left > 3


def test_nobody_runs_on_for_long_after_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The samples of each round are those without an answer, but for places that fill up a size."""
    net = slow()
    images = inputs(net, 60).double()
    steps = reference(net, images).steps
    ready, seen, advance = Batched(net), [], Network.advance

    def watched(self, x, state, n, counts):
        seen.append((state.t, counts.shape[2]))
        return advance(self, x, state, n, counts)

    monkeypatch.setattr(Network, "advance", watched)
    ready(images)
    assert len(seen) > 2
    for t, samples in seen:
        left = int((steps > t).sum())
        assert left <= samples <= max(1.25 * left, left + 8)


def test_rounds_are_few_where_samples_are_and_sizes_always() -> None:
    for T in range(1, 40):
        t, lengths = 0, []
        while t < T:
            assert steps_for(t, 1000, T) == 1
            lengths.append(steps_for(t, 10, T))
            t += lengths[-1]
        assert t == T
        assert len(lengths) <= T.bit_length() + 1
    sizes = {places_for(left) for left in range(1, 1025)}
    assert len(sizes) < 40
    assert all(left <= places_for(left) <= max(left + 8, 1.25 * left) for left in range(1, 1025))


def test_weights_are_kept_in_the_dtype_they_are_used_in() -> None:
    net = make({})
    net.compute_dtype = torch.bfloat16
    ready = Batched(net)
    assert {layer.weight.dtype for layer in ready.net.modules() if hasattr(layer, "apply_weight")} == {
        torch.bfloat16
    }
    images = inputs(net)
    expected = reference(net, images)
    assert torch.equal(ready(images).steps, expected.steps)
    assert {parameter.dtype for parameter in net.parameters()} == {torch.float32}


def test_infer_takes_a_network_made_ready() -> None:
    net = make({}).double()
    images = inputs(net).double()
    assert torch.equal(infer(Batched(net), images).label, reference(net, images).label)
    with pytest.raises(FirstspikeError, match="notes no spike times"):
        infer(Batched(net), images, times=True)
    with pytest.raises(FirstspikeError, match=r"takes input of shape \[B, 1, 14, 14\]"):
        infer(Batched(net), images[:, :, 1:])
    assert len(infer(Batched(net), images[:0])) == 0
