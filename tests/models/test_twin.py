"""The ReLU twin of a spiking network."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from firstspike.errors import FirstspikeError
from firstspike.models import Twin, build, load, load_either, save, start_from
from firstspike.nn import Neuron, Normalisation, Synapse


def test_the_twin_is_the_conventional_network_of_the_fused_weights() -> None:
    net = build("C3K3-P2-FC5-FC4", (1, 6, 6), T=3, input_mean=(0.4,), input_std=(0.5,)).double().eval()
    for key, parameter in net.named_parameters():
        if key.endswith("bias"):
            parameter.data.normal_()
    x = torch.rand(7, 1, 6, 6, dtype=torch.float64)
    conv, full, last = (layer.synapse for layer in net.fuse().layers if hasattr(layer, "synapse"))
    hidden = F.relu(F.conv2d((x - 0.4) / 0.5, conv.weight, conv.bias, padding=1))
    hidden = F.relu(F.linear(F.avg_pool2d(hidden, 2).flatten(1), full.weight, full.bias))
    expected = F.linear(hidden, last.weight, last.bias)
    torch.testing.assert_close(Twin(net)(x), expected.float(), rtol=1e-5, atol=1e-5)


def test_event_frames_are_averaged_over_time() -> None:
    events = build("FC5-FC4", (6,), T=3, encoding="frames").eval()
    still = build("FC5-FC4", (6,), T=3).eval()
    still.load_state_dict(events.state_dict())
    x = torch.rand(3, 7, 6)
    torch.testing.assert_close(Twin(events)(x), Twin(still)(x.mean(0)))


def test_a_twin_comes_back_from_its_files_as_a_twin_only(tmp_path: Path) -> None:
    twin = Twin(build("FC5-FC4", (6,), T=3)).eval()
    save(twin, tmp_path)
    again = load_either(tmp_path)
    assert isinstance(again, Twin)
    x = torch.rand(2, 6)
    assert torch.equal(again(x), twin(x))
    with pytest.raises(FirstspikeError, match=r"holds a ReLU twin, not a spiking network"):
        load(tmp_path)


@pytest.mark.parametrize("from_twin", [False, True])
def test_a_network_starts_from_weights_but_keeps_thresholds_and_statistics(from_twin: bool) -> None:
    options = {"neuron": Neuron(learn_threshold="channel"), "normalisation": Normalisation(kind="batch")}
    net, donor = (build("FC5-FC4", (6,), T=3, **options) for _ in range(2))
    for tensor in donor.state_dict().values():
        tensor += 1
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    start_from(net, Twin(donor) if from_twin else donor)
    for name, tensor in net.state_dict().items():
        carried = name.endswith(("weight", "gain", "bias"))
        assert torch.equal(tensor, donor.state_dict()[name] if carried else before[name]), name


@pytest.mark.parametrize(("variance", "answers_in"), [(1.0, None), (2.5, None), (1.0, 6)])
def test_another_T_or_v_keeps_the_weights_that_the_donor_runs_with(
    variance: float, answers_in: int | None
) -> None:
    architecture, shape = "C3K3-P2-FC5-FC4", (1, 6, 6)
    net = build(architecture, shape, T=8)
    donor = build(architecture, shape, T=2, normalisation=Normalisation(variance=variance))
    if answers_in:
        donor.set_fall(0.5, T=answers_in)
    start_from(net, donor)
    for mine, theirs in zip(net.modules(), donor.modules(), strict=True):
        if isinstance(mine, Synapse):
            torch.testing.assert_close(mine.effective(torch.float32), theirs.effective(torch.float32))


def test_dropout_on_one_side_only_does_not_matter() -> None:
    net, donor = (build("FC5-FC6-FC4", (6,), T=3, dropout=rate) for rate in (0.0, 0.5))
    start_from(net, Twin(donor))
    for mine, theirs in zip(net.parameters(), donor.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_starting_from_another_architecture_is_refused() -> None:
    with pytest.raises(FirstspikeError, match=r"start FC5-FC4 from FC7-FC4: .*\[5.* here and \[7.* there"):
        start_from(build("FC5-FC4", (6,)), build("FC7-FC4", (6,)))
