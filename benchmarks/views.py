"""Every view of one and of two runs: seconds and peak memory of whole processes, beside the peers' same questions.

    python benchmarks/views.py --sizes 100,500,2000

Makes the traces (see ``traces.py``) and a virtual environment for each peer in ``--folder``, which the first time takes
minutes and needs PyPI; afterwards 100 MB take about five minutes, most of them the peers'. Nothing else may run
meanwhile. ``first`` is the first time that a view is asked of a trace that was opened before and of which nothing else
is known yet, ``again`` the median of the times after it, ``file`` is without any cache: reading included, which is what
peers do as well. Each peer runs between two of our runs of the same question from the file, and its ratio is to these.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

import ingest
from ingest import measure
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
"""Per peer: the question, our view that answers it, and the program that asks."""


def asked(view: str, runs: list[Path], *more: str) -> list[str]:
    """The command of a view."""
    files = [str(run) for run in runs]
    told = ["--view", view, "--format", "json", "--top", "20"]
    return [sys.executable, "-m", "warplens", "report", *files, *told, *more]


def forget(cache: Path) -> None:
    """Leave of a cache only what reading the traces puts there."""
    for folder in cache.glob("warplens/traces/*/*/derived"):
        shutil.rmtree(folder)


def ours(runs: list[Path], size: float, repeat: int, cache: Path) -> list[str]:
    """Rows of the table: each view of these runs, first, again and from the file; and how it compares to kernels."""
    lines, base = [], None
    names = ["kernels", *(entry.name for entry in VIEWS if entry.name != "kernels")]
    for view in names:
        measure("open", asked("kernels", runs), size, 1)
        forget(cache)
        first = measure(view, asked(view, runs), size, 1)
        if first.error:
            lines.append(f"| {view} | {len(runs)} | {size:.0f} | {first.error} | | | | | |")
            continue
        again = measure(view, asked(view, runs), size, repeat)
        file = measure(view, asked(view, runs, "--no-cache"), size, 1)
        base = base or again
        lines.append(
            f"| {view} | {len(runs)} | {size:.0f} | {first.wall:.2f} | {first.peak:.0f} | {again.wall:.2f} | "
            f"{again.peak:.0f} | {again.wall / base.wall:.1f} | {file.wall:.2f} |"
        )
    return lines


def beside(peer: str, python: Path, question: tuple[str, str, str], runs: list[Path], size: float) -> str:
    """A row of the second table: a peer's answer between two of ours, all from the file."""
    what, view, program = question
    mine = runs if view == "diff" else runs[:1]
    own = asked(view, mine, "--no-cache")
    before = measure(view, own, size, 1)
    theirs = measure(f"{peer}, {what}", [str(python), "-c", program, *map(str, mine)], size, 1)
    after = measure(view, own, size, 1)
    if theirs.error or before.error or after.error:
        return f"| {peer} | {what} | {size:.0f} | {theirs.error or before.error or after.error} | | | | | |"
    wall, cpu, peak = (
        statistics.mean((getattr(before, part), getattr(after, part))) for part in ("wall", "cpu", "peak")
    )
    return (
        f"| {peer} | {what} | {size:.0f} | {theirs.wall:.1f} | {theirs.peak:.0f} | {view} | {wall:.2f} | {peak:.0f} | "
        f"{theirs.wall / wall:.0f}; {theirs.cpu / cpu:.0f} |"
    )


def pair(folder: Path, size: float) -> list[Path]:
    """Two traces of about that size, made where they are not there yet."""
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
    parser.add_argument("--peers-up-to", type=float, default=100, help="largest input the peers are given, MB")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    cache = options.folder / "cache"
    os.environ["XDG_CACHE_HOME"] = str(cache)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed command has its bytecode, as the peers have
    lines: list[str] = []
    peers: list[str] = []
    installed = {} if options.no_peers else {
        peer: python for peer, python in ingest.install(options.folder, PEERS).items()
    }
    for size in (float(size) for size in options.sizes.split(",")):
        runs = pair(options.folder, size)
        measure("warm-up", asked("kernels", runs, "--no-cache"), size, 2)
        lines += ours(runs[:1], size, options.repeat, cache) + ours(runs, size, options.repeat, cache)
        if size <= options.peers_up_to:
            peers += [
                beside(peer, python, question, runs, size)
                for peer, python in installed.items() for question in PEERS[peer]
            ]
    python = sys.version.split()[0]
    print(f"\n{os.cpu_count()} cores, Python {python}, whole processes, again: medians of {options.repeat}\n")
    print("| view | runs | MB | first s | peak MiB | again s | peak MiB | × kernels | file s |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    print("\n".join(lines))
    if peers:
        print("\n| peer | question | MB | s | peak MiB | our view | s | peak MiB | × wall; × CPU |")
        print("|---|---|--:|--:|--:|---|--:|--:|--:|")
        print("\n".join(peers))


if __name__ == "__main__":
    main()
