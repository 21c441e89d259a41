"""Linear and Conv2d: normalisation, affine, fusion, constant input and bad input."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from firstspike.errors import FirstspikeError
from firstspike.functional import direct
from firstspike.nn import Conv2d, Linear, Normalisation, Synapse

PLAIN = Normalisation(kind="none", gain=False, bias=False)
NORMS = [
    Normalisation(),
    Normalisation(per="layer", bias=False),
    Normalisation(gain=False, unit_weights=True),
    Normalisation(kind="batch"),
    Normalisation(kind="batch", gain=False, bias=False),
    Normalisation(kind="none"),
    PLAIN,
]


def disturb(synapse: Synapse) -> Synapse:
    """In float64, away from initialisation: every parameter and buffer matters."""
    synapse.double()
    for name, tensor in [*synapse.named_parameters(), *synapse.named_buffers()]:
        tensor.data += 0.3 * (torch.rand_like(tensor) if "var" in name else torch.randn_like(tensor))
    return synapse


def synapses(norm: Normalisation) -> list[tuple[Synapse, Tensor]]:
    """A layer of each kind with random input for it."""
    return [
        (disturb(Linear(12, 5, 4, norm)), torch.rand(4, 3, 12, dtype=torch.float64)),
        (disturb(Conv2d(2, 5, 3, 4, norm, padding=1)), torch.rand(4, 3, 2, 6, 6, dtype=torch.float64)),
        (disturb(Conv2d(2, 5, 5, 4, norm)), torch.rand(4, 3, 2, 6, 6, dtype=torch.float64)),
    ]


def test_a_plain_synapse_is_the_linear_map_of_every_frame() -> None:
    linear, conv, wide = synapses(PLAIN)
    for t in range(4):
        torch.testing.assert_close(linear[0](linear[1])[t], linear[1][t] @ linear[0].weight.T)
        torch.testing.assert_close(conv[0](conv[1])[t], F.conv2d(conv[1][t], conv[0].weight, padding=1))
        torch.testing.assert_close(wide[0](wide[1])[t], F.conv2d(wide[1][t], wide[0].weight))


def test_gain_and_bias_act_per_channel_and_the_bias_at_every_step() -> None:
    """X <- gamma * X + beta."""
    for kind in ("none", "weight"):
        for synapse, spikes in synapses(Normalisation(kind=kind)):  # type: ignore[arg-type]
            gain, bias = synapse.gain, synapse.bias
            affine = synapse(spikes)
            synapse.gain = synapse.bias = None
            shape = (-1, *[1] * (spikes.dim() - 3))
            torch.testing.assert_close(affine, synapse(spikes) * gain.view(shape) + bias.view(shape))


@pytest.mark.parametrize("per", ["channel", "layer"])
def test_the_weight_in_use_has_mean_zero_and_deviation_sqrt_vT_over_N(per: str) -> None:
    norm = Normalisation(per=per, gain=False, variance=0.5)  # type: ignore[arg-type]
    for synapse, spikes in synapses(norm):
        weight, _ = synapse.effective(spikes.dtype)
        rows = weight.flatten(1) if per == "channel" else weight.flatten()[None]
        std = (0.5 * 4 / synapse.weight[0].numel()) ** 0.5
        torch.testing.assert_close(rows.mean(1), torch.zeros(len(rows)).double(), atol=1e-12, rtol=0)
        torch.testing.assert_close(rows.std(1, correction=0), torch.full((len(rows),), std).double())


def test_unit_weights_are_stored_with_deviation_one_and_used_like_the_others() -> None:
    torch.manual_seed(3)
    plain = Linear(50, 20, 8)
    torch.manual_seed(3)
    unit = Linear(50, 20, 8, Normalisation(unit_weights=True))
    assert unit.weight.std().item() == pytest.approx(1)
    spikes = torch.rand(8, 2, 50)
    torch.testing.assert_close(unit(spikes), plain(spikes), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("norm", NORMS)
def test_a_fused_synapse_gives_the_same_current_from_plain_weights(norm: Normalisation) -> None:
    for synapse, spikes in synapses(norm):
        fused = synapse.fuse()
        assert set(dict(fused.named_parameters())) <= {"weight", "bias"}
        assert not list(fused.buffers())
        assert torch.equal(fused(spikes), synapse.eval()(spikes))


@pytest.mark.parametrize("norm", NORMS)
def test_fusing_leaves_the_original_alone(norm: Normalisation) -> None:
    for synapse, spikes in synapses(norm):
        before = {name: tensor.clone() for name, tensor in synapse.state_dict().items()}
        fused = synapse.fuse()
        assert synapse.training
        assert synapse.normalisation == norm
        with torch.no_grad():
            for tensor in fused.parameters():
                tensor.zero_()
        calls: list[int] = []
        fused.register_forward_hook(lambda *_, calls=calls: calls.append(1))
        synapse.eval()(spikes)
        assert not calls
        assert all(torch.equal(tensor, before[name]) for name, tensor in synapse.state_dict().items())


def test_batch_normalisation_is_torchs_own_over_all_frames_and_its_fold_is_the_evaluation() -> None:
    for synapse, spikes in synapses(Normalisation(kind="batch")):
        reference = (torch.nn.BatchNorm1d if spikes.dim() == 3 else torch.nn.BatchNorm2d)(5).double()
        reference.weight, reference.bias = synapse.gain, synapse.bias
        reference.running_mean = synapse.running_mean.clone()
        reference.running_var = synapse.running_var.clone()
        plain = synapse.apply_weight(spikes.flatten(0, 1), synapse.weight)
        for _ in range(3):
            torch.testing.assert_close(synapse.train()(spikes).flatten(0, 1), reference.train()(plain))
        torch.testing.assert_close(synapse.eval()(spikes).flatten(0, 1), reference.eval()(plain))


@pytest.mark.parametrize("norm", NORMS)
def test_a_constant_input_is_worked_out_once_with_the_result_of_T_times(
    norm: Normalisation, monkeypatch: pytest.MonkeyPatch
) -> None:
    for synapse, spikes in synapses(norm):
        frames: list[int] = []
        apply_weight = synapse.apply_weight

        def counted(given: Tensor, weight: Tensor, frames=frames, apply_weight=apply_weight) -> Tensor:
            frames.append(len(given))
            return apply_weight(given, weight)

        monkeypatch.setattr(synapse, "apply_weight", counted)
        constant = direct(spikes[0], 4)
        once, separately = synapse.eval()(constant), synapse.eval()(constant.contiguous())
        assert frames == [3, 12]  # 3 samples, once or at each of 4 steps
        torch.testing.assert_close(once, separately)


def test_a_constant_image_into_a_linear_layer_is_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    linear, frames = Linear(2 * 3 * 3, 4, 5), []
    monkeypatch.setattr(
        linear, "apply_weight", lambda given, weight: frames.append(len(given)) or given @ weight.T
    )
    image = torch.rand(6, 2, 3, 3)
    assert linear(direct(image, 5)).shape == (5, 6, 4)
    assert frames == [6]


def test_gradients_of_a_constant_input_are_those_of_T_convolutions() -> None:
    found = []
    for materialise in (False, True):
        torch.manual_seed(1)
        conv = disturb(Conv2d(2, 3, 3, 4, padding=1))
        image = torch.rand(2, 2, 5, 5, dtype=torch.float64, requires_grad=True)
        current = conv(direct(image, 4).contiguous() if materialise else direct(image, 4))
        (current * torch.randn(current.shape, dtype=torch.float64)).sum().backward()
        found.append([image.grad, *(p.grad for p in conv.parameters())])
    for once, separately in zip(*found, strict=True):
        torch.testing.assert_close(once, separately)


def test_an_image_is_flattened_for_a_linear_layer() -> None:
    linear, spikes = Linear(18, 4, 3), torch.rand(3, 2, 2, 3, 3)
    assert torch.equal(linear(spikes), linear(spikes.flatten(2)))


def test_the_current_comes_in_the_dtype_of_the_spikes() -> None:
    for norm in NORMS:
        for synapse in (Linear(6, 4, 3, norm), Linear(6, 4, 3, norm).eval()):
            current, _ = synapse.current(torch.rand(3, 8, 6).bfloat16())
            assert current.dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("synapse", "shape", "message"),
    [
        (Linear(6, 4, 3), (3, 6), r"Linear takes \[T, B, features\].*\[3, 6\]"),
        (Linear(6, 4, 3), (3, 2, 7), r"takes 6 inputs a sample, but was given 7"),
        (Linear(6, 4, 3), (3, 2, 2, 2, 2), r"takes 6 inputs a sample, but was given 8"),
        (
            Conv2d(2, 4, 3, 3),
            (3, 2, 3, 5, 5),
            r"takes \[T, B, 2, H, W\].*\[3, 2, 3, 5, 5\].*number of channels",
        ),
        (Conv2d(2, 4, 3, 3), (3, 2, 5, 5), r"takes \[T, B, 2, H, W\].*\[3, 2, 5, 5\]"),
    ],
)
def test_input_of_the_wrong_shape_is_refused(synapse: Synapse, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(FirstspikeError, match=message):
        synapse(torch.rand(shape))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "layer"}, r"normalisation kind 'layer'.*weight, batch, none"),
        ({"per": "unit"}, r"normalisation per 'unit'.*channel, layer"),
        ({"init": "xavier"}, r"normalisation init 'xavier'.*ettfs, kaiming"),
        ({"variance": 0.0}, r"variance must be positive, not 0"),
        ({"kind": "batch", "unit_weights": True}, r"unit_weights needs kind='weight'"),
    ],
)
def test_a_bad_normalisation_is_refused(fields: dict, message: str) -> None:
    with pytest.raises(FirstspikeError, match=message):
        replace(Normalisation(), **fields)


def test_a_channel_with_a_single_weight_is_refused() -> None:
    with pytest.raises(FirstspikeError, match="single weight"):
        Conv2d(1, 8, 1, T=4)
    Conv2d(1, 8, 1, T=4, normalisation=Normalisation(per="layer"))
