"""Training in bfloat16, on the CPU as on a GPU."""

from pathlib import Path

import pytest
import torch

from firstspike.kernels import neuron_cpu
from firstspike.training import Options, Recipe, fit, resume
from firstspike.training.loss import Loss
from firstspike.training.optimizer import OptimizerConfig
from tests.training.processes import outcome
from tests.training.small import recipe, trainer


def in_bfloat16() -> Recipe:
    return recipe(
        "C8K3-P2-FC16-FC4",
        epochs=3,
        precision="bfloat16",
        loss=Loss(mse=0.0, threshold=1.0),
        optimizer=OptimizerConfig("adamw", lr=0.01),
    )


def test_it_learns_and_stopped_and_resumed_it_ends_bit_identical(tmp_path: Path) -> None:
    run = fit(in_bfloat16(), tmp_path / "whole", options=Options(device="cpu"))
    assert run.metrics("epoch")[-1]["train_accuracy"] > 60, "four classes"
    fit(in_bfloat16(), tmp_path / "stopped", options=Options(device="cpu", max_minutes=0))
    resume(tmp_path / "stopped", options=Options(device="cpu"))
    assert outcome(tmp_path / "stopped") == outcome(tmp_path / "whole")


def test_synapses_compute_in_it_and_all_that_is_learned_stays_float32() -> None:
    one = trainer(in_bfloat16())
    batch = next(one.batches.epoch(0))
    images = one.to_format(batch.images)
    current, bias = one.network.layers[0].synapse.current(one.network.encode(images))
    assert current.dtype == torch.bfloat16
    assert neuron_cpu.takes(current, 1.0, bias)
    assert one.loss(one.wrapped(images), batch).dtype == torch.float32
    assert all(parameter.dtype == torch.float32 for parameter in one.model.parameters())


@pytest.mark.parametrize("shape", [(4, 3, 6, 5), (2, 4, 3, 6, 5)])
def test_images_and_event_frames_reach_a_network_channels_last(shape: tuple[int, ...]) -> None:
    images = torch.rand(shape)
    laid_out = trainer(in_bfloat16()).to_format(images)
    assert torch.equal(laid_out, images)
    assert laid_out.movedim(-3, -1).is_contiguous()
    assert trainer(in_bfloat16(), torch.nn.Linear(2, 2)).to_format(images).is_contiguous(), "not our network"
