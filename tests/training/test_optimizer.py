"""Optimisers, which parameter goes where, the schedule and the moving average."""

import math
from copy import deepcopy as copy_of
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from firstspike.errors import FirstspikeError
from firstspike.models import build
from firstspike.nn import Neuron
from firstspike.training.muon import Muon, orthogonalise
from firstspike.training.optimizer import MovingAverage, OptimizerConfig, Schedule, make_optimizers, set_rate
from tests.training.small import recipe, train, trainer


def net() -> nn.Module:
    return build("C4K3-C6K3-C6K3-P2-FC8-FC8-FC4", (1, 8, 8), T=4, neuron=Neuron(learn_threshold="channel"))


def names_in(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, float]:
    """Names of the parameters that an optimiser trains, with their decay."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    groups = optimizer.param_groups
    return {names[id(p)]: group["weight_decay"] for group in groups for p in group["params"]}


@pytest.mark.parametrize("kind", ["sgd", "adamw"])
def test_only_weights_decay(kind: Any) -> None:
    model = net()
    (optimizer,) = make_optimizers(model, OptimizerConfig(kind, weight_decay=0.1))
    decay = names_in(model, optimizer)
    assert decay.keys() == dict(model.named_parameters()).keys()
    for name, value in decay.items():
        assert value == (0.1 if name.endswith("weight") else 0.0), name


@pytest.mark.parametrize("dense", [False, True])
def test_muon_takes_hidden_convolutions_and_dense_weights_only_if_asked(dense: bool) -> None:
    model = net()
    adam, muon = make_optimizers(model, OptimizerConfig("muon", muon_dense=dense, weight_decay=0.1))
    convolutions = {"layers.1.synapse.weight", "layers.2.synapse.weight"}
    full = {"layers.4.synapse.weight", "layers.5.synapse.weight"}
    taken = names_in(model, muon)
    assert taken.keys() == (convolutions | full if dense else convolutions)
    assert set(taken.values()) == {0.1}
    assert taken.keys() | names_in(model, adam).keys() == dict(model.named_parameters()).keys()
    assert not taken.keys() & names_in(model, adam).keys()


def test_a_network_without_hidden_matrices_needs_no_muon() -> None:
    assert len(make_optimizers(build("FC8-FC4", (5,)), OptimizerConfig("muon"))) == 1


def test_muon_is_torchs_own_on_matrices() -> None:
    """torch scales by 0.2 sqrt(max(r, c)) and works in bfloat16; ours by sqrt(max(r, c)) in float32."""
    ours = nn.Parameter(torch.randn(24, 40))
    theirs = nn.Parameter(ours.detach().clone())
    settings = {"momentum": 0.9, "weight_decay": 0.1}
    one = Muon([ours], lr=0.002, **settings)
    # torch's decay is not scaled, so that its rate must be ours and its update five times smaller
    other = torch.optim.Muon([theirs], lr=0.002, nesterov=True, adjust_lr_fn="match_rms_adamw", **settings)
    for _ in range(4):
        gradient = torch.randn(24, 40)
        before = ours.detach().clone()
        ours.grad, theirs.grad = gradient.clone(), gradient.clone()
        one.step()
        other.step()
        kept = before * (1 - 0.002 * 0.1)
        torch.testing.assert_close((ours - kept) * 0.2, theirs - kept, atol=3e-4, rtol=0.05)
        with torch.no_grad():
            theirs.copy_(ours)


@pytest.mark.parametrize("shape", [(8, 8), (6, 30), (30, 6)])
def test_updates_are_nearly_orthogonal(shape: tuple[int, int]) -> None:
    values = torch.linalg.svdvals(orthogonalise(torch.randn(3, *shape)))
    assert values.max() < 1.35
    assert values.median() > 0.6
    wide = torch.linalg.svdvals(orthogonalise(torch.diag_embed(torch.linspace(0.1, 1, 6))[None]))
    assert 0.5 < wide.min() < wide.max() < 1.35


def test_the_directions_of_a_matrix_are_kept() -> None:
    matrix = torch.randn(1, 5, 9, dtype=torch.float64)
    u, _, v = torch.linalg.svd(matrix[0], full_matrices=False)
    turned = u.mT @ orthogonalise(matrix)[0] @ v.mT
    torch.testing.assert_close(turned, torch.diag(turned.diagonal()), atol=1e-9, rtol=0)
    assert turned.diagonal().min() > 0


def step(weights: list[Tensor], grads: list[Tensor], lr: float = 1.0) -> list[Tensor]:
    parameters = [nn.Parameter(weight.clone()) for weight in weights]
    for parameter, grad in zip(parameters, grads, strict=True):
        parameter.grad = grad.clone()
    Muon(parameters, lr=lr).step()
    return [parameter.detach() for parameter in parameters]


def test_weights_of_one_shape_move_together_as_they_would_alone() -> None:
    weights = [torch.randn(6, 4, 3, 3) for _ in range(3)] + [torch.randn(6, 5)]
    grads = [torch.randn_like(weight) for weight in weights]
    together = step(weights, grads)
    for index in range(4):
        (alone,) = step([weights[index]], [grads[index]])
        torch.testing.assert_close(together[index], alone)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_a_convolution_moves_as_its_matrix_with_unit_root_mean_square(layout: torch.memory_format) -> None:
    weight, grad = torch.randn(8, 4, 3, 3), torch.randn(8, 4, 3, 3)
    (moved,) = step([weight.to(memory_format=layout)], [grad.to(memory_format=layout)])
    (flat,) = step([weight.flatten(1)], [grad.flatten(1)])
    torch.testing.assert_close(moved.flatten(1), flat)
    assert (moved - weight).square().mean().sqrt() == pytest.approx(1.0, abs=0.2)


def test_muon_keeps_its_momentum_through_a_checkpoint() -> None:
    weight = nn.Parameter(torch.randn(4, 6))
    one = Muon([weight], lr=0.1)
    weight.grad = torch.randn(4, 6)
    one.step()
    copy = nn.Parameter(weight.detach().clone())
    other = Muon([copy], lr=0.1)
    other.load_state_dict(copy_of(one.state_dict()))
    copy.grad = weight.grad = torch.randn(4, 6)
    one.step()
    other.step()
    assert torch.equal(weight, copy)


def test_the_schedule_rises_falls_and_spans_the_run() -> None:
    schedule = Schedule(warmup=2, final=0.1)
    assert [schedule.factor(epoch, 10) for epoch in (0, 1, 2)] == [0, 0.5, 1]
    assert schedule.factor(6, 10) == pytest.approx(0.1 + 0.9 * 0.5)
    assert schedule.factor(10, 10) == pytest.approx(0.1)
    rates = [schedule.factor(2 + step / 50, 10) for step in range(401)]
    assert rates == sorted(rates, reverse=True)
    assert schedule.factor(3, 10) == pytest.approx(0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi / 8)))


def test_a_constant_schedule_stays_at_its_peak() -> None:
    schedule = Schedule("constant", warmup=1)
    assert [schedule.factor(epoch, 4) for epoch in (0.5, 1, 2, 4)] == [0.5, 1, 1, 1]
    assert Schedule(warmup=0).factor(0, 4) == 1


def test_every_group_follows_the_schedule_from_its_own_peak() -> None:
    optimizers = make_optimizers(net(), OptimizerConfig("muon", lr=0.02, muon_lr=0.04))
    for factor in (1.0, 0.25):
        set_rate(optimizers, factor)
        rates = {group["lr"] for optimizer in optimizers for group in optimizer.param_groups}
        assert rates == {0.02 * factor, 0.04 * factor}


def test_training_sets_the_rate_by_its_position_in_the_whole_run() -> None:
    one = trainer(recipe(epochs=3, schedule=Schedule(warmup=0.5)))
    train(one, 6)
    assert one.optimizers[0].param_groups[0]["lr"] == pytest.approx(0.1 * 5 / 12)
    train(one, 24)
    expected = Schedule(warmup=0.5).factor(29 / 24, 3) * 0.1
    assert one.optimizers[0].param_groups[0]["lr"] == pytest.approx(expected)


def test_the_average_follows_its_formula_and_soon_forgets_the_random_start() -> None:
    model = nn.Linear(2, 1)
    start = model.weight.detach().clone()
    average = MovingAverage(model, 0.99)
    expected, forgotten = start.clone(), 1.0
    for update in range(1, 41):
        with torch.no_grad():
            model.weight.copy_(torch.full((1, 2), float(update)))
        average.update(model)
        decay = min(0.99, (1 + update) / (10 + update))
        expected = decay * expected + (1 - decay) * update
        forgotten *= decay
    torch.testing.assert_close(average.values[0], expected)
    assert forgotten < 1e-4


def test_swapping_twice_brings_everything_back() -> None:
    model = net()
    average = MovingAverage(model, 0.9)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1.0)
    trained = [parameter.detach().clone() for parameter in model.parameters()]
    kept = [value.clone() for value in average.values]
    average.swap(model)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), kept, strict=True))
    average.swap(model)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), trained, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(average.values, kept, strict=True))


def test_clipping_bounds_the_gradient_and_keeps_its_direction() -> None:
    gradients = []
    for clip in (0.0, 0.01):
        one = trainer(recipe(optimizer=OptimizerConfig(clip=clip)))
        train(one, 1)
        gradients.append(torch.cat([p.grad.flatten() for p in one.model.parameters() if p.grad is not None]))
    free, bound = gradients
    assert free.norm() > 0.05
    assert bound.norm() == pytest.approx(0.01, rel=1e-4)
    torch.testing.assert_close(bound / bound.norm(), free / free.norm())


@pytest.mark.parametrize(
    "wrong",
    [{"lr": 0.0}, {"muon_lr": -1.0}, {"ema": 1.0}, {"clip": -1.0}, {"weight_decay": -0.1}, {"momentum": 1.0}],
)
def test_bad_settings_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(FirstspikeError):
        OptimizerConfig(**wrong)  # type: ignore[arg-type]


def test_unknown_kinds_are_refused() -> None:
    with pytest.raises(FirstspikeError, match="choose sgd, adamw or muon"):
        OptimizerConfig("adam")  # type: ignore[arg-type]
    with pytest.raises(FirstspikeError, match="choose cosine or constant"):
        Schedule("linear")  # type: ignore[arg-type]


def test_a_model_that_has_nothing_to_train_is_refused() -> None:
    class Hidden(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = [nn.Linear(3, 2)]  # a plain list hides its layers

    with pytest.raises(FirstspikeError, match=r"Hidden has no parameters to train.*ModuleList"):
        make_optimizers(Hidden(), OptimizerConfig())
