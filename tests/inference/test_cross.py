"""The native core built for machines that are not here: ARM, and x86-64 without AVX.

On demand: `pip install ziglang` (a cross compiler) into any environment and name its Python in FIRSTSPIKE_ZIG. What
was built is run as well, ARM where an emulator is found (`qemu-aarch64-static`, from PATH or FIRSTSPIKE_QEMU).
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

NATIVE = Path(__file__).parents[2] / "native"
ZIG = os.environ.get("FIRSTSPIKE_ZIG")
QEMU = (
    os.environ.get("FIRSTSPIKE_QEMU") or shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
)
TARGETS = {
    "ARM": ["-target", "aarch64-linux-musl"],
    "ARM with dot products": ["-target", "aarch64-linux-musl", "-mcpu=generic+dotprod"],
    "x86-64 without AVX": ["-target", "x86_64-linux-musl", "-mcpu=x86_64"],
}


@pytest.mark.slow
@pytest.mark.skipif(not ZIG, reason="FIRSTSPIKE_ZIG names no Python with ziglang")
@pytest.mark.parametrize("target", TARGETS)
def test_the_core_builds_and_runs_elsewhere(target: str, tmp_path: Path) -> None:
    sources = [f"src/{name}.cpp" for name in ("kernels", "model", "run", "dispatch")] + ["tests/fuzz.cpp"]
    flags = ["-std=c++17", "-O3", "-Wall", "-Wextra", "-Werror", "-Wno-psabi", "-static", "-pthread"]
    program = str(tmp_path / "fuzz")
    command = [str(ZIG), "-m", "ziglang", "c++", *TARGETS[target], *flags, *sources, "-o", program]
    made = subprocess.run(command, cwd=NATIVE, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr[-3000:]
    if target.startswith("ARM") and not QEMU:
        pytest.skip("built, but there is no emulator to run it")
    start = [str(QEMU), "-cpu", "max"] if target.startswith("ARM") else []
    ran = subprocess.run([*start, program, "300"], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr[-3000:]
    assert "all as they should be" in ran.stdout
