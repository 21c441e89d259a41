"""Memory that a training frees stays with the process."""

import subprocess
import sys

import pytest

from firstspike.kernels.heap import keep_heap

STEPS = """
import resource, torch
from firstspike.kernels.heap import keep_heap
{call}
torch.ones(2**24)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    torch.ones(2**24)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(call: str) -> int:
    """Pages that the system has to give to ten steps that take and free 64 MiB each, after a first."""
    command = [sys.executable, "-c", STEPS.format(call=call)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(not keep_heap(), reason="there is no glibc here")
def test_a_step_takes_again_what_the_step_before_it_freed() -> None:
    assert faults("keep_heap()") < faults("") / 4
