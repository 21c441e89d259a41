"""`firstspike export`."""

import re
from pathlib import Path

import pytest

from firstspike.cli import main
from firstspike.models import load, pretrained


def test_a_network_of_the_package_is_exported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["export", "fashion-mnist-scnn5", "--to", "safetensors", "--out", str(tmp_path / "out")])
    said = capsys.readouterr().out
    assert f"Exported to {tmp_path / 'out'}:" in said
    assert re.search(r"model\.safetensors +[\d,]+ bytes", said)
    assert load(tmp_path / "out").readout.synapse.weight.equal(
        pretrained("fashion-mnist-scnn5").fuse().readout.synapse.weight
    )


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["nosuch", "--to", "safetensors"], "no network of that name in the package"),
        (["fashion-mnist-scnn5"], "--to"),
        (["fashion-mnist-scnn5", "--to", "tflite"], "Expected one of ('nir', 'onnx', 'safetensors')"),
        (
            ["fashion-mnist-scnn5", "--to", "safetensors", "--measure", "nosuch"],
            "there is no data set 'nosuch'",
        ),
    ],
)
def test_a_mistake_is_refused_in_a_sentence(
    args: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["export", *args, "--out", str(tmp_path / "out")])
    assert ended.value.code == 2
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    assert sentence in re.sub(r"[│\s]+", " ", said.out + said.err)
    assert not (tmp_path / "out").exists()
