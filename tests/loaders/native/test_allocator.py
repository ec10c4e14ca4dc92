import platform
import subprocess
import sys

import pytest

from warplens.loaders.native.allocator import keep_freed

QUESTION = """
import resource
import numpy as np
from warplens.loaders.native.allocator import keep_freed

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        held = [np.ones(220_000) for _ in range(6)]
        del held
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults()
before = faults()
keep_freed()
faults()
kept = faults()
print(before, kept)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="what it asks of the C library is glibc's")
def test_arrays_are_made_in_memory_that_was_freed_before():
    said = subprocess.check_output([sys.executable, "-c", QUESTION], text=True)
    before, kept = map(int, said.split())
    assert kept < before / 10


def test_only_linux_is_asked(monkeypatch):
    monkeypatch.setitem(sys.modules, "ctypes", None)  # to import it raises
    monkeypatch.setattr("sys.platform", "linux")
    with pytest.raises(ImportError):
        keep_freed()
    monkeypatch.setattr("sys.platform", "darwin")
    assert keep_freed() is None
