"""Training with deferred gradients, through Triton's interpreter: `TRITON_INTERPRET=1 pytest tests/kernels`."""

import importlib.util
import os
from copy import deepcopy
from typing import Any

import numpy
import pytest
import torch
from torch import nn

from firstspike.errors import FirstspikeError
from firstspike.models import Network, build
from firstspike.nn import Normalisation
from firstspike.training import adam
from firstspike.training.adam import DeferringAdamW
from firstspike.training.capture import StaticStep
from firstspike.training.diagnosis import observe
from firstspike.training.optimizer import OptimizerConfig, make_optimizers
from firstspike.training.trainer import Trainer
from tests.training.small import recipe, train, trainer

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("triton") is None or os.environ.get("TRITON_INTERPRET") != "1",
        reason="needs Triton and TRITON_INTERPRET=1",
    ),
    pytest.mark.skipif(
        numpy.lib.NumpyVersion(numpy.__version__) >= "2.4.0",
        reason="Triton 3.6's interpreter takes arrays for numbers, which numpy 2.4 refuses",
    ),
    pytest.mark.filterwarnings("ignore:Conversion of an array with ndim > 0:DeprecationWarning"),
]


@pytest.fixture(autouse=True)
def all_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adam, "LARGE", 1)


def make(kind: Any = "adamw", deferring: bool = True, **options: Any) -> Trainer:
    """A trainer whose hidden and output weights are deferred, or one that differs in nothing else."""
    config = OptimizerConfig(kind, lr=0.02, weight_decay=0.05, **options)
    one = trainer(recipe("FC16-FC4", optimizer=config))
    if not deferring:
        one.optimizers = make_optimizers(one.model, config, alone=False)
    assert isinstance(one.optimizers[0], DeferringAdamW) is deferring
    return one


def same(found: Trainer, expected: Trainer) -> None:
    torch.testing.assert_close(found.model.state_dict(), expected.model.state_dict(), rtol=1e-4, atol=1e-5)
    for one, other in zip(found.optimizers, expected.optimizers, strict=True):
        torch.testing.assert_close(
            one.state_dict()["state"], other.state_dict()["state"], rtol=1e-3, atol=1e-5, check_device=False
        )


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_training_is_the_same(kind: Any) -> None:
    deferring, plain = make(kind, ema=0.9), make(kind, deferring=False, ema=0.9)
    assert train(deferring, 6) == pytest.approx(train(plain, 6), rel=1e-4)
    same(deferring, plain)


def test_a_static_step_with_rates_on_the_device_trains_as_a_plain_one() -> None:
    static, plain = make(), make()
    step = StaticStep(static, graph=False)
    step.begin()
    for _ in range(3):
        step()
    train(plain, 3)
    same(static, plain)


@pytest.mark.parametrize("first", [True, False])
def test_a_checkpoint_goes_on_in_the_other_way(first: bool) -> None:
    before, after, expected = make(deferring=first), make(deferring=not first), make(deferring=first)
    train(before, 3)
    after.restore(deepcopy(before.state()))
    train(after, 3)
    train(expected, 6)
    same(after, expected)


def test_the_gradients_of_weights_are_never_made_but_their_norms_are_known() -> None:
    deferring, plain = make(), make(deferring=False)
    seen = []
    for one in (deferring, plain):
        train(one, 2)
        batch = next(one.batches.epoch(0))
        seen.append(observe(one.model, batch.images, batch.labels))
    synapses = [module.synapse for module in deferring.network.layers]
    assert all(synapse.weight.grad is None for synapse in synapses)
    assert all(synapse.deferred.grad is None for synapse in synapses)
    for name, layer in seen[1].layers.items():
        assert seen[0].layers[name].gradient == pytest.approx(layer.gradient, rel=1e-4)
        assert layer.gradient > 0


def loss_of(net: Network, images: torch.Tensor, own: bool) -> torch.Tensor:
    """A loss of the spikes, and where `own` says so of the first weight itself."""
    spikes = (net(images).spikes * torch.arange(16.0).view(4, 1, 4)).sum()
    return spikes + net.layers[0].synapse.weight.square().sum() if own else spikes


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("passes", [1, 2])
def test_other_gradients_and_several_passes_add_up(own: bool, passes: int) -> None:
    net = build("FC6-FC4", (5,), T=4, classes=4)
    images, results = torch.rand(passes, 3, 5), []
    for alone in (True, False):
        one = deepcopy(net)
        (optimizer,) = make_optimizers(one, OptimizerConfig("adamw", lr=0.01), alone)
        optimizer.zero_grad()
        for part in images:
            loss_of(one, part, own).backward()
        optimizer.step()
        results.append(one.state_dict())
    torch.testing.assert_close(results[0], results[1], rtol=1e-4, atol=1e-5)


def test_a_second_backward_pass_is_refused() -> None:
    net = build("FC6-FC4", (5,), T=4, classes=4)
    (optimizer,) = make_optimizers(net, OptimizerConfig("adamw"))
    optimizer.zero_grad()
    loss = loss_of(net, torch.rand(3, 5), own=False)
    loss.backward(retain_graph=True)
    with pytest.raises(FirstspikeError, match="one backward pass"):
        loss.backward()


@pytest.mark.parametrize("steps", [0, 1])
def test_outside_of_a_step_gradients_are_as_ever(steps: int) -> None:
    """Before the optimiser's first zero_grad, and after its step."""
    net = build("FC6-FC4", (5,), T=4, classes=4)
    (optimizer,) = make_optimizers(net, OptimizerConfig("adamw"))
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of(net, torch.rand(3, 5), own=False).backward()
        assert all(layer.synapse.weight.grad is None for layer in net.layers)
        optimizer.step()
    loss_of(net, torch.rand(3, 5), own=False).backward()
    assert all(layer.synapse.weight.grad is not None for layer in net.layers)


@pytest.mark.parametrize(
    ("net", "config", "alone"),
    [
        (build("FC6-FC4", (5,), T=4), OptimizerConfig("adamw", clip=1.0), True),
        (build("FC6-FC4", (5,), T=4), OptimizerConfig("adamw"), False),
        (build("FC6-FC4", (5,), T=4), OptimizerConfig("sgd"), True),
        (build("FC6-FC4", (5,), T=4, normalisation=Normalisation("batch")), OptimizerConfig("adamw"), True),
        (
            build("FC6-FC4", (5,), T=4, normalisation=Normalisation(per="layer")),
            OptimizerConfig("adamw"),
            True,
        ),
        (nn.Sequential(build("FC6-FC4", (5,), T=4)), OptimizerConfig("adamw"), True),
    ],
)
def test_the_plain_way_is_taken_where_gradients_are_wanted_whole(
    net: nn.Module, config: OptimizerConfig, alone: bool
) -> None:
    assert not any(isinstance(one, DeferringAdamW) for one in make_optimizers(net, config, alone))


def test_muon_keeps_the_weights_it_takes() -> None:
    net = build("FC6-FC6-FC4", (5,), T=4)
    one, muon = make_optimizers(net, OptimizerConfig("muon", muon_dense=True))
    assert isinstance(one, DeferringAdamW)
    assert not set(muon.param_groups[0]["params"]) & set(one.synapses)
    assert len(one.synapses) == 2
