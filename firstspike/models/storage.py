"""Networks as files: a folder with `model.safetensors` and `config.json`, never pickle."""

import contextlib
import hashlib
import json
import os
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from firstspike.config import from_dict, to_dict
from firstspike.errors import FirstspikeError
from firstspike.models.build import build_from
from firstspike.models.config import NetworkConfig
from firstspike.models.network import Network
from firstspike.models.twin import Twin
from firstspike.models.units import UNITS, as_unit

FORMAT = 1
"""Raised whenever a file of the older kind could no longer be read rightly."""

CONFIG_NAME, WEIGHTS_NAME = "config.json", "model.safetensors"


def save(net: Network | Twin, folder: str | Path) -> Path:
    """Write a network, or a twin of one, to a folder; each file appears whole or not at all."""
    from firstspike import __version__

    unit = "spike"
    if isinstance(net, Twin):
        unit, net = net.unit, net.net
    folder = Path(folder)
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in net.state_dict().items()}
    with torch.device("meta"):  # refuse now what could not be loaded later, without memory or random numbers
        check_weights(build_from(net.config), tensors, folder / WEIGHTS_NAME)
    weights, config = folder / f"{WEIGHTS_NAME}.part", folder / f"{CONFIG_NAME}.part"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        written = {"format": FORMAT, "firstspike": __version__, "unit": unit, "network": to_dict(net.config)}
        config.write_text(json.dumps(written, indent=2) + "\n")
        # The two files name each other, so that a kill between the two renames is seen when they are read.
        save_file(tensors, weights, {"config": _digest(config)})
        os.replace(weights, folder / WEIGHTS_NAME)
        os.replace(config, folder / CONFIG_NAME)
    except (SafetensorError, OSError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FirstspikeError(f"Could not save the model to {folder}: {reason}.") from error
    finally:
        for part in (weights, config):
            with contextlib.suppress(OSError):
                part.unlink()
    return folder


def load(folder: str | Path) -> Network:
    """Read a network that `save` wrote, ready for inference (`net.train()` for more training)."""
    net = load_either(folder)
    if isinstance(net, Twin):
        raise FirstspikeError(f"{folder} holds a ReLU twin, not a spiking network: read it with load_either.")
    return net


def load_either(folder: str | Path) -> Network | Twin:
    """Read a network or a ReLU twin, whichever the folder holds."""
    folder = Path(folder)
    unit, config = read_config(folder)
    path = folder / WEIGHTS_NAME
    try:
        weights = load_file(path)
    except FileNotFoundError as error:
        raise FirstspikeError(
            f"There is no {WEIGHTS_NAME} in {folder}: give the folder of a saved model."
        ) from error
    except (SafetensorError, OSError) as error:
        raise FirstspikeError(f"{path} is damaged or cut short ({error}): copy or save it again.") from error
    with torch.random.fork_rng(devices=[]):  # drawing the weights that are replaced must not be felt outside
        net = build_from(config)
    check_weights(net, weights, path)
    check_pair(path, folder / CONFIG_NAME)
    net.to(next(iter(weights.values())).dtype)
    net.load_state_dict(weights)
    return as_unit(net, unit).eval()


def read_config(folder: Path) -> tuple[str, NetworkConfig]:
    """The units (one of `UNITS`) and the configuration of a saved model."""
    path = folder / CONFIG_NAME
    try:
        written = json.loads(path.read_text())
    except FileNotFoundError as error:
        raise FirstspikeError(
            f"There is no {CONFIG_NAME} in {folder}: give the folder of a saved model."
        ) from error
    except (OSError, ValueError) as error:
        raise FirstspikeError(f"{path} cannot be read ({error}): copy or save it again.") from error
    found = written.get("format") if isinstance(written, dict) else None
    if found != FORMAT:
        made_by = written.get("firstspike", "unknown") if isinstance(written, dict) else "unknown"
        raise FirstspikeError(
            f"{path} has model format {found} (firstspike {made_by}), but this version reads {FORMAT}: "
            "load it with the version that wrote it."
        )
    try:
        if written.get("unit") not in UNITS:
            raise FirstspikeError(f"Unknown unit {written.get('unit')!r}: expected {', '.join(UNITS)}.")
        return written["unit"], from_dict(NetworkConfig, written.get("network"))
    except FirstspikeError as error:
        raise FirstspikeError(f"{path}: {error}") from error


def check_pair(weights: Path, config: Path) -> None:
    """Refuse weights that were saved with another configuration than the one beside them."""
    with safe_open(weights, "pt") as file:
        told = (file.metadata() or {}).get("config")
    if told is not None and told != _digest(config):
        raise FirstspikeError(
            f"{weights} and {config.name} were not saved together: a save was cut short, or one of them was "
            "changed. Save the model again, or restore both files."
        )


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def check_weights(net: Network, weights: dict[str, torch.Tensor], path: Path) -> None:
    """Refuse weights that are not those of the network, naming the first that differs."""
    expected = net.state_dict()
    for name in sorted(expected.keys() | weights.keys()):
        if name not in weights:
            raise FirstspikeError(f"{path} lacks the tensor {name!r} that its configuration asks for.")
        if name not in expected:
            raise FirstspikeError(f"{path} has a tensor {name!r} that its configuration does not know.")
        if not weights[name].is_floating_point():
            raise FirstspikeError(f"{path}: {name!r} is not floating point but {weights[name].dtype}.")
        if weights[name].shape != expected[name].shape:
            raise FirstspikeError(
                f"{path}: {name!r} has shape {list(weights[name].shape)}, but its configuration says "
                f"{list(expected[name].shape)}."
            )
