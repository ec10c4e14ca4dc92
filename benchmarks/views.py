"""Time and peak memory of every view for one run and for two, in whole processes, next to peers' equivalents.

    python benchmarks/views.py --sizes 100,500,2000

Makes the traces (see ``traces.py``) and a virtual environment per peer in ``--folder``, which takes minutes the first
time and needs PyPI; after that 100 MB take about five minutes on an idle machine, most of it for the peers, and every
further 500 MB two minutes for warplens. Every result is appended to ``--results`` at once: a second call with the same
file measures only what is missing, and prints everything. ``first``: the view's first answer for a trace that is in the
cache, without any derived data; ``anew``: derived data cached, but not the answer, as for a new scope; ``again``: the
answer cached; ``file``: no cache, reading included, which is what peers do. Each peer runs once, between two warplens
runs of the same view from the file; ``anew`` and ``again`` in its row are warplens from the cache. On a shared machine
wall times include the load of others: compare CPU seconds, and check the load recorded with each row.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import ingest
from ingest import Result, measure
from traces import write

from warplens.analysis.views import VIEWS

_HTA = "import sys; from hta.trace_analysis import TraceAnalysis; t = TraceAnalysis(trace_files={0: sys.argv[1]}); "
_TB = (
    "import sys; from torch_tb_profiler.profiler.data import RunProfileData\n"
    "from torch_tb_profiler.io import Cache\n"
    "p = RunProfileData.parse('worker', '0', sys.argv[1], Cache()); p.process(); "
)
PEERS: dict[str, tuple[tuple[str, str, str], ...]] = {
    "HolisticTraceAnalysis": (
        ("kernel breakdown", "kernels", _HTA + "t.get_gpu_kernel_breakdown(visualize=False, num_kernels=1000000)"),
        ("temporal breakdown", "overview", _HTA + "t.get_temporal_breakdown(visualize=False)"),
        ("idle time", "idle", _HTA + "t.get_idle_time_breakdown(ranks=[0], visualize=False)"),
        ("overlap", "collectives", _HTA + "t.get_comm_comp_overlap(visualize=False)"),
        (
            "trace diff", "diff",
            "import sys; from hta.trace_diff import TraceDiff; from hta.common.trace import Trace\n"
            "a, b = (Trace(trace_files={0: name}) for name in sys.argv[1:3])\n"
            "for one in (a, b): one.parse_traces(); one.decode_symbol_ids()\n"
            "TraceDiff.compare_traces(a, b)",
        ),
    ),
    "torch-tb-profiler": (
        ("overview", "overview", _TB + "print(p.avg_costs)"),
        ("operators", "ops", _TB + "print(len(p.op_list_groupby_name))"),
        ("kernels", "kernels", _TB + "print(len(p.kernel_stat))"),
    ),
}
"""Per peer: the question, the warplens view that answers it, and the peer's program."""


def asked(view: str, runs: list[Path], *more: str) -> list[str]:
    """The warplens command that prints a view."""
    files = [str(run) for run in runs]
    told = ["--view", view, "--format", "json", "--top", "20"]
    return [sys.executable, "-m", "warplens", "report", *files, *told, *more]


def forget(cache: Path) -> None:
    """Remove all derived data from the cache; the traces themselves stay."""
    for folder in cache.glob("warplens/traces/*/*/derived"):
        shutil.rmtree(folder)


def forget_answers(cache: Path) -> None:
    """Remove the cached answers; other derived data stays."""
    for answer in cache.glob("warplens/traces/*/*/derived/answer-*"):
        answer.unlink()


class Results:
    """The measurements, one JSON object per line: read at the start, appended with every measurement."""

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self.rows: list[dict[str, Any]] = [json.loads(line) for line in lines]

    def has(self, **key: object) -> bool:
        """Whether there is a row with these values."""
        return any(all(row.get(name) == value for name, value in key.items()) for row in self.rows)

    def add(self, **row: object) -> None:
        """Append a row, with the current load average."""
        row["load"] = round(os.getloadavg()[0], 1)
        self.rows.append(row)
        with self._path.open("a") as file:
            file.write(json.dumps(row) + "\n")


def figures(found: Result) -> list[float]:
    """Wall seconds, CPU seconds, peak MiB."""
    return [round(found.wall, 3), round(found.cpu, 3), round(found.peak)]


def ours(runs: list[Path], size: float, repeat: int, cache: Path, results: Results) -> None:
    """Measure each view of these runs: first, anew, again and from the file."""
    names = ["kernels", *(entry.name for entry in VIEWS if entry.name != "kernels")]
    left = [name for name in names if not results.has(view=name, runs=len(runs), mb=size)]
    if left:
        measure("open", asked("kernels", runs), size, 1)
    for view in left:
        forget(cache)
        key = {"view": view, "runs": len(runs), "mb": size}
        first = measure(view, asked(view, runs), size, 1)
        if first.error:
            results.add(**key, error=first.error)
            continue
        again = measure(view, asked(view, runs), size, repeat)
        anew = measured_anew(view, runs, size, repeat, cache)
        file = measure(view, asked(view, runs, "--no-cache"), size, 1)
        results.add(**key, first=figures(first), anew=anew, again=figures(again), file=figures(file))


def measured_anew(view: str, runs: list[Path], size: float, repeat: int, cache: Path) -> list[float]:
    """Median figures of the view without its cached answer."""
    found = []
    for _ in range(repeat):
        forget_answers(cache)
        found.append(figures(measure(view, asked(view, runs), size, 1)))
    return [round(statistics.median(each), 3) for each in zip(*found, strict=True)]


