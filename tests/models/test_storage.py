"""Networks as files: they come back bit by bit, and a bad file is told in one sentence."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from firstspike.errors import FirstspikeError
from firstspike.models import Network, NetworkConfig, build, load, save, storage
from firstspike.nn import Neuron, Normalisation
from tests.models.zoo import images, shrunk, train

FILES = ["config.json", "model.safetensors"]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"classes": 4, "encoding": "latency", "dropout": 0.2, "pooling": "max"},
        {
            "neuron": Neuron(tau=2.5, learn_threshold="channel-step"),
            "input_mean": (0.3,),
            "input_std": (0.7,),
        },
        {"normalisation": Normalisation(kind="batch", per="layer", gain=False), "encoding": "frames"},
        {"normalisation": Normalisation(unit_weights=True, bias=False, variance=0.5)},
    ],
    ids=str,
)
@pytest.mark.parametrize("fused", [False, True], ids=["whole", "fused"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_a_saved_network_comes_back_bit_by_bit(
    tmp_path: Path, options: dict, fused: bool, dtype: torch.dtype
) -> None:
    net = shrunk("SCNN5", **options)
    for tensor in net.state_dict().values():
        tensor += 0.1 * torch.rand_like(tensor)
    net = (net.fuse() if fused else net.eval()).to(dtype)
    assert save(net, tmp_path / "deep" / "model") == tmp_path / "deep" / "model"
    assert names(tmp_path / "deep" / "model") == FILES
    again = load(tmp_path / "deep" / "model")
    assert again.config == net.config
    assert not again.training
    before, after = net.state_dict(), again.state_dict()
    assert list(before) == list(after)
    for name in before:
        assert after[name].dtype == before[name].dtype
        assert torch.equal(after[name], before[name])
    x = images(net).to(dtype)
    output, repeated = net(x), again(x)
    assert torch.equal(output.spikes, repeated.spikes)
    assert torch.equal(output.membrane, repeated.membrane)


def test_a_loaded_network_can_be_trained_on(tmp_path: Path) -> None:
    train(load(save(shrunk("FC1"), tmp_path)))


def test_saving_again_replaces_both_files(tmp_path: Path) -> None:
    save(build("FC3-FC2", (5,)), tmp_path)
    net = build("FC4-FC2", (6,))
    save(net, tmp_path)
    assert names(tmp_path) == FILES
    assert load(tmp_path).config == net.config


def test_saving_and_loading_draw_no_random_numbers(tmp_path: Path) -> None:
    """A run that saves on the way must train as one that does not."""
    net = build("FC4-FC2", (6,))
    torch.manual_seed(11)
    expected = torch.rand(3)
    torch.manual_seed(11)
    load(save(net, tmp_path))
    assert torch.equal(torch.rand(3), expected)


def test_the_files_are_plain_safetensors_and_json(tmp_path: Path) -> None:
    net = build("FC3-FC2", (5,), T=6)
    save(net, tmp_path)
    assert set(load_file(tmp_path / "model.safetensors")) == set(net.state_dict())
    written = json.loads((tmp_path / "config.json").read_text())
    assert written["format"] == storage.FORMAT
    assert written["network"]["architecture"] == "FC3-FC2"
    assert written["network"]["T"] == 6


def cut(name: str, keep: float) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        whole = (folder / name).read_bytes()
        (folder / name).write_bytes(whole[: int(len(whole) * keep)])

    return damage


def edit(change: Callable[[dict], object]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        written = json.loads((folder / "config.json").read_text())
        change(written)
        (folder / "config.json").write_text(json.dumps(written))

    return damage


def retensor(change: Callable[[dict[str, torch.Tensor]], object]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        tensors = {name: tensor.clone() for name, tensor in load_file(folder / "model.safetensors").items()}
        change(tensors)
        save_file(tensors, folder / "model.safetensors")

    return damage


def replace_config(text: str) -> Callable[[Path], None]:
    return lambda folder: (folder / "config.json").write_text(text) and None


WEIGHT = "layers.0.synapse.weight"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (cut("model.safetensors", 0.9), r"model\.safetensors is damaged or cut short"),
        (cut("model.safetensors", 0.01), r"model\.safetensors is damaged or cut short"),
        (cut("model.safetensors", 0), r"model\.safetensors is damaged or cut short"),
        (cut("config.json", 0.5), r"config\.json cannot be read .*copy or save it again"),
        (cut("config.json", 0), r"config\.json cannot be read"),
        (
            lambda folder: (folder / "config.json").write_bytes(b"\xff\xfe\x00"),
            r"config\.json cannot be read",
        ),
        (lambda folder: (folder / "config.json").unlink(), r"no config\.json in .*folder of a saved model"),
        (
            lambda folder: (folder / "model.safetensors").unlink(),
            r"no model\.safetensors in .*folder of a saved",
        ),
        (
            edit(lambda c: c.update(format=99, firstspike="9.9.9")),
            r"format 99 \(firstspike 9\.9\.9\).*reads 1",
        ),
        (edit(lambda c: c.pop("format")), r"format None"),
        (edit(lambda c: c.pop("network")), r"Expected a table of fields for NetworkConfig, found None"),
        (edit(lambda c: c["network"].update(tua=3)), r"config\.json: Unknown field 'tua'"),
        (edit(lambda c: c["network"]["neuron"].update(tresh=3)), r"Unknown field 'neuron\.tresh'.*threshold"),
        (edit(lambda c: c["network"].pop("architecture")), r"config\.json: .*'architecture' is missing"),
        (edit(lambda c: c["network"].update(T="8")), r"T is '8', but should be int"),
        (edit(lambda c: c["network"].update(T=0)), r"config\.json: T must be between 1 and 255"),
        (edit(lambda c: c["network"].update(architecture="FC3-XX")), r"Cannot read the architecture"),
        (replace_config("[1, 2]"), r"format None"),
        (replace_config("null"), r"format None"),
        (
            edit(lambda c: c["network"].update(input_shape=[6])),
            r"weight' has shape \[3, 5\], but .* says \[3, 6\]",
        ),
        (retensor(lambda t: t.update({WEIGHT: t[WEIGHT][:2]})), r"weight' has shape \[2, 5\]"),
        (retensor(lambda t: t.pop(WEIGHT)), r"lacks the tensor 'layers\.0\.synapse\.weight'"),
        (retensor(lambda t: t.update(extra=torch.ones(1))), r"has a tensor 'extra' that its configuration"),
        (
            retensor(lambda t: t.update({WEIGHT: t[WEIGHT].long()})),
            r"weight' is not floating point but torch\.int64",
        ),
    ],
)
def test_a_bad_file_is_refused_in_words(tmp_path: Path, damage: Callable[[Path], None], message: str) -> None:
    save(build("FC3-FC2", (5,)), tmp_path)
    load(tmp_path)
    damage(tmp_path)
    with pytest.raises(FirstspikeError, match=message):
        load(tmp_path)


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(FirstspikeError, match=r"no config\.json in .*nowhere"):
        load(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(FirstspikeError, match=r"config\.json cannot be read"):
        load(tmp_path / "file")


def full_disk(*_: object) -> None:
    raise OSError(28, "No space left on device")


def full_disk_in_safetensors(tensors: object, path: Path, *metadata: object) -> None:
    Path(path).write_bytes(b"half")
    raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")


@pytest.mark.parametrize(
    ("place", "name", "failure"),
    [
        (storage, "save_file", full_disk_in_safetensors),
        (Path, "write_text", full_disk),
        (os, "replace", full_disk),
    ],
    ids=["weights", "config", "replace"],
)
@pytest.mark.parametrize("over", [False, True], ids=["new", "over-another"])
def test_a_failed_save_says_so_and_leaves_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: object, name: str, failure: object, over: bool
) -> None:
    old = build("FC3-FC2", (5,))
    if over:
        save(old, tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(place, name, failure)
        with pytest.raises(FirstspikeError, match=r"Could not save the model to .*No space left on device"):
            save(build("FC4-FC2", (6,)), tmp_path)
    assert names(tmp_path) == (FILES if over else [])
    if over:
        again = load(tmp_path)
        assert all(torch.equal(a, b) for a, b in zip(again.parameters(), old.parameters(), strict=True))


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FirstspikeError, match=r"Could not save the model to .*file"):
        save(build("FC3-FC2", (5,)), tmp_path / "file")
    assert (tmp_path / "file").read_text() == ""


def test_a_network_that_its_configuration_does_not_describe_is_not_saved(tmp_path: Path) -> None:
    """It could never be loaded again."""
    net = Network(list(build("FC3-FC2", (5,)).layers), NetworkConfig("FC4-FC2", (5,)))
    with pytest.raises(FirstspikeError, match=r"'layers\.0\.synapse\.\w+' has shape \[3.*says \[4"):
        save(net, tmp_path)
    assert names(tmp_path) == []


def test_weights_beside_another_configuration_are_refused(tmp_path: Path) -> None:
    """A kill between the two renames of a save leaves new weights beside the old configuration."""
    options = {"architecture": "FC8-FC3", "input_shape": (1, 4, 4)}
    save(build(**options, T=4), tmp_path / "old")
    save(build(**options, T=8), tmp_path / "new")
    (tmp_path / "new" / "model.safetensors").replace(tmp_path / "old" / "model.safetensors")
    with pytest.raises(FirstspikeError, match="were not saved together"):
        load(tmp_path / "old")
