"""Time to reduce a job, locally and on a Dask cluster, and to open its dataset; prints a table.

    python benchmarks/fleet.py [--ranks 8,64,1024] [--large MEGABYTES] [--folder DIR] [--no-hta] [--niceness 0]

The jobs are made by ``samples/make_job.py``. Each has a row for local processes and one for a Dask cluster started for
it: a scheduler, two single-threaded workers, and the command as their client, each a process whose CPU time and peak
memory are printed. The two datasets are compared, then opened by ``report --view ranks`` in a new process with an empty
cache. ``--large`` adds a job of 8 ranks of that size, from which the cost per gigabyte is taken.

HolisticTraceAnalysis reads 8 such recordings and looks for stragglers, in its own virtual environment with the pandas
it was written for (2). It recognises collectives by their NCCL names before 2.18 and considers those that take a
hundredth of a step. So it gets a job with these names and two tensor-parallel groups, whose steps end with an
all-reduce of gradients; warplens reduces that job, too. Everything runs sequentially; each row has the load average
(1 minute) before it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path
from typing import NamedTuple

from distributed import Client
from measured import MEASURE

from warplens.loaders.ingest.job.pool import most_workers

HERE = Path(__file__).resolve().parent
JOB = HERE.parent / "samples" / "make_job.py"
WARPLENS = [sys.executable, "-m", "warplens"]
WORKERS = 2
_OPEN = """
import json, sys, time
from warplens.analysis.query.ask import ask
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
_HTA = """
import sys
from hta.trace_analysis import TraceAnalysis
files = {rank: path for rank, path in enumerate(sys.argv[1:])}
t = TraceAnalysis(trace_files=files)
t.get_comm_comp_overlap(visualize=False)
t.get_gpu_kernel_breakdown(visualize=False, num_kernels=1000)
print(t.get_potential_stragglers())
"""


class Cost(NamedTuple):
    """Wall and CPU seconds of a process and its children, and the peak memory of the largest of them, MiB."""

    wall: float
    cpu: float
    peak: float


def measure(command: list[str], **environment: str) -> Cost:
    """Cost of a command, run as its own process."""
    done = subprocess.run([sys.executable, "-c", MEASURE, *command], capture_output=True, text=True, check=True,
                          env={**os.environ, **environment})
    status, wall, cpu, peak, error = json.loads(done.stdout)
    if status:
        raise SystemExit(f"{command[:4]} ends with {status}: {error}")
    return Cost(wall, cpu, peak)