def beside(
    peer: str, python: Path, question: tuple[str, str, str], runs: list[Path], size: float, cache: Path,
    results: Results,
) -> None:
    """Measure a peer between two warplens runs, all from the file; then warplens from its cache, which no peer has."""
    what, view, program = question
    if results.has(peer=peer, question=what, mb=size):
        return
    mine = runs if view == "diff" else runs[:1]
    own = asked(view, mine, "--no-cache")
    before = measure(view, own, size, 1)
    theirs = measure(f"{peer}, {what}", [str(python), "-c", program, *map(str, mine)], size, 1)
    after = measure(view, own, size, 1)
    key = {"peer": peer, "question": what, "answered_by": view, "mb": size}
    if error := theirs.error or before.error or after.error:
        results.add(**key, error=error)
        return
    measure("open", asked(view, mine), size, 1)
    again = figures(measure(view, asked(view, mine), size, 3))
    both = [round(statistics.mean(pair), 3) for pair in zip(figures(before), figures(after), strict=True)]
    anew = measured_anew(view, mine, size, 3, cache)
    results.add(**key, theirs=figures(theirs), ours=both, anew=anew, again=again)


def shown(results: Results) -> str:
    """The two tables as markdown, and the load averages under which they were measured."""
    lines = ["| view | runs | MB | first s | CPU s | peak MiB | anew s | CPU s | peak MiB | × kernels, CPU | again s | "
             "CPU s | × kernels, CPU | file s | CPU s | peak MiB |", "|---" + "|--:" * 15 + "|"]
    views = sorted((row for row in results.rows if "view" in row), key=lambda row: (row["mb"], row["runs"]))
    base = {(row["mb"], row["runs"]): row for row in views if row["view"] == "kernels"}
    for row in views:
        head = f"| {row['view']} | {row['runs']} | {row['mb']:.0f} |"
        if "error" in row:
            lines.append(f"{head} {row['error']} |" + " |" * 12)
            continue
        again, kernels = row["again"], base[row["mb"], row["runs"]]
        ratios = [f"{row[name][1] / kernels[name][1]:.1f}" for name in ("anew", "again")]
        lines.append(f"{head} {_cells(row['first'])} | {_cells(row['anew'])} | {ratios[0]} | "
                     f"{again[0]:.2f} | {again[1]:.2f} | {ratios[1]} | {_cells(row['file'])} |")
    lines += ["", "| peer | question | MB | s | CPU s | peak MiB | our view | s | CPU s | peak MiB | × wall | × CPU | "
              "anew s | × wall | again s | × wall |", "|---|---|--:|--:|--:|--:|---" + "|--:" * 9 + "|"]
    for row in (row for row in results.rows if "peer" in row):
        head = f"| {row['peer']} | {row['question']} | {row['mb']:.0f} |"
        if "error" in row:
            lines.append(f"{head} {row['error']} |" + " |" * 12)
            continue
        theirs, own = row["theirs"], row["ours"]
        cached = " | ".join(f"{one[0]:.2f} | {theirs[0] / one[0]:.0f}" for one in (row["anew"], row["again"]))
        lines.append(f"{head} {_cells(theirs)} | {row['answered_by']} | {_cells(own)} | {theirs[0] / own[0]:.0f} | "
                     f"{theirs[1] / own[1]:.0f} | {cached} |")
    loads = [row["load"] for row in results.rows]
    under = f", load average {min(loads):.0f} to {max(loads):.0f}" if loads else ""
    return "\n".join([f"{os.cpu_count()} cores, Python {sys.version.split()[0]}, whole processes{under}", "", *lines])


def _cells(figures: list[float]) -> str:
    wall, cpu, peak = figures
    return f"{wall:.2f} | {cpu:.2f} | {peak:.0f}"


def pair(folder: Path, size: float) -> list[Path]:
    """Two traces of about that size; missing ones are made."""
    made = []
    for name, megabytes in ((f"kineto-{size:g}.json", size), (f"kineto-{size:g}-b.json", 1.01 * size)):
        path = folder / name
        if not path.exists():
            write(path.with_suffix(".part"), megabytes).rename(path)
        made.append(path)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="100,500", help="megabytes, by commas")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "warplens-benchmark")
    parser.add_argument("--results", type=Path, help="the lines to add to; views.jsonl in the folder")
    parser.add_argument("--peers-up-to", type=float, default=100, help="largest input the peers are given, MB")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--repeat", type=int, default=1, help="times that a view is asked again")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    cache = options.folder / "cache"
    os.environ["XDG_CACHE_HOME"] = str(cache)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # installed commands and peers have bytecode, too
    results = Results(options.results or options.folder / "views.jsonl")
    installed = {} if options.no_peers else ingest.install(options.folder, PEERS)
    for size in (float(size) for size in options.sizes.split(",")):
        runs = pair(options.folder, size)
        measure("warm-up", asked("kernels", runs, "--no-cache"), size, 2)
        ours(runs[:1], size, options.repeat, cache, results)
        ours(runs, size, options.repeat, cache, results)
        if size <= options.peers_up_to:
            for peer, python in installed.items():
                for question in PEERS[peer]:
                    beside(peer, python, question, runs, size, cache, results)
    print(shown(results))


if __name__ == "__main__":
    main()
