"""How reading a Kineto trace scales with cores: a simulation from the stage times measured on this machine.

    python benchmarks/cores.py TRACE.json [--threads 1,2,4,8,16]

The stages of the pipeline are timed (thread CPU time) while the trace is read. Then the pipeline is simulated: each
thread reads and scans a block, then runs a Python and numpy stage under the GIL, and finally blocks are put in file
order. ``locked`` is the share of the Python stage that holds the GIL: 1 is the worst case, because numpy releases it
inside long operations. Memory bandwidth, hyperthreads and the writing threads are not modelled.
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
    """Milliseconds per block in each stage, the number of blocks, and their total bytes."""

    read: float
    scan: float
    python: float
    order: float
    blocks: int
    bytes: int


def timed(place: Any, name: str, spent: defaultdict[str, float], calls: Counter[str]) -> None:
    """Wrap a method so that it adds up its thread CPU time, nested calls included."""
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
    """Stage times of the second of two loads; the first one imports everything and touches the memory."""
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
    """Simulated seconds until the last block is in order."""
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
