"""Dividing a data set class by class, by seed."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from firstspike.data.dataset import Dataset
from firstspike.errors import FirstspikeError

_TEST_SHARE, _TEST_SEED = 0.2, 0


def balanced_split(labels: Tensor, count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Indices `(kept, held)` into `labels` `[N]`, both ascending, with `count` held out.

    Each class gives in proportion to its size; what rounding leaves over goes to the largest remainders.
    """
    classes, sizes = np.unique(labels.numpy(), return_counts=True)
    quota = sizes * count / len(labels)
    take = np.floor(quota).astype(int)
    # A stable sort, so that equal remainders fall to the lower class on every machine.
    take[np.argsort(take - quota, kind="stable")[: count - int(take.sum())]] += 1
    draw = np.random.default_rng([seed, 0])
    held = np.zeros(len(labels), bool)
    for label, number in zip(classes, take, strict=True):
        held[draw.permutation(np.flatnonzero(labels.numpy() == label))[:number]] = True
    return torch.from_numpy(np.flatnonzero(~held)), torch.from_numpy(np.flatnonzero(held))


def hold_out(
    dataset: Dataset, count_or_fraction: int | float, seed: int, in_a_row: bool = False
) -> tuple[Dataset, Dataset]:
    """`(train, validation)`: an int is a number of samples, a float a share of all.

    Class-balanced and fixed by `seed`; `in_a_row`, samples that are stored one after the other: the last so many with
    seed 0, those before them with 1, and so on.
    """
    given = count_or_fraction
    count = round(given * len(dataset)) if isinstance(given, float) else given
    if not 0 < count < len(dataset):
        raise FirstspikeError(
            f"{given} of {len(dataset)} samples cannot be held out of {dataset.name}; expected a number from 1 to "
            f"{len(dataset) - 1}, or a share between 0 and 1."
        )
    if in_a_row:
        index, end = torch.arange(len(dataset)), len(dataset) - seed * count
        if seed < 0 or end < count:
            raise FirstspikeError(
                f"the validation seed is {seed}; {dataset.name} has {len(dataset)} samples, of which {count} in a "
                f"row are held out, so expected one from 0 to {len(dataset) // count - 1}."
            )
        held, kept = index[end - count : end], torch.cat([index[: end - count], index[end:]])
        which = f"{seed * count:,} from its end" if seed else "from its end"
    else:
        (kept, held), which = balanced_split(dataset.labels, count, seed), f"by seed {seed}"
    origin = dataset.split.split(",")[0]
    return (
        dataset.subset(kept, f"{dataset.split}, less {count:,} held out {which}"),
        dataset.subset(held, f"validation, {count:,} held out of {origin} {which}"),
    )


def fixed_split(whole: Dataset, split: str) -> Dataset:
    """The train or the test side of a set that comes undivided: always the same class-balanced division."""
    count = round(_TEST_SHARE * len(whole))
    if count == 0:
        raise FirstspikeError(
            f"{whole.name}: {len(whole)} samples are too few to divide; expected at least 5, or a test split."
        )
    train, test = balanced_split(whole.labels, count, _TEST_SEED)
    indices = train if split == "train" else test
    return whole.subset(indices, f"{split}, {len(indices):,} of {len(whole):,}, divided by seed {_TEST_SEED}")
