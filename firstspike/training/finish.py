"""Validation while training, and what a run leaves behind at its end."""

import copy
import importlib.util
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

import torch
from safetensors import SafetensorError
from safetensors.torch import save_model
from torch import nn

from firstspike.data import Dataset
from firstspike.errors import FirstspikeError
from firstspike.functional.decoding import TieRule, predict
from firstspike.measure import evaluate, evaluate_rate
from firstspike.measure.evaluate import batches_of
from firstspike.measure.plots import accuracy_curve, spike_raster
from firstspike.models import Network, RateTwin, Twin, save
from firstspike.nn import Output
from firstspike.training.fall import choose_fall
from firstspike.training.run import Run, whole
from firstspike.training.trainer import Trainer


def validate(trainer: Trainer) -> dict[str, float]:
    """Accuracy and steps on the validation set, under the moving average where there is one.

    Spikes and operations, which take longer to count than an epoch of a small set to train, are left to the end.
    """
    if trainer.validation_set is None or not trainer.place.leads:
        return {}
    model, dataset, device = trainer.model, trainer.validation_set, trainer.place.device
    if trainer.average:
        trainer.average.swap(model)
    try:
        if isinstance(model, RateTwin):
            measures = evaluate_rate(model, dataset, device=device).as_dict()
        else:
            measures = answers(model, dataset, device, trainer.to_format)
    finally:
        if trainer.average:
            trainer.average.swap(model)
    wanted = ("strict", "potential", "steps", "tied", "silent", "accuracy")
    return {f"validation_{name}": measures[name] for name in wanted if name in measures}


def score(model: nn.Module, dataset: Dataset, device: torch.device) -> dict[str, Any]:
    """The measures of a network on a data set; of other modules those that can be told from their output."""
    if isinstance(model, Network):
        return evaluate(model, dataset, device=device).as_dict()
    if isinstance(model, RateTwin):
        return evaluate_rate(model, dataset, device=device).as_dict()
    return answers(model, dataset, device)


@torch.no_grad()
def answers(
    model: nn.Module,
    dataset: Dataset,
    device: torch.device,
    to_format: Callable[[torch.Tensor], torch.Tensor] = lambda images: images,
) -> dict[str, Any]:
    """What can be told from the output alone: of spikes accuracy, steps, ties and silence, of logits accuracy."""
    training = model.training
    model.eval()
    totals: Counter[str] = Counter()
    measures: dict[str, Any] = {"dataset": f"{dataset.name}, {dataset.split}", "samples": len(dataset)}
    for batch in batches_of(dataset, 256, device):
        answer = model(to_format(batch.images))
        if isinstance(answer, Output):
            measures["T"] = len(answer.spikes)
            totals.update(_count(answer, batch.labels))
        else:
            totals["accuracy"] += 100 * int((answer.argmax(1) == batch.labels).sum())
    model.train(training)
    return measures | {name: total / len(dataset) for name, total in totals.items()}


def _count(output: Output, labels: torch.Tensor) -> dict[str, int]:
    """The measures of a batch, summed over its samples."""
    strict, potential = (predict(output.spike_times, output.membrane, ties) for ties in get_args(TieRule))
    return {
        "strict": 100 * int((strict.label == labels).sum()),
        "potential": 100 * int((potential.label == labels).sum()),
        "steps": int(strict.steps.sum()),
        "tied": 100 * int(strict.tied.sum()),
        "silent": 100 * int(strict.silent.sum()),
    }


def finish(run: Run, trainer: Trainer) -> None:
    """Save the model, read the test set once, and draw the pictures.

    The test is of the network as others will run it: fused, in float32, whatever training computed in.
    """
    trainer.take_steps()
    if trainer.average:
        trainer.average.swap(trainer.model)
    if not trainer.place.leads or trainer.test_set is None:
        return
    model: nn.Module = copy.deepcopy(trainer.model).eval()
    chosen: dict[str, Any] = {}
    if trainer.recipe.network.choose_fall and isinstance(model, Network):
        fall = choose_fall(model, trainer.recipe, trainer.train_set, trainer.validation_set)
        model.set_fall(fall.fall, fall.lift, fall.T)
        chosen = {"fall": asdict(fall)}
    if isinstance(model, Network | Twin):
        save(model, run.model)
    else:
        save_weights(model, run.model)
    tested = model
    for network in (model, getattr(model, "net", None)):
        if isinstance(network, Network):
            network.compute_dtype = None
    if isinstance(model, Network):
        tested = model.fuse()
    allowed, torch.backends.cudnn.allow_tf32 = torch.backends.cudnn.allow_tf32, False
    dataset = trainer.test_set
    started = time.monotonic()
    test = score(tested, dataset, trainer.place.device)
    torch.backends.cudnn.allow_tf32 = allowed
    epochs = run.metrics("epoch")
    draw(run, tested, dataset, trainer.place.device)
    run.finish(  # last of all: a run that has it is finished
        {
            "recipe": trainer.recipe.name,
            "seed": trainer.recipe.seed,
            "epochs": trainer.recipe.epochs,
            **chosen,
            "test": test,
            "test_seconds": round(time.monotonic() - started, 2),
            "last_epoch": epochs[-1] if epochs else {},
        }
    )


def save_weights(model: nn.Module, folder: Path) -> None:
    """The state of a module that only its author can build again, by the names of its `state_dict`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with whole(folder / "model.safetensors") as part:
            save_model(model, str(part))
    except (OSError, SafetensorError) as error:
        raise FirstspikeError(f"Could not save the model to {folder}: {error}.") from error


def draw(run: Run, tested: nn.Module, dataset: Dataset, device: torch.device) -> None:
    """The accuracy curve of a run and the spikes of one test image; nothing where matplotlib is missing."""
    if importlib.util.find_spec("matplotlib") is None:
        return
    with run.writing(), whole(run.folder / "accuracy.png") as part:
        accuracy_curve(run.metrics("epoch"), part)
    if isinstance(tested, Network):
        image = next(iter(batches_of(dataset.subset(torch.arange(1)), 1, device)))
        _, times = tested.trace(image.images)
        label = dataset.classes[int(image.labels[0])]
        with run.writing(), whole(run.folder / "raster.png") as part:
            spike_raster(times, tested.T, part, f"One image of class {label}")
