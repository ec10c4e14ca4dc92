"""How long a job takes to reduce, here and on a Dask cluster, and how long its dataset takes to open; prints a table.

    python benchmarks/fleet.py [--ranks 8,64,1024] [--large MEGABYTES] [--folder DIR] [--no-hta]

The jobs are made by ``samples/make_job.py``. Each is reduced by processes of this machine, then by two workers of a
Dask cluster that is started for it; the datasets are compared, and opened by ``report --view ranks`` in a new process
with a cache that does not know them. ``--large`` makes the ranks of one more job of 8 that big, which is what the cost
per gigabyte is taken from. HolisticTraceAnalysis reads the same 8 recordings and looks for its stragglers, in a virtual
environment of its own. Memory is that of the largest process; everything runs one after the other.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from warplens.loaders.ingest.job.pool import most_workers

HERE = Path(__file__).resolve().parent
JOB = HERE.parent / "samples" / "make_job.py"
WARPLENS = [sys.executable, "-m", "warplens"]
WORKERS = 2
_MEASURE = """
import json, resource, subprocess, sys, time
began = time.perf_counter()
done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([done.returncode, time.perf_counter() - began, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024,
                  done.stderr[-300:]]))
"""
_OPEN = """
import json, sys, time
from warplens.analysis.table.table import ask
from warplens.analysis.views import view
from warplens.loaders.ingest.opening import open_run
one, overview = view("ranks"), view("overview")
ask(one, open_run(sys.argv[1])).window(0, 50)  # what is imported at the first question is not counted
took = []
for question in (one, overview):
    began = time.perf_counter()
    runs = open_run(sys.argv[2], use_cache=False)
    opened = time.perf_counter() - began
    table = ask(question, runs)
    table.window(0, 50)
    took += [opened, time.perf_counter() - began]
print(json.dumps(took))
"""
_CLUSTER = """
import sys
from distributed import LocalCluster
if __name__ == "__main__":
    with LocalCluster(n_workers=int(sys.argv[1]), threads_per_worker=1, dashboard_address=None) as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
"""
_HTA = """
import sys
from hta.trace_analysis import TraceAnalysis
files = {rank: path for rank, path in enumerate(sys.argv[1:])}
t = TraceAnalysis(trace_files=files)
t.get_comm_comp_overlap(visualize=False)
t.get_gpu_kernel_breakdown(visualize=False, num_kernels=1000)
print(t.get_potential_stragglers())
"""


def measure(command: list[str], **environment: str) -> tuple[float, float, float]:
    """Wall and CPU seconds of a command as a process of its own, and the memory of its largest process, MiB."""
    done = subprocess.run([sys.executable, "-c", _MEASURE, *command], capture_output=True, text=True, check=True,
                          env={**os.environ, **environment})
    status, wall, cpu, peak, error = json.loads(done.stdout)
    if status:
        raise SystemExit(f"{command[:4]} ends with {status}: {error}")
    return wall, cpu, peak


@contextmanager
def cluster() -> Iterator[str]:
    """A Dask cluster of this machine while the block lasts; its address."""
    with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
        script.write(_CLUSTER)
        script.flush()
        process = subprocess.Popen([sys.executable, script.name, str(WORKERS)], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert process.stdout is not None and process.stdin is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()
            process.wait(60)


def made(folder: Path, ranks: int, megabytes: float | None = None) -> Path:
    """The recordings of a job; where a size is asked for, each is about that big."""
    target = folder / (f"job{ranks}" if megabytes is None else f"job{ranks}-{megabytes:g}")
    if not target.exists():
        more = ["--late", str(ranks // 3)]
        if megabytes is not None:  # about 0.77 kB an operator
            more += ["--steps", "8", "--layers", "32", "--operators", str(int(megabytes * 1e6 / 770 / 8 / 32))]
        half = target.with_name(f"{target.name}.part")
        shutil.rmtree(half, ignore_errors=True)
        subprocess.run([sys.executable, JOB, half, "--ranks", str(ranks), *more], check=True, stdout=subprocess.DEVNULL)
        half.rename(target)
    return target


def bytes_of(folder: Path) -> int:
    """Bytes of all files below."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def unfolded(folder: Path) -> int:
    """Bytes of the recordings when they are not compressed."""
    import gzip

    total = 0
    for file in folder.glob("*.gz"):
        with gzip.open(file) as source:
            while data := source.read(1 << 22):
                total += len(data)
    return total


