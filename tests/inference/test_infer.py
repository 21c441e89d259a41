"""`infer` in plain PyTorch: early stopping gives what all steps would have given."""

import pytest
import torch

from firstspike import inference
from firstspike.errors import FirstspikeError
from firstspike.functional import predict
from firstspike.inference import infer, native, reference
from firstspike.models import pretrained
from tests.inference.nets import CASES, inputs, make


@pytest.mark.parametrize("ties", ["strict", "potential"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_stopping_early_gives_the_answers_of_all_steps(case: dict, ties: str) -> None:
    net = make(case).double()
    images = inputs(net).double()
    with torch.no_grad():
        output, times = net.trace(images)
    expected = predict(output.spike_times, output.membrane, ties)
    found = reference(net, images, ties, times=True)
    for name in ("label", "steps", "tied", "silent"):
        assert torch.equal(getattr(found, name), getattr(expected, name)), name
    for column, (name, layer_times) in enumerate(times.items()):
        stop = expected.steps.view(-1, *[1] * (layer_times.dim() - 1))
        cut = torch.where(layer_times < stop, layer_times, net.T)
        assert torch.equal(found.times[name], cut.to(torch.uint8))
        assert torch.equal(found.spikes[:, column], (cut < net.T).flatten(1).sum(1))


def test_the_gap_is_the_lead_over_the_best_other_class() -> None:
    net = make({})
    found = reference(net, inputs(net))
    for row, label, gap in zip(found.membrane, found.label, found.gap, strict=True):
        others = torch.cat([row[:label], row[label + 1 :]])
        assert gap == row[label] - others.max()


def test_without_the_native_core_infer_answers_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    net = make({})
    images = inputs(net)
    with_core = infer(net, images)
    monkeypatch.setattr(native, "find", lambda: (None, "the native engine is not installed"))
    without = infer(net, images)
    assert without.engine is None
    assert torch.equal(with_core.label, without.label)
    with pytest.raises(FirstspikeError, match="no Engine here: the native engine is not installed"):
        inference.Engine(net)


def test_a_network_the_core_cannot_run_is_run_in_pytorch() -> None:
    net = make({}).double()
    assert infer(net, inputs(net).double()).engine is None


def test_nothing_about_the_network_is_changed() -> None:
    net = make({}).train()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    infer(net, inputs(net))
    assert net.training
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())


@pytest.mark.parametrize("run", [infer, reference])
def test_bad_input_is_refused_in_one_sentence(run) -> None:
    net = pretrained("fashion-mnist-scnn5")
    images = torch.rand(4, 1, 28, 28)
    with pytest.raises(
        FirstspikeError, match=r"takes input of shape \[B, 1, 28, 28\], but was given \[4, 1, 32, 32\]"
    ):
        run(net, torch.rand(4, 1, 32, 32))
    with pytest.raises(FirstspikeError, match=r"must be floating point, not torch\.uint8"):
        run(net, torch.zeros(4, 1, 28, 28, dtype=torch.uint8))
    with pytest.raises(FirstspikeError, match="Unknown tie rule 'both'"):
        run(net, images, ties="both")
    for bad in (torch.nan, torch.inf):
        images[2, 0, 5, 5] = bad
        with pytest.raises(FirstspikeError, match="Sample 2 has NaN or infinite values"):
            run(net, images)


def test_an_empty_batch_has_no_answers() -> None:
    net = make({})
    assert len(infer(net, inputs(net)[:0])) == 0
    assert len(reference(net, inputs(net)[:0])) == 0
