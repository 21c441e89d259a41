"""One process or many: where this one stands, under torchrun or alone."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, get_args

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from firstspike.errors import FirstspikeError
from firstspike.nn import Synapse
from firstspike.training.interrupt import Reason

REASONS: tuple[Reason | None, ...] = (None, *get_args(Reason))


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
        """`net`, its gradients averaged over the processes, and its batch statistics those of the whole batch."""
        if self.world == 1:
            return net
        for module in net.modules():
            if isinstance(module, Synapse):
                module.sum_over_processes = sum_over_processes
        # Some parameters never get a gradient (a ReLU twin's thresholds, say): a static graph allows for that.
        return DistributedDataParallel(
            net,
            device_ids=[self.device] if self.device.type == "cuda" else None,
            static_graph=True,
        )

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

    def wait(self) -> None:
        """Go on when all processes have come this far."""
        self.any(False)

    def gather(self, values: Tensor) -> list[Tensor]:
        """The values of every process, by rank."""
        if self.world == 1:
            return [values]
        gathered = [torch.empty_like(values, device=self.device) for _ in range(self.world)]
        dist.all_gather(gathered, values.to(self.device))
        return gathered

    def share(self, text: str) -> str:
        """The leading process's text, in all processes."""
        if self.world == 1:
            return text
        letters = torch.zeros(8192, dtype=torch.uint8)
        encoded = text.encode()
        letters[: len(encoded)] = torch.tensor(list(encoded), dtype=torch.uint8)
        letters = letters.to(self.device)
        dist.broadcast(letters, src=0)
        return bytes(letters.tolist()).rstrip(b"\0").decode()

    @contextmanager
    def together(self) -> Iterator[None]:
        """Leave the other processes at the end of the block; say so plainly if it was they who left."""
        try:
            yield
        except RuntimeError as error:
            if self.world > 1 and (isinstance(error, dist.DistError) or "gloo" in str(error)):
                raise FirstspikeError(
                    f"Process {self.rank} of {self.world} stopped because another one did: see its message."
                ) from error
            raise
        finally:
            if self.world > 1 and dist.is_initialized():
                # gloo's thread may still be letting go of the last tensor, for which it needs the interpreter: were
                # the group destroyed meanwhile, both would wait for each other for ever (seen with torch 2.13).
                time.sleep(0.1)
                dist.destroy_process_group()


class Lockstep:
    """What all processes decide together: one alone at every step, several about once a second.

    Asking the others waits for the device, so they do it at the same few steps, at a pace that the leading
    process sets.
    """

    PAUSE = 1.0
    """Seconds between two agreements of several processes, roughly."""

    def __init__(self, place: Place) -> None:
        self.place, self.pace, self.steps = place, 1, 0
        self.since = time.monotonic()

    def due(self) -> bool:
        """Whether to agree after this step."""
        self.steps += 1
        return self.place.world == 1 or self.steps >= self.pace

    def agree(self, reason: Reason | None, *wishes: bool) -> tuple[Reason | None, list[bool]]:
        """A reason to stop that any process has, and the leading process's wishes."""
        if self.place.world == 1:
            return reason, list(wishes)
        now = time.monotonic()
        speed = self.steps / max(now - self.since, 1e-6)
        self.steps, self.since = 0, now
        said = [float(wish) if self.place.leads else 0.0 for wish in (*wishes, speed)]
        heard = torch.tensor([REASONS.index(reason), *said], dtype=torch.float64, device=self.place.device)
        dist.all_reduce(heard, dist.ReduceOp.MAX)
        which, *agreed, speed = heard.tolist()
        self.pace = max(1, int(speed * self.PAUSE))
        return REASONS[int(which)], [bool(wish) for wish in agreed]


class _Sum(torch.autograd.Function):
    """The sum over all processes, through which the gradients of all of them flow back."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        total = values.contiguous().clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return _Sum.forward(ctx, grads[0])


def sum_over_processes(values: Tensor) -> Tensor:
    """The sum over all processes, differentiable."""
    total: Tensor = _Sum.apply(values)  # type: ignore[no-untyped-call]
    return total


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
        if (chosen.index or 0) >= torch.cuda.device_count():
            raise FirstspikeError(
                f"There is no {chosen} here: this machine has {torch.cuda.device_count()} GPUs, so start at "
                "most as many processes on it."
            )
        torch.cuda.set_device(chosen)
    if world > 1 and not dist.is_initialized():
        backend = "nccl" if chosen.type == "cuda" else "gloo"
        dist.init_process_group(backend, timeout=timedelta(minutes=30))
    return Place(rank, world, chosen)
