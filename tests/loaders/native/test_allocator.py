import os
import platform
import subprocess
import sys

import pytest

from warplens.loaders.native.allocator import keep_freed, return_freed

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


STAYS = """
import numpy as np
from warplens.loaders.native.allocator import return_freed

def resident():
    _, resident, of_files, *_ = map(int, open("/proc/self/statm").read().split())
    return (resident - of_files) * 4  # the kernel takes pages of files away, and brings them back, whenever it likes

if {asked}:
    return_freed()
np.ones(2_000_000)  # from here on the C library keeps arrays of that size, unless it was told
before = resident()
held = [np.ones(1_000_000) for _ in range(9)]
last = held.pop()
del held
print(resident() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="what it asks of the C library is glibc's")
def test_a_process_that_stays_gives_large_arrays_back():
    def left(asked: bool) -> int:
        command = [sys.executable, "-c", STAYS.format(asked=asked)]
        plain = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}  # Dask sets one
        return int(subprocess.check_output(command, text=True, env=plain))

    # where something else happens to lie behind its heap, the C library maps every array and gives it back anyway
    kept, returned = max(left(False), left(False)), left(True)
    assert returned < 10_000 < 60_000 < kept, (kept, returned)  # KiB: one array of eight million bytes, or all nine


ARENAS = """
import ctypes, tempfile, threading
from warplens.cli.main import set_up

set_up()
libc = ctypes.CDLL(None)
libc.malloc.restype = libc.fopen.restype = ctypes.c_void_p
threads = [threading.Thread(target=libc.malloc, args=(1000,)) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
with tempfile.NamedTemporaryFile() as told:
    stream = ctypes.c_void_p(libc.fopen(told.name.encode(), b"w"))
    libc.malloc_info(0, stream)
    libc.fclose(stream)
    print(told.read().count(b"<heap nr="))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="what it asks of the C library is glibc's")
def test_threads_of_the_app_share_one_arena():
    assert subprocess.check_output([sys.executable, "-c", ARENAS], text=True) == "1\n"


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="what it asks of the C library is glibc's")
def test_arrays_are_made_in_memory_that_was_freed_before():
    said = subprocess.check_output([sys.executable, "-c", QUESTION], text=True)
    before, kept = map(int, said.split())
    assert kept < before / 10


def test_only_linux_is_asked(monkeypatch):
    monkeypatch.setitem(sys.modules, "ctypes", None)  # to import it raises
    monkeypatch.setattr("sys.platform", "linux")
    for ask in (keep_freed, return_freed):
        with pytest.raises(ImportError):
            ask()
    monkeypatch.setattr("sys.platform", "darwin")
    assert keep_freed() is None and return_freed() is None
