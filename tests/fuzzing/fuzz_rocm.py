"""Samples of AMD's formats with bytes, numbers and cells changed, through the loader of each: an answer or a sentence.

Whatever is done to a file, its loader gives tables that keep to the schema and are in order, or raises Unreadable.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path

from fuzz_databases import confused
from fuzz_files import Handed, Target

from warplens.loaders import registry, schema
from warplens.loaders.errors import Unreadable
from warplens.loaders.ingest import stream
from warplens.loaders.loader import FormatLoader, Job
from warplens.loaders.trace import TABLE_NAMES, Trace

SAMPLES = Path(__file__).resolve().parents[2] / "samples"
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


def held(trace: Trace) -> None:
    """AssertionError where what a loader gave is no trace."""
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


class Amd(Handed):
    """Hands a file to its loader; counts, as 'format opened' and 'format refused'."""

    name, title, suffixes, version = "amd", "AMD's formats", (), 1
    loader: FormatLoader

    def __init__(self, chance: random.Random) -> None:
        self.told, self._chance = Counter[str](), chance

    def load(self, job: Job) -> tuple[Trace, ...]:
        """What the loader makes of it; one time in eight its tables are looked at."""
        try:
            traces = self.loader.load(job)
        except Unreadable:
            self.told[f"{self.loader.name} refused"] += 1
            raise
        for trace in traces:
            assert "hunter2" not in repr(trace.info)
            if self._chance.random() < 0.125:
                held(trace)
        self.told[f"{self.loader.name} opened"] += 1
        return traces


def target() -> Target:
    """Each file of AMD's tools with the others beside it, and mostly alone: what lies beside costs most."""
    folders = sorted({str(Path(name).parent) for name in FILES})
    everything = {f"{folder}/{file.name}": file.read_bytes() for folder in folders
                  for file in sorted((SAMPLES / folder).glob("*")) if folder != "." and file.is_file()}
    everything |= {name: (SAMPLES / name).read_bytes() for name in FILES}
    loaders = {}
    for name in FILES:
        opened = (SAMPLES / name).with_name(OPENED.get(Path(name).name, Path(name).name))
        (loaders[name],) = registry.claims(stream.head(opened))
    amd, before = Amd(random.Random(0)), list[Path]()

    def place(folder: Path, chance: random.Random) -> Path:
        for name, data in everything.items():
            path = folder / name
            if not path.exists() or path in before:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
        while before:
            alone = before.pop()
            if alone.relative_to(folder).as_posix() not in everything:
                alone.unlink(missing_ok=True)
        (name,) = chance.choices(FILES, WEIGHTS)
        path, data, amd.loader = folder / name, everything[name], loaders[name]
        if path.stem.startswith("run_") and path.name not in OPENED and chance.random() < 0.9:
            path = path.with_name(path.name.removeprefix("run_"))
        database = data.startswith(stream.SQLITE) and chance.random() < 0.5
        path.write_bytes(confused(data, chance, "rocpd%") if database else changed(data, chance))
        before.append(path)
        return path.with_name(OPENED.get(path.name, path.name))

    return Target(amd, place)
