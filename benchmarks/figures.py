"""The page docs/figures.md, of one commit by one command: ``make figures`` prints it.

    python benchmarks/figures.py [--size 500] [--rows 1000000] > docs/figures.md

Commit, machine and date come first. Peers run on the same machine in the same run: ratios say more than seconds.
It makes its inputs in ``--folder``, installs nothing, and takes about ten minutes. Peers that have to be installed are
those of ``ingest.py`` and ``views.py``, whose longer tables of earlier commits are in ``benchmarks/results``.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from ingest import PEERS, REPORT, Result, inputs, measure, packed
from views import asked, forget_answers, pair

VIEWS = ("kernels", "overview", "cycles", "launches", "ops", "timeline", "idle", "calls", "roofline", "whatif")
PAIRS = ("kernels", "overview", "diff", "triage")
PEER = "orjson, polars"
REPEAT = 3


def opening(folder: Path, sizes: list[float]) -> list[str]:
    """Whole processes from the command to a table of kernels, each size beside orjson → polars."""
    traces = Path(os.environ["XDG_CACHE_HOME"]) / "warplens" / "traces"
    lines = ["| what | MB | wall s | MB/s | CPU s | peak MiB | CPU, × warplens |", "|---|--:|--:|--:|--:|--:|--:|"]
    for size, path in inputs(folder, sizes):
        own = measure("warplens", [*REPORT, str(path), "--no-cache"], size, REPEAT)
        rows = [
            own, measure("warplens, into its cache", [*REPORT, str(path)], size, REPEAT, traces),
            measure("warplens, from its cache", [*REPORT, str(path)], size, REPEAT),
            measure("warplens, .json.gz", [*REPORT, str(packed(path)), "--no-cache"], size, REPEAT),
            measure(PEER, [sys.executable, "-c", PEERS[PEER], str(path)], size, 1),
        ]
        lines += [
            f"| {row.what} | {size:.0f} | {row.wall:.2f} | {size / row.wall:.0f} | {row.cpu:.2f} | {row.peak:.0f} | "
            f"{row.cpu / own.cpu:.1f} |" for row in rows if not row.error
        ]
    return lines


def views(folder: Path, size: float) -> list[str]:
    """Each view from the cache with its answer not kept, and from the file, against the kernels view."""
    cache = Path(os.environ["XDG_CACHE_HOME"]) / "warplens" / "traces"
    runs = pair(folder, size)
    lines = ["| view | runs | CPU s | peak MiB | × kernels | from the file, CPU s | peak MiB |",
             "|---|--:|--:|--:|--:|--:|--:|"]
    for count, names in ((1, VIEWS), (2, PAIRS)):
        base = 0.0
        for name in names:
            measure(name, asked(name, runs[:count]), size, 1)
            cached = _least(name, asked(name, runs[:count]), size, cache)
            fresh = measure(name, asked(name, runs[:count], "--no-cache"), size, 1)
            base = base or cached.cpu
            lines.append(f"| {name} | {count} | {cached.cpu:.2f} | {cached.peak:.0f} | {cached.cpu / base:.1f} | "
                         f"{fresh.cpu:.2f} | {fresh.peak:.0f} |")
    return lines


def _least(name: str, command: list[str], size: float, cache: Path) -> Result:
    found = []
    for _ in range(REPEAT):
        forget_answers(cache)
        found.append(measure(name, command, size, 1))
    return min(found, key=lambda one: one.cpu)


def terminal(rows: int, trace: Path) -> list[str]:
    """The app in a pseudo-terminal beside a stock DataTable, as ``terminal.py`` prints it."""
    command = [sys.executable, str(Path(__file__).with_name("terminal.py")), "--rows", str(rows), "--stock", "20000",
               "--trace", str(trace)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    cells = [line.split("  ") for line in done.stdout.splitlines()[1:] if "  " in line]
    table = [[cell.strip() for cell in line if cell.strip()] for line in cells]
    return ["| what | warplens | goal | peer |", "|---|--:|--:|--:|",
            *("| " + " | ".join(_plain(cell) for cell in [*row, "", "", ""][:4]) + " |" for row in table)]


def _plain(cell: str) -> str:
    """A cell of ``terminal.py`` without the heading it repeats."""
    return cell.removeprefix("goal").removeprefix("stock").strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=float, default=500, help="of the large trace, MB")
    parser.add_argument("--rows", type=int, default=1_000_000, help="launches in the terminal")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "warplens-figures")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    cache = options.folder / "cache"
    shutil.rmtree(cache, ignore_errors=True)
    os.environ["XDG_CACHE_HOME"] = str(cache)
    commit = subprocess.run(["git", "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True).stdout.strip()
    measure("warm-up", [*REPORT, str(inputs(options.folder, [10])[0][1]), "--no-cache"], 10, 2)
    peer, large = PEER.replace(",", " →"), inputs(options.folder, [options.size])[0][1]
    parts = (
        ("Opening a trace", f"Whole processes, from the command to a table of kernels as JSON; medians of {REPEAT} "
         f"runs, the peer once. The peer is {peer}, which loads the same file and sums its kernels.",
         opening(options.folder, [min(100, options.size), options.size])),
        ("Every view", f"Whole processes on a trace of {options.size:.0f} MB, for 2 runs on two. From the cache, "
         f"without the cached answer: the lowest of {REPEAT} runs.", views(options.folder, options.size)),
        ("The terminal", f"{options.rows:,} launches from the cache, 120×40 cells, through a real pty. The peer is "
         "a stock Textual DataTable of 20,000 rows, for the first frame an empty Textual app.",
         terminal(options.rows, large)),
    )
    machine = f"{os.cpu_count()} shared cores ({platform.machine()}), Python {platform.python_version()}"
    print(
        "# Figures\n\nFor whoever asks how fast and how large: speed and memory, measured by `make figures` at "
        f"`{commit}`\non {datetime.date.today():%d %B %Y}. {machine}, load {os.getloadavg()[0]:.0f} at the end.\n"
        "Ratios to the peer say more than seconds. Peers that must be installed, and tables of earlier commits:\n"
        "[benchmarks/results](../benchmarks/results/figures-november-2026.md)."
    )
    for title, about, lines in parts:
        print(f"\n## {title}\n\n{about}\n\n" + "\n".join(lines))


if __name__ == "__main__":
    main()
