"""Time to open traces, compared with common tools; prints the README's table.

    python benchmarks/ingest.py [--sizes 100,500,2000] [--folder DIR] [--peers-up-to 100] [--repeat 3] [--no-peers]

One run makes the inputs (plain and .gz), installs each peer from PyPI into its own virtual environment, and runs
everything as whole processes, one at a time: wall and CPU seconds, peak memory of the process and its children.
warplens runs as the command a user types; peers load the file and make a table of kernels. Rates are in uncompressed
bytes. The first warplens run compiles the scanner and is not counted. TraceLens (AMD) is missing: it is not on PyPI,
where that name belongs to another project.

A second table measures waiting times: reopening a cached trace in a process with all modules imported, up to the rows
of the kernels view; and the first rows of an uncached trace, from process start to the event at which the app draws
them. The third table is that of ``nsys.py``.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nsys
from measured import MEASURE
from traces import write

from warplens.loaders.native.processor import SETTING, cores

PACKAGES = {
    "HolisticTraceAnalysis": ["HolisticTraceAnalysis", "setuptools<81"],
    "torch-tb-profiler": ["torch-tb-profiler", "setuptools<81"],
    "orjson, polars": ["orjson", "polars"],
    "json, pandas": ["pandas"],
}
_SELECT = "[(e['name'], e['dur']) for e in d['traceEvents'] if e.get('cat') == 'kernel' and e.get('ph') == 'X']"
PEERS = {
    "HolisticTraceAnalysis": (
        "import sys; from hta.trace_analysis import TraceAnalysis\n"
        "t = TraceAnalysis(trace_files={0: sys.argv[1]})\n"
        "t.get_gpu_kernel_breakdown(visualize=False, num_kernels=1000000)"
    ),
    "torch-tb-profiler": (
        "import sys; from torch_tb_profiler.profiler.data import RunProfileData\n"
        "from torch_tb_profiler.io import Cache\n"
        "p = RunProfileData.parse('worker', '0', sys.argv[1], Cache()); p.process(); print(len(p.kernel_stat))"
    ),
    "orjson, polars": (
        f"import sys, orjson, polars as pl; d = orjson.loads(open(sys.argv[1], 'rb').read()); k = {_SELECT}\n"
        "print(pl.DataFrame(k, schema=['n', 'd'], orient='row').group_by('n').agg(pl.len(), pl.col('d').sum()))"
    ),
    "json, pandas": (
        f"import sys, json, pandas; d = json.load(open(sys.argv[1])); k = {_SELECT}\n"
        "print(pandas.DataFrame(k, columns=['n', 'd']).groupby('n').d.agg(['count', 'sum']))"
    ),
}
REPORT = [sys.executable, "-m", "warplens", "report", "--view", "kernels", "--format", "json"]
_REOPEN = """
import json, sys, time
from warplens.analysis.views.kernels import VIEW
from warplens.analysis.query.ask import ask
from warplens.loaders.ingest import cache
from warplens.loaders.ingest.opening import open_run
def shown(path):
    began = time.perf_counter()
    runs = open_run(path)
    rows = ask(VIEW, runs).window(0, 50)
    assert rows
    return 1000 * (time.perf_counter() - began), runs[0]
small, path, times = sys.argv[1], sys.argv[2], int(sys.argv[3])
open_run(path)
shown(small)  # what is imported at the first question is not counted
took = [shown(path)[0] for _ in range(times)]
run, entry = shown(path)[1], next(entry for entry in cache.entries() if entry.source.endswith(path.rpartition('/')[2]))
import polars as pl
rows = [run.table(name).select(pl.len()).collect().item() for name in ("kernels", "host")]
print(json.dumps([took, rows, entry.bytes / entry.source_bytes]))
"""
_INTO = """
import json, os, sys, time
if "one core" in sys.argv:
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
from warplens.loaders.ingest import cache
from warplens.loaders.ingest.opening import open_run
small, path, times = sys.argv[1], sys.argv[2], int(sys.argv[3])
took = []
for number in range(times + 1):  # the first one is there to have everything imported
    cache.clear()
    began = time.perf_counter()
    open_run(path if number else small)
    took += [1000 * (time.perf_counter() - began)] * (number > 0)
