"""Write a trained network to a folder, for another tool, with its model card."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal

from firstspike.data import load as load_data
from firstspike.errors import FirstspikeError
from firstspike.export.card import model_card
from firstspike.export.needs import need
from firstspike.export.onnx_graph import OPSET
from firstspike.export.source import find_source
from firstspike.export.to_nir import to_nir
from firstspike.export.to_onnx import step_model, whole_model
from firstspike.measure import evaluate
from firstspike.models import Network, save
from firstspike.training.run import whole

Target = Literal["nir", "onnx", "safetensors"]


def write(
    source: Network | str | Path,
    to: Target,
    out: str | Path | None = None,
    measure: str | None = None,
    licence: str | None = None,
) -> Path:
    """Export a trained network, and return the folder.

    Args:
        source: a run folder, the folder of a saved model, the name of a network in the package, or a network.
        to: `nir` (model.nir), `onnx` (step.onnx and network.onnx) or `safetensors` (a model folder, fused).
        out: the folder to write to; by default exports/NAME-TO.
        measure: a data set on whose test split to measure the network for the card.
        licence: of the weights, for the card.
    """
    if to not in _WRITERS:
        raise FirstspikeError(f"Unknown target {to!r}: choose one of {', '.join(_WRITERS)}.")
    found = find_source(source)
    folder = Path(out) if out is not None else Path("exports") / f"{found.name}-{to}"
    if found.folder and folder.resolve() == found.folder.resolve():
        raise FirstspikeError(f"{folder} holds the network itself: choose another folder to export to.")
    if measure:
        found = replace(
            found, test=evaluate(found.net.fuse(), load_data(measure, "test", T=found.net.T)).as_dict()
        )
    with _writing(folder):
        loading = _WRITERS[to](found.net, folder)
        with whole(folder / "README.md") as part:
            part.write_text(model_card(found, _NAMES[to], loading, licence), encoding="utf-8")
    return folder


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """In this block, what the system refuses to write is told in a sentence."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise FirstspikeError(f"Could not write to {folder}: {error.strerror or error}.") from error


def write_nir(net: Network, folder: Path) -> str:
    """model.nir; returns how to load it."""
    nir, graph = need("nir", "nir"), to_nir(net)
    with whole(folder / "model.nir") as part:
        nir.write(part, graph)
    return """
import nir
from firstspike.export import from_nir

graph = nir.read("model.nir")  # for any tool that reads NIR; graph.metadata says how to feed it
net = from_nir("model.nir")  # as a network of firstspike
print(graph.metadata, net, sep="\\n")
"""


def write_onnx(net: Network, folder: Path) -> str:
    """network.onnx, all steps, and step.onnx, one of them; returns how to load them."""
    onnx = need("onnx", "onnx")
    for name, model in (("step.onnx", step_model(net)), ("network.onnx", whole_model(net))):
        with whole(folder / name) as part:
            onnx.save(model, part)
    events = net.config.encoding == "frames"
    shape = (*((net.T,) if events else ()), 1, *net.config.input_shape)
    return f"""
import numpy as np
import onnxruntime

session = onnxruntime.InferenceSession("network.onnx")
images = np.random.rand{shape}.astype(np.float32)  # {"event frames" if events else "pixels in [0, 1]"}
spike_times, steps, strict, potential = session.run(None, {{"input": images}})
print(f"class {{strict[0]}} (ties by potential: {{potential[0]}}) after {{steps[0]}} steps; times {{spike_times[0]}}")
"""


def write_safetensors(net: Network, folder: Path) -> str:
    """model.safetensors and config.json of the fused network; returns how to load them."""
    save(net.fuse(), folder)
    return """
import firstspike as fs
from safetensors.torch import load_file

weights = load_file("model.safetensors")  # plain weights and biases, by layer
net = fs.load(".")  # as a network of firstspike
print({name: list(tensor.shape) for name, tensor in weights.items()}, net, sep="\\n")
"""


_WRITERS: dict[str, Callable[[Network, Path], str]] = {
    "nir": write_nir,
    "onnx": write_onnx,
    "safetensors": write_safetensors,
}
_NAMES = {"nir": "NIR", "onnx": f"ONNX (opset {OPSET})", "safetensors": "safetensors"}
