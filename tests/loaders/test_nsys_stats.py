"""CSV reports of nsys stats, today's and older ones."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from warplens.loaders import registry
from warplens.loaders.errors import Unreadable
from warplens.loaders.loader import Job
from warplens.loaders.nsys_stats import LOADER
from warplens.loaders.trace import Trace


def load(path: Path, tmp_path: Path, text: str | None = None) -> Trace:
    if text is not None:
        path.write_text(text)
    (trace,) = LOADER.load(Job(path, tmp_path))
    return trace


def rows(frame: pl.LazyFrame, *columns: str) -> list[tuple[object, ...]]:
    return frame.select(columns).collect().rows()


def test_a_trace_is_launches(samples: Path, tmp_path: Path) -> None:
    run = load(samples / "nsys_gpu_trace.csv", tmp_path)
    assert rows(run.kernels, "kind", "start_ns", "dur_ns", "device", "stream", "correlation")[:3] == [
        ("memcpy", 0, 661398, "GPU 0", 13, 123), ("memset", 663318, 2112, "GPU 0", 13, 124),
        ("kernel", 1413743, 207072, "GPU 0", 7, 128),
    ]
    assert rows(run.kernels.filter(pl.col("index") == 2), "grid", "block", "registers", "shared_bytes", "bytes") == [
        ("64,2,1", "128,1,1", 202, 82_000, None)
    ]
    assert rows(run.kernels.head(1), "bytes", "grid") == [(4_194_000, None)]
    assert [(device.id, device.name) for device in run.info.devices] == [
        ("GPU 0", "NVIDIA A100-SXM4-40GB"), ("GPU 1", "NVIDIA A100-SXM4-40GB"),
    ]
    assert run.info.warnings == ()


def test_summaries_are_aggregates_of_all_reports_in_the_file(samples: Path, tmp_path: Path) -> None:
    run = load(samples / "nsys_kern_sum.csv", tmp_path)
    assert rows(run.kernel_stats, "kind", "count", "total_ns", "mean_ns", "min_ns", "max_ns") == [
        ("kernel", 20, 4151850, 207592.5, 206912, 208640), ("collective", 10, 1580200, 158020.0, 157120, 159104),
        ("kernel", 10, 366000, 36600.0, 36000, 37216), ("memcpy", 1, 661398, 661398.0, 661398, 661398),
        ("memset", 1, 2112, 2112.0, 2112, 2112),
    ]


def test_headers_of_2020_and_other_units(tmp_path: Path) -> None:
    run = load(tmp_path / "old.csv", tmp_path, (
        "Start(nsec),Duration(nsec),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem,DymSMem,Device,Ctx,Strm,Name\n"
        '100,7,1,2,1,1,32,1,1,16,0,0,Tesla T4 (0),1,7,"k(int, int)"\nnot,a,row\n'
    ))
    assert rows(run.kernels, "name", "dur_ns", "grid", "device") == [("k(int, int)", 7, "2,1,1", "GPU 0")]
    assert run.info.warnings == ("left out of the trace: 1 of 2 rows, which are not activities",)
    run = load(tmp_path / "ms.csv", tmp_path, "Time(%),Total Time (ms),Instances,Average (us),Minimum (us),Name\n"
               "100.0,1.5,3,500.0,400.5,k\n")
    assert rows(run.kernel_stats, "total_ns", "mean_ns", "min_ns", "max_ns") == [(1_500_000, 500_000.0, 400_500, None)]


@pytest.mark.parametrize("text", [
    "Time (%),Total Time (ns),Num Calls,Avg (ns),Name\n1,2,3,4,cudaMalloc\n",
    "Time (%),Total Time (ns),Instances,Avg (ns),Style,Range\n1,2,3,4,PushPop,step\n",
    " Time (%)  Total Time (ns)  Instances  Name\n   50.0      2   3   k\n",
])
def test_reports_of_other_things_are_left_alone(text: str) -> None:
    assert registry.claims(text.encode()) == ()


def test_a_report_without_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="without a row"):
        load(tmp_path / "none.csv", tmp_path, "Time (%),Total Time (ns),Instances,Avg (ns),Name\n")