print(json.dumps(took))
"""
_FIRST_ROWS = """
import json, sys, threading, time
from warplens.loaders.events import Failed, FirstRows, Loaded
from warplens.loaders.ingest.process import Ingest
there = threading.Event()
def on_event(event):
    if isinstance(event, (FirstRows, Loaded, Failed)) and not there.is_set():
        print(json.dumps([type(event).__name__, time.monotonic()]), flush=True)
        there.set()
ingest = Ingest(sys.argv[1], use_cache=False)
ingest.start(on_event)
there.wait()
ingest.cancel()
ingest.wait()
"""


@dataclass
class Result:
    """One row: seconds are medians over the repeats, ``peak`` is MiB."""

    what: str
    size: float
    wall: float
    cpu: float
    peak: float
    error: str = ""
    beside: Result | None = None
    """warplens on the same input, run right before and after the peer: the load of a shared machine varies."""


def measure(what: str, command: list[str], size: float, repeat: int, cold: Path | None = None) -> Result:
    """Run a command ``repeat`` times, each as its own process; ``cold``: a cache folder removed before each run."""
    seen = []
    for _ in range(repeat):
        if cold is not None:
            shutil.rmtree(cold, ignore_errors=True)
        done = subprocess.run([sys.executable, "-c", MEASURE, *command], capture_output=True, text=True, check=True)
        status, *numbers, error = json.loads(done.stdout)
        if status:
            return Result(what, size, 0, 0, 0, (error.strip().splitlines() or ["failed"])[-1][:80])
        seen.append(numbers)
        print(f"  {what} {size:.0f} MB: {numbers[0]:.2f} s", file=sys.stderr)
    wall, cpu, peak = (statistics.median(column) for column in zip(*seen, strict=True))
    return Result(what, size, wall, cpu, peak)


def install(folder: Path, wanted: Container[str] = PACKAGES) -> dict[str, Path]:
    """Path of a Python interpreter per wanted peer that can be installed."""
    out = {}
    for peer, packages in PACKAGES.items():
        if peer not in wanted:
            continue
        home = folder / f"peer-{peer.split(',')[0]}"
        python = home / "bin" / "python"
        if not python.exists():
            venv.create(home, with_pip=True)
            done = subprocess.run([python, "-m", "pip", "install", "-q", *packages], capture_output=True, text=True)
            if done.returncode:
                print(f"  {peer} cannot be installed: {done.stderr[-200:]}", file=sys.stderr)
                shutil.rmtree(home)
                continue
        out[peer] = python
    return out


def inputs(folder: Path, sizes: list[float]) -> list[tuple[float, Path]]:
    """Size in MB and path of each trace; missing ones are made."""
    out = []
    for size in sizes:
        path = folder / f"kineto-{size:g}.json"
        if not path.exists():
            write(path.with_suffix(".part"), size).rename(path)
        out.append((path.stat().st_size / 1e6, path))
    return out


def packed(path: Path) -> Path:
    """The same trace as .gz, like torch.profiler writes it."""
    target = path.with_suffix(".json.gz")
    if not target.exists():
        with path.open("rb") as source, gzip.open(target.with_suffix(".part"), "wb", 6) as sink:
            shutil.copyfileobj(source, sink, 1 << 20)
        target.with_suffix(".part").rename(target)
    return target


def ours(folder: Path, made: list[tuple[float, Path]], repeat: int, extra: list[Path]) -> list[Result]:
    """The warplens command on each input: cold, from the cache, compressed, small."""
    cache = folder / "cache"
    os.environ["XDG_CACHE_HOME"] = str(cache)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # installed commands and peers have bytecode, too
    largest = max(made)[1]
    measure("warm-up", [*REPORT, str(largest), "--no-cache"], max(made)[0], 2)
    traces = cache / "warplens" / "traces"
    out = []
    for size, path in made:
        out.append(measure("warplens", [*REPORT, str(path), "--no-cache"], size, repeat))
        out.append(measure("warplens, into its cache", [*REPORT, str(path)], size, repeat, traces))
        out.append(measure("warplens, from its cache", [*REPORT, str(path)], size, repeat))
        if size < 1000:
            out.append(measure("warplens, .json.gz", [*REPORT, str(packed(path)), "--no-cache"], size, repeat))
    for size, path in inputs(folder, [1, 10, 50]):
        out.append(measure("warplens, small, cold cache", [*REPORT, str(path)], size, repeat, traces))
    for path in extra:
        size = path.stat().st_size / 1e6
        out.append(measure(f"warplens, {path.suffix[1:]}", [*REPORT, str(path), "--no-cache"], size, repeat))
    return out


def waiting(folder: Path, made: list[tuple[float, Path]], repeat: int) -> str:
    """The waiting times as markdown: milliseconds for the first time in a process, and the median of further ones.

    Imports are not counted, except before the first rows.
    """
    (_, small), (_, large) = inputs(folder, [1, 50])
    lines = ["| what | MB | kernels | host slices | ms | median of further ones | cache / source |",
             "|---|--:|--:|--:|--:|--:|--:|"]
    for size, path in made:
        for file in (path, packed(path)) if size < 1000 else (path,):
            spans = [ms for _ in range(repeat) for ms in _told(_INTO, str(large), str(file), "1")]
            ms, what = statistics.median(spans), "" if file is path else ", .json.gz"
            lines.append(f"| from file{what} to cache, {1000 * size / ms:.0f} MB/s | {size:.0f} | | | {ms:.0f} | | |")
    if hasattr(os, "sched_setaffinity"):
        size, path = made[-1]
        ms = statistics.median(_told(_INTO, str(large), str(path), "3", "one core"))
        what = f"from file to cache on one core, {1000 * size / ms:.0f} MB/s"
        lines.append(f"| {what} | {size:.0f} | | | {ms:.0f} | | |")
    for _, path in made:
        _told(_INTO, str(small), str(path), "1")
    for size, path in made:
        runs = [_told(_REOPEN, str(small), str(path), "9") for _ in range(repeat)]
        first = statistics.median(took[0] for took, _, _ in runs)
        later = statistics.median(ms for took, _, _ in runs for ms in took[1:])
        _, (kernels, host), share = runs[0]
        counts = f"{kernels:,} | {host:,}"
        lines.append(f"| from the cache to kernels | {size:.0f} | {counts} | {first:.0f} | {later:.0f} | {share:.1%} |")
    for size, path in made:
        seen = []
        for _ in range(max(repeat, 5)):
            began = time.monotonic()
            event, at = _told(_FIRST_ROWS, str(path))
            seen.append(1000 * (at - began))
        what = "process start to first rows" if event == "FirstRows" else f"process start to {event}"
        lines.append(f"| {what} | {size:.0f} | | | {statistics.median(seen):.0f} | | |")
    return "\n".join(lines)


def _told(program: str, *arguments: str) -> list[Any]:
    """JSON output of a Python program run in its own process."""
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    said: list[Any] = json.loads(done.stdout)
    return said


def beside(path: Path, size: float, repeat: int, peer: str, command: list[str]) -> Result:
    """A peer's result, each run between warplens runs; a single run for inputs on which it takes minutes."""
    own, ours, theirs = [*REPORT, str(path), "--no-cache"], [], []
    for _ in range(repeat if size < 200 else 1):
        ours.append(measure("warplens", own, size, 2))
        theirs.append(measure(peer, command, size, 1))
        ours.append(measure("warplens", own, size, 2))
    found = _median(theirs)
    found.beside = _median(ours)
    return found


