"""Files from elsewhere: cut short, flipped, forged."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firstspike.errors import FirstspikeError
from firstspike.export import from_nir, read_nir, to_nir
from tests.export.nets import small

nir = pytest.importorskip("nir", reason="needs the extra `nir`")
h5py = pytest.importorskip("h5py")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    nir.write(tmp_path / "model.nir", to_nir(small("standardised")))
    return tmp_path / "model.nir"


def refused(path: Path) -> str:
    with pytest.raises(FirstspikeError) as told:
        from_nir(path)
    sentence = str(told.value)
    assert "\n" not in sentence
    assert len(sentence) < 400
    return sentence


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.7, 0.99])
def test_a_file_that_is_cut_short(path: Path, share: float) -> None:
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    assert "is not a NIR file, or is damaged" in refused(path)


def test_what_is_no_nir_file_at_all(path: Path) -> None:
    assert "There is no NIR file" in refused(path.with_name("gone.nir"))
    path.write_text("hello")
    assert "is not a NIR file" in refused(path)
    with h5py.File(path, "w") as file:
        file["other"] = 1
    assert "is not a NIR file" in refused(path)
    nir.write(path, nir.Linear(np.ones((2, 2))))
    assert "is not a NIR file" in refused(path) or "single Linear" in refused(path)


def test_flipped_bytes_are_refused_in_a_sentence_or_do_no_harm(path: Path) -> None:
    whole, chance = path.read_bytes(), np.random.default_rng(0)
    caught = 0
    for _ in range(30):
        damaged = bytearray(whole)
        for place in chance.integers(0, len(whole), 8):
            damaged[place] ^= 1 << int(chance.integers(8))
        path.write_bytes(bytes(damaged))
        with suppress(FirstspikeError):
            from_nir(path)
            continue
        caught += 1
    assert caught > 8


def forge(path: Path, name: str, **options: Any) -> None:
    with h5py.File(path, "r+") as file:
        del file[name]
        file.create_dataset(name, **options)


def test_an_array_larger_than_the_file_can_hold(path: Path) -> None:
    forge(path, "node/nodes/conv_1/weight", shape=(10**6, 10**6), dtype="f4", chunks=(1000, 1000))
    assert "claims arrays of" in refused(path)
    assert "cut short or forged" in refused(path)


def test_an_array_larger_than_we_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firstspike.export.nir_file.MOST_BYTES", 1000)
    assert "at most 1,000 are read" in refused(path)
    monkeypatch.setattr("firstspike.export.nir_file.MOST_ARRAYS", 20)
    assert "more than 20 arrays" in refused(path)


def test_wrong_shapes(path: Path) -> None:
    forge(path, "node/nodes/neuron_1/v_threshold", data=np.ones((6, 2, 2), "f4"))
    assert "must have the same shape" in refused(path)
    forge(path, "node/nodes/neuron_1/v_threshold", data=np.ones((6, 8, 8), "f4"))
    forge(path, "node/nodes/linear_3/weight", data=np.ones((3, 3), "f4"))
    assert "mismatch" in refused(path)


def test_links_out_of_the_file_are_not_followed(path: Path, tmp_path: Path) -> None:
    with h5py.File(path, "r+") as file:
        del file["node/nodes/conv_1/weight"]
        file["node/nodes/conv_1/weight"] = h5py.ExternalLink("/etc/passwd", "/")
    assert "link to somewhere else" in refused(path)
    secret = tmp_path / "secret"
    secret.write_bytes(b"0" * 600)
    forge(path, "node/nodes/conv_1/weight", shape=(150,), dtype="f4", external=[(str(secret), 0, 600)])
    assert "lies in another file" in refused(path)


def test_a_group_within_itself(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        file["node/nodes/again"] = file["node"]
    assert "nested more than" in refused(path)


def test_metadata_that_lies(path: Path) -> None:
    forge(path, "node/metadata/T", data=100_000)
    assert "T must be between 1 and 255" in refused(path)
    forge(path, "node/metadata/T", data=6)
    forge(path, "node/metadata/encoding", data="telepathy")
    assert "Unknown encoding 'telepathy'" in refused(path)
    assert read_nir(path).metadata["T"] == 6
