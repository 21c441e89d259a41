"""Networks as files: a folder with `model.safetensors` and `config.json`, never pickle."""

import json
import os
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from firstspike.config import from_dict, to_dict
from firstspike.errors import FirstspikeError
from firstspike.models.build import build_from
from firstspike.models.config import NetworkConfig
from firstspike.models.network import Network

FORMAT = 1
"""Raised whenever a file of the older kind could no longer be read rightly."""

CONFIG_NAME, WEIGHTS_NAME = "config.json", "model.safetensors"


def save(net: Network, folder: str | Path) -> Path:
    """Write the network to a folder; each file appears whole or not at all."""
    from firstspike import __version__

    build_from(net.config).load_state_dict(net.state_dict())  # refuse now what could not be loaded later
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        weights = folder / f"{WEIGHTS_NAME}.part"
        save_file(
            {name: tensor.detach().cpu().contiguous() for name, tensor in net.state_dict().items()}, weights
        )
        config = folder / f"{CONFIG_NAME}.part"
        written = {"format": FORMAT, "firstspike": __version__, "network": to_dict(net.config)}
        config.write_text(json.dumps(written, indent=2) + "\n")
        os.replace(weights, folder / WEIGHTS_NAME)
        os.replace(config, folder / CONFIG_NAME)
    except OSError as error:
        raise FirstspikeError(f"Could not save the model to {folder}: {error.strerror or error}.") from error
    return folder


def load(folder: str | Path) -> Network:
    """Read a network that `save` wrote, ready for inference (`net.train()` for more training)."""
    folder = Path(folder)
    config = read_config(folder)
    path = folder / WEIGHTS_NAME
    try:
        weights = load_file(path)
    except FileNotFoundError as error:
        raise FirstspikeError(
            f"There is no {WEIGHTS_NAME} in {folder}: give the folder of a saved model."
        ) from error
    except (SafetensorError, OSError) as error:
        raise FirstspikeError(f"{path} is damaged or cut short ({error}): copy or save it again.") from error
    net = build_from(config)
    check_weights(net, weights, path)
    net.load_state_dict(weights)
    return net.eval()


def read_config(folder: Path) -> NetworkConfig:
    """The configuration of a saved model."""
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
        return from_dict(NetworkConfig, written.get("network"))
    except FirstspikeError as error:
        raise FirstspikeError(f"{path}: {error}") from error


def check_weights(net: Network, weights: dict[str, torch.Tensor], path: Path) -> None:
    """Refuse weights that are not those of the network, naming the first that differs."""
    expected = net.state_dict()
    for name in sorted(expected.keys() | weights.keys()):
        if name not in weights:
            raise FirstspikeError(f"{path} lacks the tensor {name!r} that its configuration asks for.")
        if name not in expected:
            raise FirstspikeError(f"{path} has a tensor {name!r} that its configuration does not know.")
        if weights[name].shape != expected[name].shape:
            raise FirstspikeError(
                f"{path}: {name!r} has shape {list(weights[name].shape)}, but its configuration says "
                f"{list(expected[name].shape)}."
            )
