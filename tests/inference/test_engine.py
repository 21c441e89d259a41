"""The native engine fires as the reference does."""

import copy
import pickle

import numpy as np
import pytest
import torch

from firstspike.data import load, missing
from firstspike.errors import FirstspikeError
from firstspike.inference import Engine, agreement, available, infer, native, reference
from firstspike.inference.audit import audit_all
from firstspike.inference.plan import UnsupportedError
from firstspike.models import pretrained
from firstspike.nn import Neuron
from tests.inference.nets import CASES, inputs, make

pytestmark = pytest.mark.skipif(not available(), reason=native.find()[1] or "built")

ROUNDING = 1e-5
"""How far from the threshold, relative to it, float32 sums may be decided differently."""

SETS = native.find()[0].instruction_sets() if available() else []


@pytest.mark.parametrize("isa", SETS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_float32_fires_as_the_reference_but_for_rounding(case: dict, isa: str) -> None:
    net = make(case)
    images = inputs(net)
    found = audit_all(Engine(net, instruction_set=isa), images, batch_size=10)
    assert found.neurons > 500
    assert found.widest < ROUNDING, found
    assert found.differing < 1e-4 * found.neurons + 2, found


@pytest.mark.parametrize("isa", SETS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_int8_fires_as_its_own_quantised_network(case: dict, isa: str) -> None:
    net = make(case)
    images = inputs(net)
    engine = Engine(net, "int8-all", calibration=images, instruction_set=isa)
    found = audit_all(engine, images)
    assert found.widest < ROUNDING, found
    assert found.differing <= 2, found  # in the first layer, which stays float32, or in leaky neurons
    if net.config.encoding == "latency" and net.config.neuron.tau is None:  # whole numbers from end to end
        times, expected = (
            engine(images, times=True).times,
            reference(engine.reference, images.double(), times=True),
        )
        assert all(torch.equal(times[name], expected.times[name]) for name in times)


@pytest.mark.parametrize("ties", ["strict", "potential"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_answers_are_those_of_the_reference(case: dict, ties: str) -> None:
    net = make(case)
    images = inputs(net)
    found, expected = Engine(net)(images, ties), reference(net, images, ties)
    same = [
        (getattr(found, name) == getattr(expected, name)).float().mean()
        for name in ("label", "steps", "tied", "silent")
    ]
    assert min(same) > 0.95
    torch.testing.assert_close(found.membrane, expected.membrane, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("weights", ["float32", "int8-all"])
@pytest.mark.parametrize("case", CASES[:10], ids=str)
def test_threads_and_batches_change_nothing(case: dict, weights: str) -> None:
    net = make(case)
    images = inputs(net, 9)
    axis = 1 if net.config.encoding == "frames" else 0
    whole = Engine(net, weights)(images, times=True)
    shared = Engine(net, weights, threads=3)
    for found in (
        shared(images, times=True),
        [shared(part, times=True) for part in torch.split(images, 1, axis)],
    ):
        found = found if isinstance(found, list) else [found]
        assert torch.equal(torch.cat([part.label for part in found]), whole.label)
        for name in whole.times:
            assert torch.equal(torch.cat([part.times[name] for part in found]), whole.times[name])


def test_threads_share_a_large_layer() -> None:
    net = make({"architecture": "C64K3-C96K3-P2-FC300-FC10", "input_shape": (3, 32, 32), "T": 3})
    image = inputs(net, 1)
    one, three = (Engine(net, threads=threads)(image, times=True) for threads in (1, 3))
    assert torch.equal(one.membrane, three.membrane)
    assert all(torch.equal(one.times[name], three.times[name]) for name in one.times)


@pytest.mark.parametrize("isa", SETS)
@pytest.mark.parametrize("weights", ["float32", "int8", "int8-all"])
def test_a_layer_beyond_the_caches_fires_as_the_reference(weights: str, isa: str) -> None:
    net = make({"architecture": "C64K3-C80K3-P2-FC2100-FC10", "input_shape": (2, 12, 12), "T": 4})
    images = inputs(net, 6)
    engine = Engine(net, weights, calibration=images, instruction_set=isa, threads=2)
    found = audit_all(engine, images, batch_size=1)
    assert found.widest < ROUNDING, found
    assert found.differing <= 2, found


def test_where_int16_sums_cannot_tell_float32_decides() -> None:
    """Weights of very different sizes: rounded to int16, the small ones are gone, and yet they matter."""
    net = make({"architecture": "FC40-FC48-FC10", "input_shape": (30,), "encoding": "latency"})
    first, second = net.fuse().layers[:2]
    large, small = second.synapse.weight.data[:, :20], second.synapse.weight.data[:, 20:]
    large.copy_(large.sign())
    small.mul_(1e-5)
    second.synapse.bias.data.zero_()  # so that sums of the large ones meet the threshold
    first.synapse.bias.data.add_(0.3)
    layers = [first, second, *net.fuse().layers[2:]]
    net = type(net)(layers, net.fuse().config).eval()
    assert audit_all(Engine(net), inputs(net, 200)).widest < 1e-6  # the small weights are some 3e-6


def test_an_answer_can_be_copied_and_pickled() -> None:
    net = make({})
    answer = Engine(net)(inputs(net, 3), times=True)
    for other in (copy.deepcopy(answer), pickle.loads(pickle.dumps(answer))):
        assert torch.equal(other.label, answer.label)
        assert torch.equal(other.gap, answer.gap)
        assert other.layers == answer.layers
        assert all(torch.equal(other.times[name], answer.times[name]) for name in answer.times)
    with pytest.raises(AttributeError, match="no attribute 'labels'"):
        _ = answer.labels


def test_the_shipped_network_on_real_images() -> None:
    net, images, labels = shipped_sample()
    engine = Engine(net)
    found = audit_all(engine, images[:300])
    assert found.widest < ROUNDING
    assert found.differing <= 5, found
    agreed = agreement(infer(engine, images), reference(net, images), labels)
    assert agreed.classes >= 99.9
    assert agreed.accuracy > 91


def test_int8_keeps_the_classes_of_the_shipped_network() -> None:
    net, images, labels = shipped_sample()
    calibration = load("fashion-mnist-sample", "train").images[:128].float() / 255
    engine = Engine(net, "int8", calibration=calibration)
    agreed = agreement(engine(images), infer(net, images), labels)
    assert agreed.classes >= 99
    assert abs(agreed.accuracy - agreed.other_accuracy) < 1
    assert audit_all(engine, images[:100]).widest < ROUNDING


@pytest.mark.slow
@pytest.mark.skipif(bool(missing("fashion-mnist")), reason="Fashion-MNIST is not on this machine")
@pytest.mark.parametrize("weights", ["float32", "int8"])
def test_ten_thousand_real_images(weights: str) -> None:
    net = pretrained("fashion-mnist-scnn5")
    test, train = load("fashion-mnist", "test"), load("fashion-mnist", "train")
    images = test.images.float() / 255
    engine = Engine(net, weights, calibration=train.images[:256].float() / 255, threads=2)
    found = audit_all(engine, images)
    agreed = agreement(engine(images), reference(net, images), test.labels)
    print(f"\n{weights}: {found}; {agreed}")
    assert found.samples == 10_000
    assert found.widest < ROUNDING
    assert agreed.classes >= (99.9 if weights == "float32" else 99)


def shipped_sample():
    net = pretrained("fashion-mnist-scnn5")
    sample = load("fashion-mnist-sample", "test")
    return net, sample.images.float() / 255, sample.labels


def test_images_need_not_be_contiguous_nor_float32() -> None:
    net = make({"input_shape": (3, 14, 14)})
    images = inputs(net, 4)
    engine = Engine(net)
    expected = engine(images).membrane
    assert torch.equal(engine(images.to(memory_format=torch.channels_last)).membrane, expected)
    assert torch.equal(engine(images.double()).membrane, expected)
    assert torch.equal(engine(images.requires_grad_()).membrane, expected)


def test_what_the_engine_cannot_do_is_said() -> None:
    net = make({})
    with pytest.raises(UnsupportedError, match="float32 on the CPU"):
        Engine(net.double())
    net = make({})
    with pytest.raises(FirstspikeError, match="Unknown weights 'int4'"):
        Engine(net, "int4")
    with pytest.raises(FirstspikeError, match="threads must be between 1 and 1024, not 0"):
        Engine(net, threads=0)
    with pytest.raises(FirstspikeError, match="This machine has no 'neon9'"):
        Engine(net, instruction_set="neon9")
    net.layers[0].synapse.weight.data[0, 0, 0, 0] = torch.nan
    with pytest.raises(FirstspikeError, match="NaN or infinite"):
        Engine(net)


@pytest.mark.parametrize(
    ("weights", "expected"), [("int8", [False, False, True, True]), ("int8-all", [False, True, True, True])]
)
def test_which_layers_are_int8(weights: str, expected: list[bool]) -> None:
    engine = Engine(make({"architecture": "C8K3-C8K3-FC20-FC10"}), weights)
    assert [layer["int8"] for layer in engine._plan.layers] == expected


def test_latency_coding_refuses_what_is_no_pixel() -> None:
    net = make({"encoding": "latency"})
    images = inputs(net)
    images[3, 0, 0, 0] = 1.5
    with pytest.raises(FirstspikeError, match=r"Sample 3 has values.*pixels in \[0, 1\]"):
        Engine(net)(images)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weight": np.zeros((12, 24), np.float32)}, "weights, but its shape asks for"),
        ({"kernel": 40}, "kernel is larger than its input"),
        ({"padding": -1}, "kernel or padding is impossible"),
        ({"outputs": 2**30}, "too large"),
        ({"height": 2**30, "width": 2**30}, "too large"),
        ({"outputs": 0}, "sizes below 1"),
        ({"theta": np.zeros(3, np.float32)}, "thresholds have another length"),
        ({"bias": np.zeros(3, np.float32)}, "bias has another length"),
        ({"to_row": np.full(10, 77, np.int32)}, "points outside of the next layer"),
        ({"to_col": np.zeros(1, np.int32)}, "pooling does not fit"),
        ({"tau": 0.5}, "time constant is below 1"),
        ({"most": 300}, "too wide"),
    ],
)
def test_a_description_that_lies_is_refused_by_the_core(change: dict, message: str) -> None:
    engine = Engine(make({}))
    engine._plan.layers[0] |= change
    with pytest.raises(FirstspikeError, match=f"cannot run this network: layer 1: .*{message}"):
        engine._compile(engine._plan, "direct")


def test_leaky_int8_is_within_rounding_of_its_network() -> None:
    net = make({"neuron": Neuron(tau=2.0, threshold=0.4)})
    images = inputs(net)
    assert audit_all(Engine(net, "int8"), images).widest < ROUNDING
