"""`firstspike export`."""

from pathlib import Path
from typing import Annotated, Literal

import tyro


def export(
    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")],
    to: Literal["nir", "onnx", "safetensors"],
    out: Path | None = None,
    measure: str | None = None,
    licence: str | None = None,
) -> None:
    """Write a trained network for another tool, with a model card.

    Args:
        run: A run folder, the folder of a saved model, or a network of the package (fashion-mnist-scnn5).
        to: The format: NIR, ONNX (one step and all steps), or plain weights in safetensors.
        out: The folder to write to; by default exports/RUN-TO.
        measure: Measure the network on the test split of this data set, for the card.
        licence: The licence of the weights, for the card.
    """
    from firstspike.export import write

    folder = write(run, to, out, measure, licence)
    files = sorted(path for path in folder.iterdir() if path.is_file())
    width = max(len(path.name) for path in files)
    print(f"Exported to {folder}:")
    for path in files:
        print(f"  {path.name:<{width}}  {path.stat().st_size:>12,} bytes")
