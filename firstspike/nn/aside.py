"""Large weights on a stream of their own, beside the convolutions before them."""

import torch
from torch import nn

from firstspike.nn.synapse import Synapse

LARGE = 2**22
"""Weights from which a synapse is worth a stream: they then take longer to read than a kernel to launch."""


class Aside:
    """A CUDA stream for the weights that are too many to stay in the cache.

    Normalising such weights, its backward and the optimiser's update are bound by memory and convolutions by
    arithmetic, and the two meet only where the layer itself runs. So a training step has

        aside.begin(dtype)                           # before the network's forward
        ...                                          # forward, loss, backward
        with torch.cuda.stream(aside.stream):
            optimizer.step()                         # of `aside.parameters` alone
        aside.end()

    Autograd runs backward on the stream of forward and orders the streams where they meet. It gets to what
    was done first last, so that the gradient of such a weight is made when most activations are gone.
    """

    def __init__(self, net: nn.Module) -> None:
        synapses = [module for module in net.modules() if isinstance(module, Synapse)]
        self.synapses = [synapse for synapse in synapses if synapse.weight.numel() >= LARGE]
        self.parameters = [synapse.weight for synapse in self.synapses]
        device = next(net.parameters()).device
        self.stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def begin(self, dtype: torch.dtype) -> None:
        """Work out the weights of this step, in the dtype of its spikes."""
        self.stream.wait_stream(torch.cuda.current_stream(self.stream.device))
        for synapse in self.synapses:
            synapse.work_out_on(self.stream, dtype)

    def end(self) -> None:
        """Let what comes next wait for the stream."""
        torch.cuda.current_stream(self.stream.device).wait_stream(self.stream)
