"""NIR files are HDF5, and may come from anywhere: they are looked over before anything in them is read."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firstspike.errors import FirstspikeError
from firstspike.export.needs import need

if TYPE_CHECKING:
    import nir

MOST_BYTES = 4 * 2**30
"""More than any network of ours takes by far (SCNN6: 0.3 GB)."""

BEST_COMPRESSION = 1100
"""No deflate stream shrinks its content further (1032 times): a file that claims more has nothing behind it."""

MOST_ARRAYS = 20_000
"""Of 1,000 layers, the most that our grammar has."""

DEEPEST = 8


def read_nir(path: str | Path) -> "nir.NIRGraph":
    """Read a NIR graph; a file that is damaged, or claims what it cannot hold, is refused in a sentence."""
    nir, h5py = need("nir", "nir"), need("h5py", "nir")
    path = Path(path)
    if not path.is_file():
        raise FirstspikeError(f"There is no NIR file {path}.")
    try:
        with h5py.File(path, "r") as file:
            sizes = list(islice(_sizes(h5py, file, path), MOST_ARRAYS + 1))
            check_sizes(sizes, path)
        graph = nir.read(path)
    except FirstspikeError:
        raise
    except Exception as error:  # h5py and nir raise whatever the damage happens to lead to
        reason = " ".join(str(error).split()) or type(error).__name__
        raise FirstspikeError(f"{path} is not a NIR file, or is damaged: {reason[:200]}") from error
    if not isinstance(graph, nir.NIRGraph):
        raise FirstspikeError(f"{path} holds a single {type(graph).__name__} node, not a NIR graph.")
    return graph


def check_sizes(sizes: list[int], path: Path) -> None:
    """Refuse a file whose arrays are larger than the file can hold, or larger or more than we read."""
    size, claimed = path.stat().st_size, sum(sizes)
    if len(sizes) > MOST_ARRAYS:
        raise FirstspikeError(f"{path} holds more than {MOST_ARRAYS:,} arrays, which no network of ours has.")
    if claimed > max(BEST_COMPRESSION * size, 2**20):
        raise FirstspikeError(
            f"{path} has {size:,} bytes, but claims arrays of {claimed:,} bytes: it is cut short or forged."
        )
    if claimed > MOST_BYTES:
        raise FirstspikeError(f"{path} holds arrays of {claimed:,} bytes; at most {MOST_BYTES:,} are read.")


def _sizes(h5py: Any, group: Any, path: Path, depth: int = 0) -> Iterator[int]:
    """The bytes of every array in a group, without reading one."""
    if depth > DEEPEST:
        raise FirstspikeError(f"{path} has groups nested more than {DEEPEST} deep, which no NIR graph has.")
    for name in group:
        if not isinstance(group.get(name, getlink=True), h5py.HardLink):
            raise FirstspikeError(f"{path}: {name!r} is a link to somewhere else, which is not followed.")
        item = group[name]
        if isinstance(item, h5py.Group):
            yield from _sizes(h5py, item, path, depth + 1)
        elif item.external or item.is_virtual:
            raise FirstspikeError(f"{path}: {name!r} lies in another file, which is not read.")
        else:
            yield item.size * item.dtype.itemsize