def _median(results: list[Result]) -> Result:
    failed = [result for result in results if result.error]
    if failed:
        return failed[0]
    wall, cpu, peak = (statistics.median(getattr(one, part) for one in results) for part in ("wall", "cpu", "peak"))
    return Result(results[0].what, results[0].size, wall, cpu, peak)


def by_threads(made: list[tuple[float, Path]], counts: list[int], repeat: int) -> str:
    """Each trace read with these numbers of scanning threads, as far as there are cores for them."""
    lines = ["| threads | MB | s | MB/s | CPU s | peak MiB | × fewest |", "|--:|--:|--:|--:|--:|--:|--:|"]
    there = cores()
    for size, path in made:
        base = 0.0
        for count in counts:
            if count > max(there, 2):
                lines.append(f"| {count} | {size:.0f} | there are {there} cores | | | | |")
                continue
            os.environ[SETTING] = str(count)
            r = measure(f"{count} threads", [*REPORT, str(path), "--no-cache"], size, repeat)
            base = base or r.wall
            lines.append(f"| {count} | {size:.0f} | {r.wall:.2f} | {size / r.wall:.0f} | {r.cpu:.2f} | {r.peak:.0f} | "
                         f"{base / r.wall:.1f} |")
    return "\n".join(lines)


def table(results: list[Result]) -> str:
    """The results as markdown; ratios are to warplens on the same input, for peers to the runs around theirs."""
    base = {round(r.size): r for r in results if r.what == "warplens"}
    lines = ["| what | MB | s | MB/s | CPU s | peak MiB | × wall | × CPU |", "|---|--:|--:|--:|--:|--:|--:|--:|"]
    for r in results:
        if r.error:
            lines.append(f"| {r.what} | {r.size:.0f} | {r.error} | | | | | |")
            continue
        own = r.beside or base.get(round(r.size))
        ratios = f"{r.wall / own.wall:.1f} | {r.cpu / own.cpu:.1f}" if own and own is not r and own.wall else " | "
        rate = r.size / r.wall if r.wall else 0
        lines.append(f"| {r.what} | {r.size:.0f} | {r.wall:.2f} | {rate:.0f} | {r.cpu:.2f} | {r.peak:.0f} | {ratios} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="100,500,2000", help="megabytes, by commas")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "warplens-benchmark")
    parser.add_argument("--peers-up-to", type=float, default=100, help="largest input the slow peers are given, MB")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--kernels", default="2000000,8000000", help="of Nsight exports, by commas; '' for none")
    parser.add_argument("--threads", default="", help="instead of all else: read with so many threads, by commas")
    parser.add_argument("files", nargs="*", type=Path, help="further recordings of yours, such as Nsight .sqlite")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    made = inputs(options.folder, [float(size) for size in options.sizes.split(",")])
    if options.threads:
        print(by_threads(made, [int(count) for count in options.threads.split(",")], options.repeat))
        return
    results = ours(options.folder, made, options.repeat, options.files)
    waits = waiting(options.folder, made, options.repeat)
    counts = [int(count) for count in options.kernels.split(",") if count]
    exports = "\n".join(nsys.compare(counts, options.repeat) if counts else ())
    for peer, python in ({} if options.no_peers else install(options.folder)).items():
        for size, path in made:
            limit = 600 if "orjson" in peer or "pandas" in peer else options.peers_up_to * 1.1
            if size <= limit:
                results.append(beside(path, size, options.repeat, peer, [str(python), "-c", PEERS[peer], str(path)]))
    print(f"\n{os.cpu_count()} cores, Python {sys.version.split()[0]}, medians of {options.repeat}, whole processes\n")
    print(table(results))
    print(f"\n{waits}\n\n{exports}")


if __name__ == "__main__":
    main()
