"""Files with bytes changed, through a loader: each try must end in tables that can be read or in a refusal.

What the fuzz targets of single loaders share: how bytes are changed, what counts as a failure, what is reported.
"""

from __future__ import annotations

import random
import resource
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from warplens.loaders.errors import Unreadable
from warplens.loaders.loader import Job, Loader
from warplens.loaders.trace import TABLE_NAMES, Trace

SECONDS = 20
"""A try that takes longer hangs."""
_THOROUGH = 20
"""One in so many tries also has its tables written and read; that is other code, and most of the time."""
_TOLD = 5000
_BYTES = (0, 1, 2, 7, 8, 9, 10, 18, 26, 34, 127, 128, 255)


class Done(NamedTuple):
    """How many tries there were, how many opened, the largest memory of the process in MiB."""

    tries: int
    opened: int
    mebibytes: int


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
    raise TimeoutError(f"no answer after {SECONDS} s")


def fuzz(
    loader: Loader, place: Callable[[Path, random.Random], Path], seed: int, until: Callable[[int], bool]
) -> Done:
    """Have ``place`` put a changed input into a folder and say what to load, until ``until`` says so of the tries.

    AssertionError, or whatever else a loader must not raise, ends it; the input is kept and named.
    """
    chance, tries, opened = random.Random(seed), 0, 0
    signal.signal(signal.SIGALRM, _late)
    base = Path(tempfile.mkdtemp(prefix="fuzz-"))
    while not until(tries):
        folder, workspace = base / "input", base / "tables"
        for made in (folder, workspace):
            if not made.exists() or tries % _THOROUGH < 2 or any(each.is_dir() for each in made.iterdir()):
                shutil.rmtree(made, ignore_errors=True)
                made.mkdir()
        path = place(folder, chance)
        signal.alarm(SECONDS)
        try:
            opened += _load(loader, path, workspace, tries % _THOROUGH == 0)
        except BaseException:
            signal.alarm(0)
            print(f"the input of try {tries} (seed {seed}) is {path}", flush=True)
            raise
        signal.alarm(0)
        tries += 1
        if tries % _TOLD == 0:
            print(f"{tries:,} tries", flush=True)
    shutil.rmtree(base, ignore_errors=True)
    return Done(tries, opened, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)


def _load(loader: Loader, path: Path, workspace: Path, thorough: bool) -> bool:
    try:
        traces = loader.load(Job(path, workspace, lasting=thorough))
    except Unreadable as refused:
        assert refused.reason and "\n" not in str(refused)
        return False
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


def main(run: Callable[[int, Callable[[int], bool]], Done], tries: int) -> None:
    """Run for so many tries and say how it went."""
    seed = int(time.time())
    print(f"seed {seed}", flush=True)
    done = run(seed, lambda count: count >= tries)
    print(f"{done.tries:,} tries, {done.opened:,} opened, the others refused; at most {done.mebibytes} MiB", flush=True)
