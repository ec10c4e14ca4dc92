"""Samples of AMD's formats with bytes, numbers and cells changed, through the loader of each: an answer or a sentence.

    python tests/loaders/fuzz_rocm.py MUTATIONS [SEED]

Whatever is done to a file, its loader gives tables that keep to the schema and are in order, or raises Unreadable. A
loader that computes for longer than ``SECONDS`` on a file of some kilobytes, or does not come back in ``WAITED``,
counts as one that hangs, and the memory of the whole run is held to ``MEMORY``.
"""

from __future__ import annotations

import random
import re
import resource
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from warplens.loaders import registry, schema
from warplens.loaders.errors import Unreadable
from warplens.loaders.ingest import stream
from warplens.loaders.loader import Job, Loader
from warplens.loaders.trace import TABLE_NAMES

SAMPLES = Path(__file__).resolve().parents[2] / "samples"
SECONDS, WAITED, MEMORY = 15, 300, 1 << 30
FILES = (
    "rocprofv3/run_kernel_trace.csv", "rocprofv3/run_hip_api_trace.csv", "rocprofv3/run_memory_copy_trace.csv",
    "rocprofv3/run_memory_allocation_trace.csv", "rocprofv3/run_agent_info.csv",
    "rocprofv3_counters/counter_collection.csv", "rocprofv3_counters/kernel_stats.csv", "rocprofv3_results.json",
    "rocpd_results.db", "rocpd_plain.db", "rocm.rpd", "rocprof_results.csv", "rocprof_bare.csv",
    "rocprofiler_compute/pmc_perf.csv", "rocprofiler_compute/timestamps.csv", "rocprofiler_compute/sysinfo.csv",
)
WEIGHTS = (6, 6, 6, 6, 1, 6, 12, 12, 2, 2, 3, 16, 16, 2, 2, 2)
"""How often each is taken: those that are read in a moment more often."""
OPENED = {"run_agent_info.csv": "run_kernel_trace.csv", "sysinfo.csv": "pmc_perf.csv"}
"""Files that are only read with another: which one is opened."""
TOKENS = (
    b"", b"\0", b'"', b"\n", b",", b"{", b"}", b"[", b"]", b"null", b"NaN", b"-1", b"1e999", b"-0.0", b"9" * 25,
    b"18446744073709551615", b"9223372036854775807", b"-9223372036854775808", b"0x7f", b"\xff\xfe", b"\xed\xa0\x80",
    b"true", b"[]", b"{}", b'"x"', b"GPU", b"Agent 99999999999999999999", b"KERNEL_DISPATCH", b"\\ud800",
)
VALUES: tuple[object, ...] = (
    None, -1, 0, 2**63 - 1, -(2**63), 1e308, float("inf"), "", "not a number", "7", b"\xff\0", "x" * 5000, "{", 0.5,
)


def changed(data: bytes, chance: random.Random) -> bytes:
    """The file with one to five changes."""
    for _ in range(chance.choice((1, 1, 2, 5))):
        at = chance.randrange(len(data) + 1)
        how = chance.randrange(7)
        numbers = [found.span() for found in re.finditer(rb"\d+", data)] if how == 0 else []
        if numbers:
            start, end = chance.choice(numbers)
            data = data[:start] + chance.choice(TOKENS) + data[end:]
        elif how == 1:
            data = data[:at]
        elif how == 2:
            data = data[:at] + chance.choice(TOKENS) + data[at:]
        elif how == 3:
            data = data[:at] + data[at + chance.randrange(1, 200) :]
        elif how == 4 and data:
            at = chance.randrange(len(data))
            data = data[:at] + bytes((data[at] ^ 1 << chance.randrange(8),)) + data[at + 1 :]
        elif how == 5:
            piece = data[at : at + chance.randrange(1, 400)]
            where = chance.randrange(len(data) + 1)
            data = data[:where] + piece + data[where:]
        else:
            data = data[:at] + chance.randbytes(chance.randrange(1, 9)) + data[at + 4 :]
    return data


