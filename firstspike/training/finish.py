"""Validation while training, and what a run leaves behind at its end."""

import copy
import importlib.util
import time
from typing import Any

import torch
from torch import nn

from firstspike.data import Dataset, load
from firstspike.measure import evaluate
from firstspike.measure.evaluate import batches_of
from firstspike.measure.plots import accuracy_curve, spike_raster
from firstspike.models import Network, Twin, save
from firstspike.training.recipe import Recipe
from firstspike.training.run import Run
from firstspike.training.trainer import Trainer


def validate(trainer: Trainer) -> dict[str, float]:
    """Accuracy and steps on the validation set, under the moving average where there is one."""
    if trainer.validation_set is None or not trainer.place.leads:
        return {}
    if trainer.average:
        trainer.average.swap(trainer.model)
    try:
        measures = score(trainer.model, trainer.validation_set, trainer.place.device)
    finally:
        if trainer.average:
            trainer.average.swap(trainer.model)
    wanted = ("strict", "potential", "steps", "tied", "silent", "spikes", "accuracy")
    return {f"validation_{name}": measures[name] for name in wanted if name in measures}


def score(model: nn.Module, dataset: Dataset, device: torch.device) -> dict[str, Any]:
    """The measures of a network, or the accuracy of a ReLU twin, on a data set."""
    if isinstance(model, Network):
        return evaluate(model, dataset, device=device).as_dict()
    training = model.training
    model.eval()
    correct = 0.0
    with torch.no_grad():
        for batch in batches_of(dataset, 256, device):
            answer = model(batch.images)
            label = answer.argmax(1) if isinstance(answer, torch.Tensor) else answer.spike_times.argmin(1)
            correct += float((label == batch.labels).sum())
    model.train(training)
    return {"dataset": f"{dataset.name}, {dataset.split}", "accuracy": 100 * correct / len(dataset)}


def test_set(recipe: Recipe) -> Dataset:
    T = recipe.T if recipe.encoding == "frames" else None
    return load(recipe.data.name, "test", T=T, integrate=recipe.data.integrate)


def finish(run: Run, trainer: Trainer) -> None:
    """Save the model, read the test set once, and draw the pictures.

    The test is of the network as others will run it: fused, in float32, whatever training computed in.
    """
    if trainer.average:
        trainer.average.swap(trainer.model)
    if not trainer.place.leads:
        return
    model: nn.Module = copy.deepcopy(trainer.model).eval()
    if isinstance(model, Network | Twin):
        save(model, run.model)
    tested = model
    for network in (model, getattr(model, "net", None)):
        if isinstance(network, Network):
            network.compute_dtype = None
    if isinstance(model, Network):
        tested = model.fuse()
    allowed, torch.backends.cudnn.allow_tf32 = torch.backends.cudnn.allow_tf32, False
    dataset = test_set(trainer.recipe)
    started = time.monotonic()
    test = score(tested, dataset, trainer.place.device)
    torch.backends.cudnn.allow_tf32 = allowed
    epochs = run.metrics("epoch")
    run.finish(
        {
            "recipe": trainer.recipe.name,
            "seed": trainer.recipe.seed,
            "epochs": trainer.recipe.epochs,
            "test": test,
            "test_seconds": round(time.monotonic() - started, 2),
            "last_epoch": epochs[-1] if epochs else {},
        }
    )
    draw(run, tested, dataset, trainer.place.device)


def draw(run: Run, tested: nn.Module, dataset: Dataset, device: torch.device) -> None:
    """The accuracy curve of a run and the spikes of one test image; nothing where matplotlib is missing."""
    if importlib.util.find_spec("matplotlib") is None:
        return
    accuracy_curve(run.metrics("epoch"), run.folder / "accuracy.png")
    if isinstance(tested, Network):
        image = next(iter(batches_of(dataset.subset(torch.arange(1)), 1, device)))
        _, times = tested.trace(image.images)
        label = dataset.classes[int(image.labels[0])]
        spike_raster(times, tested.T, run.folder / "raster.png", f"One image of class {label}")
