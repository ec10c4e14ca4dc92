import platform
import subprocess
import sys

import pytest

QUESTION = """
import resource
import numpy as np
from warplens.memory import give_back, keep_freed

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        held = [np.ones(220_000) for _ in range(6)]
        del held
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults()
given_back = faults()
keep_freed()
faults()
kept = faults()
give_back()
faults()
print(given_back, kept, faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="what it asks of the C library is glibc's")
def test_arrays_are_made_in_memory_that_was_freed_before():
    said = subprocess.check_output([sys.executable, "-c", QUESTION], text=True)
    before, kept, after = map(int, said.split())
    assert kept < min(before, after) / 10


def test_other_systems_are_left_as_they_are(monkeypatch):
    from warplens import memory

    monkeypatch.setattr("sys.platform", "darwin")
    monkeypatch.setitem(sys.modules, "ctypes", None)  # to import it raises
    memory.keep_freed()
