"""Threads that wait hardly spin, and who has said otherwise is heard."""

import os
import subprocess
import sys

import pytest

SEEN_BY_TORCH = """
import os, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            print(os.environ.get("GOMP_SPINCOUNT"))
            raise SystemExit

sys.meta_path.insert(0, Finder())
import firstspike
"""


@pytest.mark.parametrize(("given", "seen"), [({}, "3000"), ({"GOMP_SPINCOUNT": "7"}, "7")])
def test_torch_finds_it_decided(given: dict[str, str], seen: str) -> None:
    others = {name: value for name, value in os.environ.items() if name != "GOMP_SPINCOUNT"}
    command = [sys.executable, "-c", SEEN_BY_TORCH]
    told = subprocess.run(command, env=others | given, capture_output=True, text=True, check=False)
    assert told.stdout.strip() == seen, told.stderr
