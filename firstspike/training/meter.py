"""What is told of an epoch while it runs: loss, accuracy, steps."""

import torch
from torch import Tensor

from firstspike.data import Batch
from firstspike.nn import Output
from firstspike.training.distributed import Place


class Meter:
    """Running sums over an epoch, kept on the device: reading them is what waits for it."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.sums = torch.zeros(4, dtype=torch.float64, device=place.device)

    def reset(self) -> None:
        self.sums.zero_()  # in place: a captured step goes on adding to it

    @torch.no_grad()
    def add(self, loss: Tensor, output: Output | Tensor, batch: Batch) -> None:
        if isinstance(output, Output):
            times = output.spike_times
            label, steps = times.argmin(1), times.amin(1).double() + 1
        else:
            label, steps = output.argmax(1), torch.ones((), device=loss.device).expand(len(output))
        correct = (label == batch.labels).sum()
        count = torch.full((), len(batch.labels), device=loss.device)
        self.sums += torch.stack([loss.detach() * count, correct, steps.sum(), count]).double()

    def read(self) -> dict[str, float]:
        """Mean loss, accuracy in percent and mean steps of the epoch so far, over all processes."""
        loss, correct, steps, count = self.place.sum(self.sums.clone()).tolist()
        count = max(count, 1)
        return {"loss": loss / count, "accuracy": 100 * correct / count, "steps": steps / count}
