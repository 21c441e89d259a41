"""One process or many: where this one stands, under torchrun or alone."""

import os
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from firstspike.errors import FirstspikeError


@dataclass(frozen=True)
class Place:
    """This process among `world` processes, and the device it trains on."""

    rank: int
    world: int
    device: torch.device

    @property
    def leads(self) -> bool:
        """Whether this is the process that writes and prints."""
        return self.rank == 0

    def wrap(self, net: nn.Module) -> nn.Module:
        """`net`, its gradients averaged over the processes."""
        if self.world == 1:
            return net
        return DistributedDataParallel(net, device_ids=[self.device] if self.device.type == "cuda" else None)

    def sum(self, values: Tensor) -> Tensor:
        """The sum over all processes."""
        if self.world > 1:
            dist.all_reduce(values)
        return values

    def any(self, flag: bool) -> bool:
        """Whether any process says so: they must all stop at the same step."""
        if self.world == 1:
            return flag
        return bool(self.sum(torch.tensor(float(flag), device=self.device)) > 0)

    def share(self, text: str) -> str:
        """The leading process's text, in all processes."""
        if self.world == 1:
            return text
        letters = torch.zeros(4096, dtype=torch.uint8)
        encoded = text.encode()
        letters[: len(encoded)] = torch.tensor(list(encoded), dtype=torch.uint8)
        letters = letters.to(self.device)
        dist.broadcast(letters, src=0)
        return bytes(letters.tolist()).rstrip(b"\0").decode()

    def leave(self) -> None:
        """Part from the other processes."""
        if self.world > 1 and dist.is_initialized():
            dist.destroy_process_group()


def find_place(device: str | None = None) -> Place:
    """Join the processes that torchrun started, or stand alone.

    The device is the one asked for, or the process's own GPU where there is one, or the CPU.
    """
    world, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    try:
        chosen = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    except RuntimeError as error:
        raise FirstspikeError(f"Unknown device {device!r}: give cpu, cuda or cuda:N.") from error
    if chosen.type == "cuda":
        if not torch.cuda.is_available():
            raise FirstspikeError("This machine has no usable CUDA device: use --device cpu.")
        if ":" not in str(chosen):
            chosen = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(chosen)
    if world > 1 and not dist.is_initialized():
        backend = "nccl" if chosen.type == "cuda" else "gloo"
        dist.init_process_group(backend, timeout=timedelta(minutes=30))
    return Place(rank, world, chosen)
