"""`infer`: the class of each image, as early as the network knows it."""

from torch import Tensor

from firstspike.errors import FirstspikeError
from firstspike.functional.decoding import TieRule
from firstspike.inference import native
from firstspike.inference.answer import Answer
from firstspike.inference.batched import Batched
from firstspike.inference.engine import Engine
from firstspike.inference.given import check_images
from firstspike.inference.plan import UnsupportedError
from firstspike.inference.reference import reference
from firstspike.models import Network


def infer(
    net: Network | Engine | Batched,
    images: Tensor,
    ties: TieRule = "potential",
    times: bool = False,
    threads: int = 1,
) -> Answer:
    """Classify images, each sample stopping at its first output spike.

    The native engine is used where it is installed and can run the network on this device; else the same answers
    come from PyTorch (`Answer.engine` says which). A network is compiled anew at each call: for many calls, make
    an `Engine` once and give that; on a GPU, a `Batched`.

    Args:
        net: a network, an `Engine`, or a `Batched` (which notes no spike times).
        images: `[B, C, H, W]`, or event frames `[T, B, C, H, W]`, floating point as in training.
        ties: who answers when several classes fire first, or none: the highest membrane `potential`, or the
            lowest index (`strict`, the paper's rule; silence is class 0).
        times: also return the spike times of every layer.
        threads: of the native engine, where `net` is a network.
    """
    if isinstance(net, Engine):
        return net(images, ties, times)
    if isinstance(net, Batched):
        if times:
            raise FirstspikeError("A Batched notes no spike times: give infer the network itself.")
        return net(images, ties)
    if images.is_cuda and not times:
        return Batched(net)(images, ties)
    if native.available() and images.device.type == "cpu":
        check_images(net, images)
        try:
            engine = Engine(net, threads=threads)
        except UnsupportedError:
            return reference(net, images, ties, times)
        return engine(images, ties, times)
    return reference(net, images, ties, times)