def rows(dataset: Path) -> list[str]:
    """The rows of the ranks view, as text to compare."""
    done = subprocess.run([*WARPLENS, "report", dataset, "--view", "ranks", "--format", "json", "--no-cache"],
                          capture_output=True, text=True, check=True)
    return sorted(map(str, json.loads(done.stdout)["rows"]))


def reduced(folder: Path, job: Path, small: Path | None) -> list[str]:
    """One line of the table: the job reduced here and on a cluster, and opened."""
    size, ranks = unfolded(job), len(list(job.glob("*.gz")))
    local, far = folder / f"{job.name}-here", folder / f"{job.name}-dask"
    for old in (local, far):
        shutil.rmtree(old, ignore_errors=True)
    here = measure([*WARPLENS, "reduce", str(job), "-o", str(local)])
    with cluster() as address:
        began = time.perf_counter()
        there = measure([*WARPLENS, "reduce", str(job), "-o", str(far), "--scheduler", address])
        assert time.perf_counter() > began
    if rows(local) != rows(far):
        raise SystemExit("the datasets differ")
    done = subprocess.run([sys.executable, "-c", _OPEN, str(small or local), str(local)], capture_output=True,
                          text=True, check=True)
    opened, shown, _, overview = json.loads(done.stdout)
    process = measure([*WARPLENS, "report", str(local), "--view", "ranks"], XDG_CACHE_HOME=str(folder / "no-cache"))
    shutil.rmtree(folder / "no-cache", ignore_errors=True)
    return [
        f"{ranks:,}", f"{size / 1e6:,.0f} MB", f"{here[0]:.1f} s", f"{here[1]:.1f} s", f"{here[2]:,.0f} MiB",
        f"{there[0]:.1f} s", f"{bytes_of(local) / 1e6:.1f} MB", f"{opened:.2f} s", f"{shown:.2f} s",
        f"{overview:.2f} s", f"{process[0]:.2f} s, {process[2]:,.0f} MiB",
    ]


def peer(folder: Path, job: Path) -> str:
    """HolisticTraceAnalysis over the same recordings: time, memory, and what it says of stragglers."""
    home = folder / "peer-hta"
    python = home / "bin" / "python"
    if not python.exists():
        venv.create(home, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "HolisticTraceAnalysis", "setuptools<81"], check=True)
    done = subprocess.run([sys.executable, "-c", _MEASURE, python, "-c", _HTA, *sorted(map(str, job.glob("*.gz")))],
                          capture_output=True, text=True, check=True)
    status, wall, cpu, peak, error = json.loads(done.stdout)
    said = f"fails: {(error.strip().splitlines() or ['?'])[-1][:120]}" if status else "answers"
    return f"HolisticTraceAnalysis on {job.name}: {wall:.1f} s, {cpu:.1f} s CPU, {peak:,.0f} MiB; it {said}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure reducing jobs and opening what comes of it.")
    parser.add_argument("--ranks", default="8,64,1024")
    parser.add_argument("--large", type=float, metavar="MEGABYTES", help="one more job of 8 ranks this big each")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "warplens-fleet")
    parser.add_argument("--no-hta", action="store_true")
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    os.environ["XDG_CACHE_HOME"] = str(chosen.folder / "cache")
    jobs = [made(chosen.folder, int(number)) for number in chosen.ranks.split(",") if number]
    large = made(chosen.folder, 8, chosen.large) if chosen.large else None
    print(f"{most_workers(sys.maxsize)} processes here, {WORKERS} Dask workers\n")
    print("| ranks | recordings | here | CPU | memory | Dask | dataset | opens | ranks shown | overview | report |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    small = None
    for job in [*jobs, *([large] if large else [])]:
        print("| " + " | ".join(reduced(chosen.folder, job, small)) + " |", flush=True)
        small = small or chosen.folder / f"{job.name}-here"
    if not chosen.no_hta:
        for job in filter(None, (next((one for one in jobs if one.name == "job8"), None), large)):
            print(peer(chosen.folder, job), flush=True)


if __name__ == "__main__":
    main()
