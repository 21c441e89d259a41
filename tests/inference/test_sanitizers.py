"""The native core under the address and undefined-behaviour sanitizers, on random shapes and on lies."""

import os
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

NATIVE = Path(__file__).parents[2] / "native"
COMPILER = shutil.which("g++") or shutil.which("clang++")
FLAGS = {
    "portable": [],
    "avx2": ["-mavx2", "-mfma"],
    "avx512": [
        *("-mavx2", "-mfma", "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx512vnni"),
        "-Wno-maybe-uninitialized",
    ],
}


@pytest.mark.slow
@pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")
@pytest.mark.skipif(not NATIVE.is_dir(), reason="the core's sources are not here")
def test_random_networks_under_sanitizers(tmp_path: Path) -> None:
    common = ["-std=c++17", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-psabi", "-pthread"]
    common += ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    x86 = platform.machine() in ("x86_64", "AMD64")
    objects = []
    for isa, flags in FLAGS.items():
        if isa != "portable" and not x86:
            continue
        objects.append(str(tmp_path / f"{isa}.o"))
        build(
            [*common, *flags, f"-DFS_ISA={isa}", "-c", str(NATIVE / "src" / "kernels.cpp"), "-o", objects[-1]]
        )
    sources = [
        str(NATIVE / name) for name in ("src/model.cpp", "src/run.cpp", "src/dispatch.cpp", "tests/fuzz.cpp")
    ]
    program = str(tmp_path / "fuzz")
    build([*common, *(["-DFS_X86"] if x86 else []), *sources, *objects, "-o", program])
    # Refused sizes are to be refused by us, and an allocation too large is an exception, not an abort.
    environment = os.environ | {"ASAN_OPTIONS": "allocator_may_return_null=1"}
    ran = subprocess.run([program, "1000"], capture_output=True, text=True, check=False, env=environment)
    assert ran.returncode == 0, ran.stdout + ran.stderr[-3000:]
    assert "all as they should be" in ran.stdout


def build(flags: list[str]) -> None:
    made = subprocess.run([str(COMPILER), *flags], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr[-3000:]
