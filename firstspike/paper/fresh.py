"""Networks before training, by their initialisation, and what is seen of them."""

import math
from typing import Any

import torch

from firstspike import measure
from firstspike.data import Batch, load
from firstspike.functional.decoding import temporal_weighting, temporal_weights
from firstspike.measure.distributions import mean_variance
from firstspike.measure.evaluate import batches_of
from firstspike.models import Network, build
from firstspike.nn import Normalisation, Output
from firstspike.paper.runs import SAMPLES, diagnose
from firstspike.paper.table import Claim

INITS = {"kaiming": "Kaiming", "ettfs": "ETTFS-init"}
DEEP = "C20K5-P2-C40K5-P2-{FC400}*6-FC10"
"""Nine layers, in which a signal that diminishes has room to."""


def fresh(init: str, architecture: str, T: int = 8, pooling: str = "average") -> Network:
    """An untrained network without normalisation."""
    plain = Normalisation(kind="none", gain=False, bias=False, init=init)  # type: ignore[arg-type]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return build(
            architecture,
            (1, 28, 28),
            T=T,
            normalisation=plain,
            pooling=pooling,
            input_mean=(0.286,),
            input_std=(0.353,),
        )


def some_images() -> Batch:
    """Images of the shipped sample, the same ones every time."""
    dataset = load("fashion-mnist-sample", "train")
    images = dataset.subset(torch.linspace(0, len(dataset) - 1, SAMPLES).long())
    return next(iter(batches_of(images, SAMPLES, "cpu")))


def looked_at(architecture: str) -> dict[str, dict[str, Any]]:
    """Currents and gradients of fresh networks, by initialisation."""
    batch, weights = some_images(), temporal_weights(8)

    def loss(output: Output) -> torch.Tensor:
        target = torch.nn.functional.one_hot(batch.labels, 10)
        return (temporal_weighting(output.spikes, weights) - target).square().sum(1).mean()

    return {init: diagnose(fresh(init, architecture), batch, loss) for init in INITS}


def unforced(architecture: str) -> dict[str, list[float]]:
    """Variance of the current by layer in inference, where no neuron is made to fire."""
    images = some_images().images
    return {
        init: [
            mean_variance(current)
            for current in measure.currents(fresh(init, architecture), images, False).values()
        ]
        for init in INITS
    }


def pooling_claim() -> Claim:
    """Average pooling keeps the sum over time at 1; max pooling does not."""
    images = load("fashion-mnist-sample", "train").images[:32].float() / 255
    most = {}
    for pooling in ("average", "max"):
        net = fresh("ettfs", "SCNN5", pooling=pooling).train()
        net.skip_last_frame = False
        spikes = net.layers[1](net.layers[0](net.encode(images)))
        most[pooling] = float(spikes.detach().sum(0).max())
    return Claim(
        "Average pooling keeps one spike over time where max pooling does not.",
        math.isclose(most["average"], 1, abs_tol=1e-5) and most["max"] > 1,
        f"Largest sum over time behind SCNN5's first pool: {most['average']:.2f} (average), {most['max']:.0f} (max).",
    )
