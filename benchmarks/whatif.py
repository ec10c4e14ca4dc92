"""Accuracy of what-if: the replay of every recording, and random changes compared with a simulator's ground truth.

    python benchmarks/whatif.py recordings FOLDER           # accuracy measures and verdict of each recording
    python benchmarks/whatif.py first FOLDER                # the longest kernel next to the change that saves most
    python benchmarks/whatif.py changes made_runs.py        # median and worst error of each kind of change

``made_runs.py`` is a simulator with ``run(seed, cycles, pace, change, sync_records)`` and ``write(path, events)``: the
true saving of a change comes from a second simulation with it. All print Markdown for ``benchmarks/results/whatif.md``.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import random
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("XDG_CACHE_HOME", tempfile.mkdtemp())

from warplens.analysis.contract.changes import Change
from warplens.analysis.contract.options import Options
from warplens.analysis.core.names.short_name import short_name
from warplens.analysis.replay.answer import predictions, single_changes
from warplens.analysis.replay.replayed import Replayed
from warplens.loaders.errors import Unreadable
from warplens.loaders.ingest.opening import open_run
from warplens.loaders.trace import Trace

PACES = ("device", "host", "input", "sync", "communication")
NAMES = {
    "kernel": ("gemm_a", "gemm_c", "norm_b", "adam"), "collective": ("nccl",), "copy": ("Memcpy HtoD",),
    "host": ("aten::addmm", "aten::mm", "aten::layer_norm", "train.py"), "op": ("aten::addmm", "aten::mm"),
    "idle": ("input",), "sync": ("cudaStreamSynchronize",), "graph": ("",),
}
CYCLES = 10


class Told(NamedTuple):
    """Saving of one change in a simulated run, predicted and true, and the cycle time without the change (us)."""

    what: str
    predicted: float
    true: float
    cycle: float

    @property
    def off(self) -> float:
        """The error as a share of the cycle."""
        return abs(self.predicted - self.true) / self.cycle


def opened(root: Path) -> Iterator[tuple[str, Trace]]:
    """Name and run of each recording with launches below a folder."""
    for path in sorted(one for one in root.rglob("*") if one.is_file()):
        try:
            runs = open_run(str(path))
        except Unreadable:
            continue
        for run in runs:
            if run.has("kernels"):
                yield str(path.relative_to(root)) + (f" ({run.info.label})" if len(runs) > 1 else ""), run


def measured(root: Path) -> Iterator[tuple[str, ...]]:
    """Accuracy measures and verdict of each recording."""
    for name, run in opened(root):
        found = Replayed(run, Options()).accuracy
        shares = [found.error, found.cross_error, found.kept, found.unexplained]
        verdict = "trusted" if found.trusted else f"refused: {found.reason}" if found.reason else "predicts"
        yield (
            name, "" if found.recorded_ns is None else f"{found.recorded_ns / 1e6:,.2f}",
            *("" if share is None else f"{100 * share:{'+' if not at else ''}.2f}%"
              for at, share in enumerate(shares)), verdict,
        )


def leading(root: Path) -> Iterator[tuple[str, ...]]:
    """Per trusted recording: the kernel with the most time and the change that saves most, where they differ."""
    for name, run in opened(root):
        if not Replayed(run, Options()).accuracy.trusted:
            continue
        rows = predictions(run, Options(), ()).rows
        kernels = [row for row in rows if row.kind in ("kernel", "collective") and row.takes is not None]
        single = single_changes(rows)
        if kernels and single:
            kernel, best = max(kernels, key=lambda row: row.takes or 0.0), single[0]
            if kernel.name != best.name:
                yield (name, short_name(kernel.name), f"{kernel.takes:.0%}", f"{kernel.share:.1%}", f"{best.share:.1%}",
                       f"{best.kind}: {short_name(best.name) if best.kind == 'kernel' else best.name}")


def told(simulator: Any, count: int, seed: int) -> list[Told]:
    """Predicted and true saving of random changes on random runs, cycling through all paces."""
    rng, found = random.Random(seed), list[Told]()
    folder = Path(tempfile.mkdtemp())
    while len(found) < count:
        for pace in PACES:
            records, number = bool(rng.getrandbits(1)), rng.randrange(10**6)
            cycle, events = simulator.run(number, CYCLES, pace, sync_records=records)
            path = folder / f"{len(found)}.json"
            simulator.write(path, events)
            replayed = Replayed(open_run(str(path))[0], Options())
            for what, names in NAMES.items():
                if (what == "sync" and pace != "sync") or (what == "idle" and pace != "input"):
                    continue
                name = rng.choice(names)
                factor = 0.0 if what in ("sync", "graph") or rng.random() < 0.25 else rng.uniform(0, 2)
                after = truth(simulator, what, name, factor, (number, CYCLES, pace), records)
                saved = replayed.saved_ns(Change(what, name, factor)) / 1e3
                found.append(Told(what, saved, cycle - after, cycle))
    return found[:count]


def truth(simulator: Any, what: str, name: str, factor: float, how: tuple[int, int, str], records: bool) -> float:
    """Cycle time of the run simulated with the change, us."""
    plain = simulator.Machine
    if what == "graph":
        simulator.Machine = graphed(plain)
    try:
        cycle: float = simulator.run(*how, changed(what, name, factor), records)[0]
    finally:
        simulator.Machine = plain
    return cycle


def graphed(machine: Any) -> Any:
    """The simulator's machine with all launches between two host waits in one graph: after the first launch, neither
    launches nor the host code between them take time, except data loading."""

    class Graphed(machine):  # type: ignore[misc]
        joined = False

        def host(self, name: str, dur: float, cat: str = "python_function") -> None:
            self.joined = self.joined and not name.startswith(("enumerate", "train.py(31)"))  # a new cycle begins
            super().host(name, 0.0 if self.joined else dur, cat)

        def call(self, name: str, dur: float) -> int:
            number: int = super().call(name, 0.0 if self.joined else dur)
            return number

        def work(self, *what: Any, **more: Any) -> None:
            super().work(*what, **more)
            self.joined = True

        def op(self, name: str, kernels: list[tuple[str, float]], overhead: float, stream: int = 7) -> None:
            at, joined = self.now, self.joined
            super().op(name, kernels, 0.0 if joined else overhead, stream)
            self.now = at if joined else self.now - 1.0 if self.joined else self.now

        def synchronize(self, *what: Any, **more: Any) -> None:
            super().synchronize(*what, **more)
            self.joined = False

    return Graphed


def changed(what: str, name: str, factor: float) -> Any:
    """The change as a factor function for the simulator."""
    if what == "idle":
        what, name = "host", "DataLoader"
    kernel = {"aten::addmm": "gemm_a", "aten::mm": "gemm_c"}.get(name, "")

    def factor_of(kind: str, of: str) -> float:
        if what == "graph":
            return 1.0
        if what == "op":
            return factor if (kind == "host" and of == name) or (kind == "kernel" and of == kernel) else 1.0
        return factor if kind == what and name in of else 1.0

    return factor_of


def table(head: Iterable[str], rows: Iterable[tuple[str, ...]]) -> None:
    """Print a Markdown table row by row, as rows arrive; all columns but the first and the last are numbers."""
    cells = tuple(head)
    print("| " + " | ".join(cells) + " |")
    print("|---|" + "--:|" * (len(cells) - 2) + "---|")
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)


def by_kind(found: list[Told]) -> Iterator[tuple[str, ...]]:
    """Median and worst error of each kind of change."""
    groups = defaultdict[str, list[Told]](list)
    for one in found:
        groups[one.what].append(one)
    for what, ones in groups.items():
        large = [abs(one.predicted - one.true) / abs(one.true) for one in ones if abs(one.true) > 0.01 * one.cycle]
        of_saving = (f"{statistics.median(large):.2%}", f"{max(large):.1%}") if large else ("", "")
        off = [one.off for one in ones]
        yield what, str(len(ones)), f"{statistics.median(off):.3%}", f"{max(off):.2%}", *of_saving


def main() -> None:
    """Print one of the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("recordings", "first", "changes"))
    parser.add_argument("path", type=Path)
    parser.add_argument("--count", type=int, default=300, help="how many changes")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    began = time.perf_counter()
    if asked.what == "recordings":
        table(("recording", "recorded, ms", "error", "next cycle", "kept", "unexplained", "verdict"),
              measured(asked.path))
    elif asked.what == "first":
        table(("recording", "first kernel", "takes", "wins", "first change wins", "which"), leading(asked.path))
    else:
        spec = importlib.util.spec_from_file_location("simulator", asked.path)
        assert spec is not None and spec.loader is not None
        simulator = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(simulator)
        table(("change", "tried", "median error, of the cycle", "worst", "median, of the saving", "worst"),
              by_kind(told(simulator, asked.count, asked.seed)))
    print(f"{time.perf_counter() - began:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
