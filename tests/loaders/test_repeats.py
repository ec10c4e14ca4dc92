"""An event that a file holds twice is one event, in every format."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from warplens.loaders.ingest.opening import open_run


def _table(samples: Path, source: str, path: Path, again: slice) -> None:
    lines = (samples / source).read_text().splitlines()
    path.write_text("\n".join([*lines, *lines[again]]) + "\n")


def _database(samples: Path, path: Path) -> None:
    shutil.copy(samples / "nsys.sqlite", path)
    path.chmod(0o644)
    with sqlite3.connect(path) as database:
        database.execute("insert into CUPTI_ACTIVITY_KIND_KERNEL select * from CUPTI_ACTIVITY_KIND_KERNEL limit 2")
    database.close()


def _records(samples: Path, path: Path) -> None:
    document = json.loads((samples / "rocprofv3_results.json").read_text())
    records = document["rocprofiler-sdk-tool"][0]["buffer_records"]["kernel_dispatch"]
    records += records[:2]
    path.write_text(json.dumps(document))


WRITTEN: dict[str, Callable[[Path, Path], None]] = {
    "a_kernel_trace.csv": lambda samples, path: _table(
        samples, "rocprofv3/run_kernel_trace.csv", path, slice(1, 3)),
    "a_cuda_gpu_trace.csv": lambda samples, path: _table(
        samples, "nsys_gpu_trace.csv", path, slice(-2, None)),
    "results.csv": lambda samples, path: _table(
        samples, "rocprof_results.csv", path, slice(1, 3)),
    "kernel_details.csv": lambda samples, path: _table(
        samples, "ascend/rank1_ascend_pt/ASCEND_PROFILER_OUTPUT/kernel_details.csv", path, slice(1, 3)),
    "a.sqlite": _database, "a_results.json": _records,
}


@pytest.mark.parametrize("name", WRITTEN)
def test_an_event_that_is_written_twice_counts_once(name: str, samples: Path, tmp_path: Path) -> None:
    WRITTEN[name](samples, tmp_path / name)
    (trace,) = open_run(str(tmp_path / name), use_cache=False)
    assert trace.info.facts["repeats"] == 2
    assert "2 events are recorded twice; counted once" in trace.info.warnings
    kernels = trace.kernels.collect()
    assert kernels["index"].to_list() == list(range(kernels.height))
