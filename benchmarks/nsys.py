"""Nsight Systems exports: kernels per second into the columnar tables, compared with other ways to read the same rows.

    python benchmarks/nsys.py [--kernels 2000000,8000000] [--runs 5]

Every contender reads all kernels of one generated export in its own process; imports are not counted. warplens ends
with the tables written to the cache format, names and devices resolved; the others only load the raw integer columns
into a frame. ``connectorx`` is included if installed. Medians of the runs.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import sqlite3
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

COLUMNS = (
    'start, "end", deviceId, streamId, correlationId, globalPid, demangledName, registersPerThread, gridX, gridY, '
    "gridZ, blockX, blockY, blockZ, staticSharedMemory, dynamicSharedMemory"
)
OURS = """
from pathlib import Path
import polars as pl
from warplens.loaders.ingest import store
from warplens.loaders.loader import Job
from warplens.loaders.nsys import LOADER, read
begin()
out = Path(sys.argv[2])
store.write(LOADER.load(Job(Path(sys.argv[1]), store.workspace(out))), out)
rows = store.read(out)[0].kernels.select(pl.len()).collect().item()
"""
ROWS = f"""
import sqlite3
import polars as pl
begin()
cursor = sqlite3.connect(sys.argv[1]).execute('select {COLUMNS} from CUPTI_ACTIVITY_KIND_KERNEL')
parts = []
while block := cursor.fetchmany(65536):
    parts.append(pl.DataFrame(block, schema=[f"c{{n}}" for n in range(16)], orient="row"))
rows = pl.concat(parts).height
"""
CONNECTORX = f"""
import connectorx
import polars as pl
begin()
table = connectorx.read_sql(
    "sqlite://" + sys.argv[1], 'select rowid as row, {COLUMNS} from CUPTI_ACTIVITY_KIND_KERNEL', return_type="arrow",
    partition_on="row", partition_num=2,
)
rows = pl.from_arrow(table).height
"""
FRAME = """
import json, resource, sys, time
def begin():
    global wall, cpu
    wall, cpu = time.perf_counter(), time.process_time()
%s
print(json.dumps({"rows": rows, "wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu,
                  "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
"""


def make(path: Path, kernels: int) -> None:
    """Make an export with that many kernels on two devices, with all columns of schema 3.20."""
    chance = random.Random(1)
    script = Path(__file__).parent.parent / "samples" / "make_nsys.py"
    spec = importlib.util.spec_from_file_location("make_nsys", script)
    assert spec is not None and spec.loader is not None
    sample = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sample)
    database = sqlite3.connect(path)
    database.executescript("pragma synchronous = off; pragma journal_mode = off;" + sample.TABLES)
    names = [(number, f"void kernel_{number}<float, {number}>(T1 *, int)") for number in range(400)]
    database.executemany("insert into StringIds values (?, ?)", names)
    now = 10**9

    def rows() -> object:
        nonlocal now
        for number in range(kernels):
            now += int(500 + chance.random() * 9000)
            length, name = int(1500 + chance.random() ** 4 * 90_000), int(chance.random() ** 2 * len(names))
            yield (
                now, now + length, number & 1, 1, 0, 7, number, 1 << 48 | 4242 << 24, name, name, None, 1, 0, 64,
                1 + int(chance.random() * 4000), 1, 1, 256, 1, 1, 0, 49_152, 0, 0, number, 102_400, None, 0,
            )

    marks = ", ".join("?" * 28)
    database.executemany(f"insert into CUPTI_ACTIVITY_KIND_KERNEL values ({marks})", rows())
    database.commit()
    database.close()


def measure(program: str, path: Path, scratch: Path, runs: int) -> dict[str, float]:
    """Medians over the runs of one program."""
    found: list[dict[str, float]] = []
    for number in range(runs):
        out = scratch / f"out-{number}"
        done = subprocess.run(
            [sys.executable, "-c", FRAME % program, str(path), str(out)], capture_output=True, text=True, check=True
        )
        found.append(json.loads(done.stdout))
    return {key: statistics.median(run[key] for run in found) for key in found[0]}


def compare(counts: list[int], runs: int) -> Iterator[str]:
    """The lines of a table per number of kernels."""
    contenders = {
        "warplens, tables written": OURS,
        "sqlite3 rows -> polars": ROWS,
    }
    if importlib.util.find_spec("connectorx"):
        contenders["connectorx, two partitions"] = CONNECTORX
    for kernels in counts:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "export.sqlite"
            make(path, kernels)
            yield f"{kernels:,} kernels, {path.stat().st_size / 1e6:.0f} MB, median of {runs}"
            yield f"{'':28}  M kernels/s     s  CPU s   MiB"
            for name, program in contenders.items():
                run = measure(program, path, Path(folder), runs)
                assert run["rows"] == kernels
                rate = kernels / run["wall"] / 1e6
                yield f"{name:28}  {rate:11.2f}  {run['wall']:4.2f}  {run['cpu']:5.2f}  {run['peak']:4.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernels", default="2000000", help="how many, by commas")
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    for line in compare([int(count) for count in arguments.kernels.split(",")], arguments.runs):
        print(line, flush=True)


if __name__ == "__main__":
    main()
