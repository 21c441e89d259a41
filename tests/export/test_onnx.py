"""The ONNX graphs in onnxruntime."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from firstspike.errors import FirstspikeError
from firstspike.export import agreement, step_model, whole_model
from firstspike.functional import predict
from firstspike.models import Network, build
from firstspike.nn import Normalisation
from tests.export.nets import KINDS, ONLY_ONNX, images, small

onnx = pytest.importorskip("onnx", reason="needs the extra `onnx`")
runtime = pytest.importorskip("onnxruntime", reason="needs onnxruntime to run the graphs")


def session(model: Any) -> Any:
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def run_whole(net: Network, x: Tensor) -> dict[str, Tensor]:
    running = session(whole_model(net))
    found = running.run(None, {"input": x.numpy()})
    return {
        out.name: torch.from_numpy(value) for out, value in zip(running.get_outputs(), found, strict=True)
    }


def run_steps(net: Network, x: Tensor) -> dict[str, Tensor]:
    """The spike times of every layer, one step after the other."""
    running, batch = session(step_model(net)), x.shape[1 if net.config.encoding == "frames" else 0]
    state: dict[str, Any] = {}
    for value in running.get_inputs():
        if value.name != "input":
            kind = {"tensor(float)": np.float32, "tensor(bool)": bool, "tensor(int64)": np.int64}[value.type]
            state[value.name] = np.zeros([batch if size == "batch" else size for size in value.shape], kind)
    frames = x.expand(net.T, *x.shape) if net.config.encoding == "direct" else net.encode(x)
    if net.config.encoding == "frames":
        frames = x
    outputs = [value.name for value in running.get_outputs()]
    times = {
        name: np.full(value.shape, net.T, np.uint8) for name, value in state.items() if value.dtype == bool
    }
    for t, frame in enumerate(frames):
        found = dict(zip(outputs, running.run(None, {"input": frame.numpy(), **state}), strict=True))
        state = {name: found[f"{name}.next"] for name in state}
        for name, first in times.items():
            first[state[name] & (first == net.T)] = t
    return {name.removesuffix(".fired"): torch.from_numpy(first) for name, first in times.items()}


@pytest.mark.parametrize("kind", [*KINDS, *ONLY_ONNX])
def test_both_graphs_fire_at_the_same_times_and_give_the_same_answers(kind: str) -> None:
    net = small(kind)
    x = images(net)
    with torch.no_grad():
        output = net.fuse()(x)
    found, readout = run_whole(net, x), net.names[-1]
    stepped = run_steps(net, x)
    assert list(stepped) == list(net.trace(x)[1])
    assert agreement(net, x, {readout: found["spike_times"]}).unexplained == 0
    steps = agreement(net, x, stepped)
    assert steps.unexplained == 0
    assert steps.compared > 16 * 17
    if torch.equal(found["spike_times"], output.spike_times):
        assert found["spike_times"].dtype == torch.uint8
        for rule in ("strict", "potential"):
            answer = predict(output.spike_times, output.membrane, rule)  # type: ignore[arg-type]
            assert torch.equal(found[f"class_{rule}"], answer.label)
            assert torch.equal(found["steps"], answer.steps)


def test_most_networks_agree_to_the_last_neuron() -> None:
    """Rounding is the exception: if it were the rule, the test above would show little."""
    identical = 0
    for kind in KINDS:
        net = small(kind)
        x = images(net)
        identical += torch.equal(run_whole(net, x)["spike_times"], net.fuse()(x).spike_times)
    assert identical >= len(KINDS) - 1


def test_ties_and_silence_are_answered_by_both_rules() -> None:
    net = build("FC3", (3,), T=3, normalisation=Normalisation("none", gain=False, bias=False)).eval()
    with torch.no_grad():
        net.readout.synapse.weight.copy_(torch.eye(3))
    x = torch.tensor([[0.4, 1.5, 2.0], [0.6, 0.5, 0.4], [0.1, 0.3, 0.2], [0.1, 0.1, 0.4]])
    found = run_whole(net, x)
    assert found["spike_times"].tolist() == [[2, 0, 0], [1, 1, 2], [3, 3, 3], [3, 3, 2]]
    assert found["class_strict"].tolist() == [1, 0, 0, 2]
    assert found["class_potential"].tolist() == [2, 0, 1, 2]
    assert found["steps"].tolist() == [1, 2, 3, 3]


def test_any_batch_size_and_a_named_opset() -> None:
    net = small("standardised")
    for model in (whole_model(net), step_model(net)):
        assert [(opset.domain, opset.version) for opset in model.opset_import] == [("", 17)]
        onnx.checker.check_model(model, full_check=True)
        told = {entry.key: entry.value for entry in model.metadata_props}
        assert (told["T"], told["encoding"], told["classes"], told["opset"]) == ("6", "direct", "5", "17")
    x = images(net, 9)
    together = run_whole(net, x)["spike_times"]
    apart = torch.cat([run_whole(net, part)["spike_times"] for part in x.split([1, 6, 2])])
    assert torch.equal(together, apart)


def test_a_network_too_large_for_the_format_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firstspike.export.onnx_graph.MOST_BYTES", 1000)
    with pytest.raises(FirstspikeError, match="over 2 GB"):
        whole_model(small("fully connected"))
