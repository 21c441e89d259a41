"""`load`: one door to every data set, by name or by path."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import torch

from firstspike.data.dataset import Dataset
from firstspike.data.files import read_npz
from firstspike.data.names import catalogue
from firstspike.errors import FirstspikeError

Split = Literal["train", "test"]


def load(
    name_or_path: str | Path,
    split: Split = "train",
    *,
    root: Path | None = None,
    T: int | None = None,
    integrate: Literal["duration", "count"] = "duration",
) -> Dataset:
    """Load one split of a data set."""
    if name_or_path == "fashion-mnist-sample":
        suffix = "" if split == "train" else "_test"
        arrays = read_npz(
            Path(__file__).parent / "sample" / "fashion-mnist-sample.npz", "x" + suffix, "y" + suffix
        )
        images, labels = arrays["x" + suffix], arrays["y" + suffix]
        return Dataset(
            "fashion-mnist-sample",
            f"{split}, {len(images):,} images",
            torch.from_numpy(images),
            torch.from_numpy(labels.astype(np.int64)),
            catalogue["fashion-mnist-sample"].classes,
        )
    raise FirstspikeError(
        f"there is no data set {str(name_or_path)!r}; expected one of {', '.join(catalogue)}."
    )