class Cluster:
    """A local Dask cluster, a scheduler and its workers; their costs are known once they have ended."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "scheduler.json"
        self._file.unlink(missing_ok=True)
        shared = ["--scheduler-file", str(self._file), "--no-dashboard"]
        self._started = time.perf_counter()
        self._processes = [self._start("scheduler", "--port", "0", *shared)]
        while not self._file.exists():
            time.sleep(0.05)
        worker = ["worker", *shared, "--nthreads", "1", "--no-nanny", "--local-directory", str(folder)]
        self._processes += [self._start(*worker) for _ in range(WORKERS)]
        self.address: str = json.loads(self._file.read_text())["address"]
        with Client(self.address) as client:
            client.wait_for_workers(WORKERS)

    def _start(self, *arguments: str) -> int:
        command = [sys.executable, "-m", "dask", *arguments]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).pid

    def end(self) -> tuple[Cost, Cost]:
        """End all processes; the cost of the scheduler, and of all workers together (memory: the largest)."""
        costs = []
        for process in reversed(self._processes):
            os.kill(process, signal.SIGTERM)
            _, _, used = os.wait4(process, 0)
            wall = time.perf_counter() - self._started
            costs.append(Cost(wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024))
        *workers, scheduler = costs
        return scheduler, Cost(workers[0].wall, sum(one.cpu for one in workers), max(one.peak for one in workers))


def made(folder: Path, ranks: int, megabytes: float | None = None, old: bool = False) -> Path:
    """The folder of a job's recordings, each of about ``megabytes`` if given."""
    target = folder / (f"job{ranks}" + (f"-{megabytes:g}" if megabytes is not None else "") + ("-old" if old else ""))
    if not target.exists():
        more = ["--late", str(ranks // 3), *(["--old-names", "--tensor-parallel", str(ranks // 2)] if old else [])]
        if megabytes is not None:  # about 0.77 kB per operator
            more += ["--steps", "8", "--layers", "32", "--operators", str(int(megabytes * 1e6 / 770 / 8 / 32))]
        half = target.with_name(f"{target.name}.part")
        shutil.rmtree(half, ignore_errors=True)
        subprocess.run([sys.executable, JOB, half, "--ranks", str(ranks), *more], check=True, stdout=subprocess.DEVNULL)
        half.rename(target)
    return target


def bytes_of(folder: Path) -> int:
    """Total bytes of all files below the folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def unfolded(folder: Path) -> int:
    """Uncompressed bytes of the recordings."""
    import gzip

    total = 0
    for file in folder.glob("*.gz"):
        with gzip.open(file) as source:
            while data := source.read(1 << 22):
                total += len(data)
    return total


def rows(dataset: Path) -> list[str]:
    """The rows of the ranks view as sorted text, for comparison."""
    done = subprocess.run([*WARPLENS, "report", dataset, "--view", "ranks", "--format", "json", "--no-cache"],
                          capture_output=True, text=True, check=True)
    return sorted(map(str, json.loads(done.stdout)["rows"]))


def reduced(folder: Path, job: Path) -> list[list[str]]:
    """Two rows of the table: the job reduced locally, and on a cluster."""
    size, ranks = unfolded(job), len(list(job.glob("*.gz")))
    local, far = folder / f"{job.name}-here", folder / f"{job.name}-dask"
    for old in (local, far):
        shutil.rmtree(old, ignore_errors=True)
    busy = [os.getloadavg()[0]]
    here = measure([*WARPLENS, "reduce", str(job), "-o", str(local)])
    busy.append(os.getloadavg()[0])
    cluster = Cluster(folder)
    try:
        there = measure([*WARPLENS, "reduce", str(job), "-o", str(far), "--scheduler", cluster.address])
    finally:
        scheduler, workers = cluster.end()
    if rows(local) != rows(far):
        raise SystemExit("the datasets differ")
    what = [f"{ranks:,}", f"{size / 1e6:,.1f} MB"]
    return [
        [*what, "here", f"{busy[0]:.1f}", f"{here.wall:.1f} s", f"{here.cpu:.1f} s", f"{here.peak:,.0f} MiB", "", "",
         f"{bytes_of(local) / 1e6:.1f} MB"],
        [*what, "Dask", f"{busy[1]:.1f}", f"{there.wall:.1f} s", f"{workers.cpu + scheduler.cpu + there.cpu:.1f} s",
         f"{workers.peak:,.0f} MiB", f"{scheduler.peak:,.0f} MiB", f"{there.peak:,.0f} MiB",
         f"{bytes_of(far) / 1e6:.1f} MB"],
    ]


def opened(folder: Path, job: Path, small: Path) -> str:
    """Time to open the job's dataset and answer, in a process with all modules imported and in a new process."""
    local = folder / f"{job.name}-here"
    done = subprocess.run([sys.executable, "-c", _OPEN, str(small), str(local)], capture_output=True,
                          text=True, check=True)
    took, shown, _, overview = json.loads(done.stdout)
    process = measure([*WARPLENS, "report", str(local), "--view", "ranks"], XDG_CACHE_HOME=str(folder / "no-cache"))
    shutil.rmtree(folder / "no-cache", ignore_errors=True)
    return (
        f"{local.name}: opens in {took:.2f} s, its ranks are there after {shown:.2f} s, its overview after "
        f"{overview:.2f} s; report --view ranks takes {process.wall:.2f} s, {process.cpu:.2f} s of CPU and "
        f"{process.peak:,.0f} MiB; load {os.getloadavg()[0]:.1f}"
    )


def peer(folder: Path, job: Path) -> str:
    """HolisticTraceAnalysis on the same recordings: time, memory, and whether it answers."""
    home = folder / "peer-hta"
    python = home / "bin" / "python"
    if not python.exists():
        venv.create(home, with_pip=True)
        needs = ["HolisticTraceAnalysis", "pandas<3", "setuptools<81"]
        subprocess.run([python, "-m", "pip", "install", "-q", *needs], check=True)
    busy = os.getloadavg()[0]
    with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
        script.write(_HTA)
        script.flush()
        files = sorted(str(file.resolve()) for file in job.glob("*.gz"))
        done = subprocess.run([sys.executable, "-c", MEASURE, python, script.name, *files],
                              capture_output=True, text=True, check=True)
    status, wall, cpu, peak, error = json.loads(done.stdout)
    said = f"fails: {(error.strip().splitlines() or ['?'])[-1][:120]}" if status else "answers"
    return (
        f"HolisticTraceAnalysis on {job.name}: {wall:.1f} s, {cpu:.1f} s CPU, {peak:,.0f} MiB, load {busy:.1f}; it "
        f"{said}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure reducing jobs and opening what comes of it.")
    parser.add_argument("--ranks", default="8,64,1024")
    parser.add_argument("--large", type=float, metavar="MEGABYTES", help="one more job of 8 ranks this big each")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "warplens-fleet")
    parser.add_argument("--no-hta", action="store_true")
    parser.add_argument("--niceness", type=int, default=0, help="give way to others: 10 on a machine that is shared")
    chosen = parser.parse_args()
    os.nice(chosen.niceness)
    chosen.folder.mkdir(parents=True, exist_ok=True)
    os.environ["XDG_CACHE_HOME"] = str(chosen.folder / "cache")
    jobs = [made(chosen.folder, int(number)) for number in chosen.ranks.split(",") if number]
    if chosen.large:
        jobs.append(made(chosen.folder, 8, chosen.large))
    old = [] if chosen.no_hta else [
        made(chosen.folder, 8, size, old=True) for size in (None, *([chosen.large] if chosen.large else []))
    ]
    print(f"{most_workers(sys.maxsize)} processes here, {WORKERS} Dask workers\n")
    print("| ranks | recordings | where | load | wall | CPU | largest worker | scheduler | client | dataset |")
    print("|---|---|---|---|---|---|---|---|---|---|", flush=True)
    for job in [*jobs, *old]:
        for cells in reduced(chosen.folder, job):
            print("| " + " | ".join(cells) + " |", flush=True)
    print()
    for job in jobs:
        print(opened(chosen.folder, job, chosen.folder / f"{jobs[0].name}-here"), flush=True)
    for job in old:
        print(peer(chosen.folder, job), flush=True)


if __name__ == "__main__":
    main()