def confused(data: bytes, chance: random.Random) -> bytes:
    """A database with cells of a wrong type, rows gone, tables renamed."""
    database = sqlite3.connect(":memory:")
    try:
        database.deserialize(data)
        names = database.execute("select name from sqlite_master where type = 'table' and name like 'rocpd%'")
        tables = [row[0] for row in names]
        for _ in range(chance.choice((1, 2, 5))):
            table = chance.choice(tables)
            column = chance.choice([row[1] for row in database.execute(f'pragma table_info("{table}")')])
            how = chance.randrange(6)
            if how < 4:
                change = f'update or ignore "{table}" set "{column}" = ? where abs(random()) % 3 = 0'
                database.execute(change, (chance.choice(VALUES),))
            elif how == 4:
                database.execute(f'delete from "{table}" where abs(random()) % 2 = 0')
            elif table in tables:
                database.execute(f'create view if not exists "v{table}" as select * from "{table}"')
        database.commit()
        return database.serialize()
    except sqlite3.Error:
        return data
    finally:
        database.close()


def held(loader: Loader, path: Path, workspace: Path) -> bool:
    """Whether the file opens; AssertionError where what it gives is no trace. Lets no error through but Unreadable."""
    try:
        traces = loader.load(Job(path, workspace))
    except Unreadable as refused:
        assert refused.reason and "\n" not in str(refused)
        return False
    for trace in traces:
        assert "hunter2" not in repr(trace.info)
        for name in TABLE_NAMES:
            if trace.table(name) is schema.empty(name):
                continue
            table = trace.table(name).collect()
            assert table.schema == dict(schema.polars_schema(name)), name
            if name == "kernels":
                assert table["index"].to_list() == list(range(table.height))
                assert not table["name"].null_count()
            if name in ("kernels", "host"):
                assert not ((table["dur_ns"] < 0) | (table["start_ns"] < 0)).any()
    return True


def fuzz(seed: int, until: Callable[[int], bool]) -> Counter[str]:
    """Change files until ``until`` says so of the number of tries; how many of each format opened and were refused."""
    chance, tries, told = random.Random(seed), 0, Counter[str]()

    def hangs(number: int, frame: FrameType | None) -> None:
        raise TimeoutError("a loader hangs" if number == signal.SIGALRM else f"a loader computes for {SECONDS} s")

    for alarm in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(alarm, hangs)
    with tempfile.TemporaryDirectory() as folder:
        inputs, workspace = Path(folder) / "inputs", Path(folder) / "workspace"
        shutil.copytree(SAMPLES, inputs, ignore=shutil.ignore_patterns("*.py", "demo", "kernel_table*"))
        originals = {name: (inputs / name).read_bytes() for name in FILES}
        loaders = {}
        for name in FILES:
            opened = (inputs / name).with_name(OPENED.get(Path(name).name, Path(name).name))
            (loaders[name],) = registry.claims(stream.head(opened))
        while not until(tries):
            (name,) = chance.choices(FILES, WEIGHTS)
            path, data = inputs / name, originals[name]
            if path.stem.startswith("run_") and path.name not in OPENED and chance.random() < 0.9:
                path = path.with_name(path.name.removeprefix("run_"))  # alone: what lies beside costs most
            database = data.startswith(stream.SQLITE)
            data = confused(data, chance) if database and chance.random() < 0.5 else changed(data, chance)
            path.write_bytes(data)
            shutil.rmtree(workspace, ignore_errors=True)
            workspace.mkdir()
            signal.alarm(WAITED)
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            try:
                opened = held(loaders[name], path.with_name(OPENED.get(path.name, path.name)), workspace)
            except BaseException:
                kept = Path(tempfile.gettempdir()) / f"fuzz-rocm-{seed}-{tries}-{path.name}"
                kept.write_bytes(data)
                print(f"seed {seed}, try {tries}: {kept}", flush=True)
                raise
            finally:
                signal.alarm(0)
                signal.setitimer(signal.ITIMER_PROF, 0)
            told[f"{loaders[name].name} {'opened' if opened else 'refused'}"] += 1
            path.unlink()
            (inputs / name).write_bytes(originals[name])
            tries += 1
            if tries % 1000 == 0:
                print(f"{tries:,} mutations", flush=True)
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    assert used < MEMORY, f"{used >> 20} MiB were needed"
    return told


if __name__ == "__main__":
    began = int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time())
    print(f"seed {began}", flush=True)
    counts = fuzz(began, lambda tries: tries >= int(sys.argv[1]))
    print(f"{sum(counts.values()):,} mutations, no error: {dict(sorted(counts.items()))}")
    print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MiB at most")
