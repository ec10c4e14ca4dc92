"""Where reading a Kineto trace stops scaling with cores: a simulation from the times its stages take on this machine.

    python benchmarks/cores.py TRACE.json [--threads 1,2,4,8,16]

The stages of the pipeline are timed (CPU time of the thread that is in them) while the trace is read once. Then blocks
are sent through the same pipeline on paper: each thread reads a block and scans it, a stage of Python and numpy of
which only one thread at a time may be in the interpreter, and the order of the file at the end. ``locked`` says what
share of that stage is counted as interpreter: 1 is the worst case, for numpy lets go of the lock inside long
operations. The bus of the memory is not in the model, and neither are hyperthreads nor the threads that write.
"""

from __future__ import annotations

import argparse
import heapq
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

from warplens.loaders.ingest.opening import open_run
from warplens.loaders.ingest.stream import Source
from warplens.loaders.kineto import pipeline
from warplens.loaders.kineto.scan.blocks import BlockScanner
from warplens.loaders.native.functions import Native


class Stages(NamedTuple):
    """Milliseconds a block takes in each stage, how many blocks there are, and their bytes."""

    read: float
    scan: float
    python: float
    order: float
    blocks: int
    bytes: int


def timed(place: Any, name: str, spent: defaultdict[str, float], calls: Counter[str]) -> None:
    """Have a method count the CPU time of its thread, calls within it included."""
    original: Callable[..., Any] = getattr(place, name)

    def wrapped(*arguments: Any, **named: Any) -> Any:
        before = time.thread_time()
        try:
            return original(*arguments, **named)
        finally:
            spent[name] += 1000 * (time.thread_time() - before)
            calls[name] += 1

    setattr(place, name, wrapped)


def measure(path: str) -> Stages:
    """The stages of one load, the second of two: the first has everything imported and memory touched."""
    spent, calls = defaultdict[str, float](float), Counter[str]()
    for place, name in ((Source, "read_at"), (Native, "call"), (BlockScanner, "scan"), (pipeline.Pipeline, "_emit")):
        timed(place, name, spent, calls)
    for _ in range(2):
        spent.clear()
        calls.clear()
        size = open_run(path, use_cache=False)[0].info.bytes or 0
    blocks = calls["_emit"]
    if not blocks:
        raise SystemExit("The compiled scanner did not read it: too small, or not compiled yet. Run it again.")
    python = spent["scan"] - spent["call"]
    return Stages(
        spent["read_at"] / blocks, spent["call"] / blocks, python / blocks, spent["_emit"] / blocks, blocks, size
    )


def simulate(stages: Stages, threads: int, locked: float) -> float:
    """Seconds until the last block is in order."""
    free = [0.0] * threads
    interpreter = ordered = 0.0
    for _ in range(stages.blocks):
        scanned = heapq.heappop(free) + stages.read + stages.scan
        interpreter = max(interpreter, scanned) + locked * stages.python
        done = interpreter + (1 - locked) * stages.python
        ordered = max(done, ordered) + stages.order
        interpreter += stages.order
        heapq.heappush(free, ordered)
    return ordered / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace")
    parser.add_argument("--threads", default="1,2,4,8,16", help="threads that scan, by commas")
    options = parser.parse_args()
    stages = measure(options.trace)
    print(f"{stages.blocks} blocks of {stages.bytes / stages.blocks / 1e6:.1f} MB; ms a block: read {stages.read:.1f}, "
          f"scan {stages.scan:.1f}, Python and numpy {stages.python:.1f}, in order {stages.order:.1f}\n")
    print("| threads that scan | MB/s, lock held throughout | × one | MB/s, half of it | × one |")
    print("|--:|--:|--:|--:|--:|")
    one = [simulate(stages, 1, locked) for locked in (1.0, 0.5)]
    for threads in map(int, options.threads.split(",")):
        taken = [simulate(stages, threads, locked) for locked in (1.0, 0.5)]
        told = (f"{stages.bytes / 1e6 / wall:.0f} | {base / wall:.1f}" for wall, base in zip(taken, one, strict=True))
        print(f"| {threads} | {' | '.join(told)} |")


if __name__ == "__main__":
    main()
