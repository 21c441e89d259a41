"""`firstspike classify`: one image in, class and time out."""

import statistics
import time
from pathlib import Path
from typing import Annotated, Literal

import tyro

from firstspike.cli.evaluate import find_network
from firstspike.data import catalogue
from firstspike.errors import FirstspikeError
from firstspike.inference import Answer, Engine, available, infer
from firstspike.inference.picture import Picture, read_picture
from firstspike.inference.plan import UnsupportedError, Weights
from firstspike.models import Network


def classify(
    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")],
    images: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="IMAGE")],
    ties: Literal["potential", "strict"] = "potential",
    weights: Weights = "float32",
    raster: Path | None = None,
    resize: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
) -> None:
    """Classify images, each as soon as the network knows: class, confidence gap, steps, spikes, microseconds.

    The gap is by how much the answer's membrane potential leads that of the best other class.

    Args:
        model: A run folder, a model folder, or a network of the package (fashion-mnist-scnn5).
        images: Image files, or samples of a data set as DATASET:INDEX (fashion-mnist-sample:test:3).
        ties: Who answers when several classes fire first: the highest membrane, or the lowest index.
        weights: Of the native engine: float32, int8 in fully connected layers, or int8-all in convolutions too.
        raster: Draw the wave of first spikes of the first image to this file (PNG, PDF or SVG).
        resize: Cut and scale pictures to the size that the network takes.
    """
    net, trained_on = find_network(model)
    dataset = trained_on.name
    if not isinstance(net, Network):
        raise FirstspikeError(f"{model} holds a ReLU twin; only a spiking network can answer early.")
    if not images:
        raise FirstspikeError("Give at least one image: a file, or DATASET:INDEX.")
    runner = find_runner(net, weights)
    rows = [("image", "class", "gap", "steps", "spikes", "us")]
    for number, source in enumerate(images):
        picture = read_picture(net, source, resize, trained_on.integrate, trained_on.clip, trained_on.fade)
        answer, microseconds = timed(runner, picture, ties, times=raster is not None and number == 0)
        if answer.times is not None and raster is not None:
            draw(answer, picture, net, raster, class_name(answer, picture, dataset))
        rows.append(
            (
                source,
                class_name(answer, picture, dataset) + verdict(answer, picture),
                f"{float(answer.gap):.2f}",
                f"{int(answer.steps)} of {net.T}",
                f"{int(answer.spikes.sum()):,}",
                f"{microseconds:,.0f}",
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = zip(row, widths, "<<>>>>", strict=True)
        print("  ".join(f"{cell:{side}{width}}" for cell, width, side in cells))
    print(f"By {answer.engine or 'PyTorch'}.")
    if not available():
        print("The native engine, which is much faster, is not built: pip install ./native")


def find_runner(net: Network, weights: Weights) -> Network | Engine:
    """The engine where it can run this network, else the network itself."""
    if not available() and weights == "float32":
        return net.fuse()
    try:
        return Engine(net, weights)
    except UnsupportedError:
        if weights != "float32":
            raise
        return net.fuse()


def timed(
    runner: Network | Engine, picture: Picture, ties: Literal["potential", "strict"], times: bool
) -> tuple[Answer, float]:
    """The answer, and the microseconds it takes once warm: the median of nine calls."""
    answer = infer(runner, picture.values, ties, times)
    spans = []
    for _ in range(9):
        start = time.perf_counter()
        infer(runner, picture.values, ties)
        spans.append(time.perf_counter() - start)
    return answer, 1e6 * statistics.median(spans)


def class_name(answer: Answer, picture: Picture, dataset: str) -> str:
    """The name of the answer's class, where its data set has names."""
    label = int(answer.label)
    classes = picture.classes or (catalogue[dataset].classes if dataset in catalogue else ())
    return classes[label] if label < len(classes) else str(label)


def verdict(answer: Answer, picture: Picture) -> str:
    """What else there is to say about the answer."""
    silent = ", no class fired" if bool(answer.silent) else ""
    if picture.truth is None or picture.truth == int(answer.label):
        return silent
    truth = picture.classes[picture.truth] if picture.truth < len(picture.classes) else picture.truth
    return f"{silent} (labelled {truth})"


def draw(answer: Answer, picture: Picture, net: Network, path: Path, label: str) -> None:
    """The wave of first spikes."""
    from firstspike.measure.plots import spike_raster

    assert answer.times is not None
    try:
        spike_raster(answer.times, net.T, path, f"{picture.name}: {label}, step {int(answer.steps)}")
    except (OSError, ValueError) as error:
        raise FirstspikeError(f"Could not draw to {path}: {error}.") from error
