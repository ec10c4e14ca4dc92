"""Files with bytes changed, through a loader: each try must end in tables that can be read or in a refusal.

What all fuzz targets share: how bytes are changed, what counts as a failure, what is reported. A try that computes for
longer than ``SECONDS`` hangs, and memory is held to ``MEMORY`` more than the process had when it began.
"""

from __future__ import annotations

import faulthandler
import gc
import random
import resource
import shutil
import signal
import tempfile
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import polars as pl

from warplens.loaders.errors import Unreadable
from warplens.loaders.loader import FormatLoader, Job
from warplens.loaders.trace import TABLE_NAMES, Trace

SECONDS, WAITED, MEMORY = 20, 600, 3 << 30
"""Computing and waiting longer than this is hanging, where the machine is busy with other things too; bytes."""
_THOROUGH = 20
"""One in so many tries also has its tables written and read, by the engine users have; that is most of the time."""
_BYTES = (0, 1, 2, 7, 8, 9, 10, 18, 26, 34, 127, 128, 255)
_MEMORY_FILES = Path("/dev/shm")


class Handed(FormatLoader):
    """A loader that is handed its files: nobody asks it whether they are its own."""

    def sniff(self, head: bytes) -> bool:
        """Never asked."""
        return True


class Target(NamedTuple):
    """What is fuzzed: ``place`` puts a changed input into a folder, which lasts, and says what to load."""

    loader: FormatLoader
    place: Callable[[Path, random.Random], Path]


class Done(NamedTuple):
    """How many tries there were, how many opened, the largest memory of the process in MiB, and what failed.

    ``failures`` has the traceback of the first of each kind by the input it is of, which is kept.
    """

    tries: int
    opened: int
    mebibytes: int
    failures: dict[str, str]


def changed(data: bytes, chance: random.Random) -> bytes:
    """The bytes with some set, flipped, cut out, doubled, swapped or cut off."""
    out = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8, 40))):
        if not out:
            break
        at, kind = chance.randrange(len(out)), chance.random()
        size = min(chance.choice((1, 2, 4, 9, 60)), len(out) - at)
        if kind < 0.35:
            out[at] = chance.choice((*_BYTES, out[at] ^ 1 << chance.randrange(8), out[at] + 1 & 255, out[at] - 1 & 255))
        elif kind < 0.55:
            out[at : at + size] = chance.randbytes(size)
        elif kind < 0.7:
            del out[at : at + size]
        elif kind < 0.85:
            out[at:at] = out[at : at + size]
        elif kind < 0.95:
            other = chance.randrange(len(out))
            out[at : at + size] = out[other : other + size]
        else:
            del out[at:]
    return bytes(out)


def _late(number: int, frame: FrameType | None) -> None:
    raise TimeoutError(f"a try takes more than {SECONDS if number == signal.SIGPROF else WAITED} s")


def _watch(seconds: int) -> None:
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.alarm(seconds and WAITED)


def limit_memory() -> None:
    """Hold the process to ``MEMORY`` more than it has: what asks for more fails."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, resource.RLIM_INFINITY))
    faulthandler.enable()
    gc.freeze()  # what is there stays there: it need not be looked through again and again


def fuzz(target: Target, seed: int, until: Callable[[int], bool]) -> Done:
    """Load one changed input after the other, until ``until`` says so of the tries.

    AssertionError, or whatever else a loader must not raise, and each warning of a library, is a failure.
    """
    chance, tries, opened, failures = random.Random(seed), 0, 0, dict[str, tuple[str, str]]()
    for number in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(number, _late)
    base = Path(tempfile.mkdtemp(prefix="fuzz-", dir=_MEMORY_FILES if _MEMORY_FILES.is_dir() else None))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        while not until(tries):
            folder, workspace = base / "input", base / "tables"
            for made in (folder, workspace):
                if not made.exists() or tries % _THOROUGH < 2:
                    shutil.rmtree(made, ignore_errors=True)
                    made.mkdir()
            try:
                path = target.place(folder, chance)
                _watch(SECONDS)
                opened += _load(target.loader, path, workspace, tries % _THOROUGH == 0)
            except (Exception, pl.exceptions.PanicException) as error:
                _watch(0)
                kept = Path(tempfile.gettempdir()) / f"fuzz-{seed}-{tries}"
                where = traceback.extract_tb(error.__traceback__)[-1]
                if failures.setdefault(f"{error!r:.60} {where}", (str(kept), ""))[0] == str(kept):
                    shutil.copytree(folder, kept, dirs_exist_ok=True)
                    failures[f"{error!r:.60} {where}"] = str(kept), traceback.format_exc()
                    print(f"seed {seed}, try {tries}: {kept}\n{traceback.format_exc()}", flush=True)
            _watch(0)
            tries += 1
    shutil.rmtree(base, ignore_errors=True)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    return Done(tries, opened, most, dict(failures.values()))


def _load(loader: FormatLoader, path: Path, workspace: Path, thorough: bool) -> bool:
    pl.Config.set_engine_affinity("auto" if thorough else "in-memory")
    try:
        traces = loader.load(Job(path, workspace, lasting=thorough))
    except Unreadable as refused:
        assert refused.reason and "\n" not in str(refused)
        return False
    # tables that are scanned where they lie are read when somebody asks, who says then that they cannot be
    damaged = (pl.exceptions.PolarsError, pl.exceptions.PanicException) if getattr(loader, "in_place", False) else ()
    with suppress(*damaged):
        for trace in traces if thorough else ():
            sound(trace)
    return True


def sound(trace: Trace) -> None:
    """AssertionError where the tables cannot be what they claim to be."""
    tables = {name: trace.table(name).collect() for name in TABLE_NAMES}
    kernels = tables["kernels"]
    assert kernels["index"].to_list() == list(range(kernels.height))
    for name in ("kernels", "host", "cycles"):
        assert not (tables[name]["dur_ns"] < 0).any() and not (tables[name]["start_ns"] < 0).any(), name
