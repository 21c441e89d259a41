"""One frame at a time gives the answers of the batch run."""

import pytest
import torch

from firstspike.errors import FirstspikeError
from firstspike.functional import latency
from firstspike.inference import Engine, Stream, available, infer, native
from tests.inference.nets import CASES, inputs, make

WAYS = ["reference", *(["float32", "int8", "int8-all"] if available() else [])]


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "reference":
        monkeypatch.setattr(native, "find", lambda: (None, "left out"))
    return request.param


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_stream_answers_as_the_batch_does(case: dict, way: str) -> None:
    net = make(case)
    images = inputs(net, 8)
    runner = Engine(net, way) if way != "reference" else net
    whole = infer(runner, images, times=True)
    stream = Stream(runner, times=True)
    match net.config.encoding:
        case "frames":
            frames = images
        case "latency":
            frames = latency(images, net.T)
        case _:
            frames = images.expand(net.T, *images.shape)
    for sample in range(8):
        for t in range(net.T):
            assert stream.steps == t
            answer = stream.push(frames[t, sample])
            if answer is not None:
                break
        assert answer.steps == whole.steps[sample]
        assert answer.label == whole.label[sample]
        assert stream.steps == 0
        for name in whole.times:
            assert (answer.times[name][0] != whole.times[name][sample]).sum() <= 1  # at the very threshold


def test_a_stream_forgets_when_told_to(way: str) -> None:
    net = make({"encoding": "frames", "T": 9})
    frames = inputs(net, 2) * 0.01
    stream, other = (Stream(Engine(net, way) if way != "reference" else net) for _ in range(2))
    stream.push(frames[0, 0])
    stream.reset()
    assert stream.steps == 0
    for t in range(9):
        one, two = stream.push(frames[t, 1]), other.push(frames[t, 1])
        assert (one is None) == (two is None)
        if one is not None:
            assert torch.equal(one.membrane, two.membrane)
            break


def test_a_bad_frame_is_refused_and_the_stream_goes_on(way: str) -> None:
    net = make({"encoding": "frames"})
    stream = Stream(Engine(net, way) if way != "reference" else net)
    frame = torch.zeros(1, 14, 14)
    stream.push(frame)
    with pytest.raises(FirstspikeError, match=r"has shape \[1, 14, 14\] here, but this one \[1, 15, 14\]"):
        stream.push(torch.zeros(1, 15, 14))
    with pytest.raises(FirstspikeError, match="NaN or infinite"):
        stream.push(frame / 0)
    with pytest.raises(FirstspikeError, match="must be floating point"):
        stream.push(frame.int())
    assert stream.steps == 1


def test_a_latency_stream_takes_spikes_only(way: str) -> None:
    net = make({"encoding": "latency"})
    stream = Stream(Engine(net, way) if way != "reference" else net)
    with pytest.raises(FirstspikeError, match="0 or 1: for whole images use infer"):
        stream.push(torch.full((1, 14, 14), 0.5))
