"""Reports of nsys stats, today's and older ones, as CSV and as printed columns."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

from warplens.analysis.query.ask import ask
from warplens.analysis.views import view
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
    assert run.info.warnings == ("2 values of the report (Start(nsec), Duration(nsec)) could not be read: no number",
                                 "1 row of the trace without a time or a name was left out")
    run = load(tmp_path / "ms.csv", tmp_path, "Time(%),Total Time (ms),Instances,Average (us),Minimum (us),Name\n"
               "100.0,1.5,3,500.0,400.5,k\n")
    assert rows(run.kernel_stats, "total_ns", "mean_ns", "min_ns", "max_ns") == [(1_500_000, 500_000.0, 400_500, None)]


def test_printed_columns_are_read_and_a_report_that_comes_again_begins_the_next_recording(samples, tmp_path) -> None:
    first, second = LOADER.load(Job(samples / "nsys_stats.txt", tmp_path))
    assert (first.info.label, second.info.label) == ("nsys_stats 0", "nsys_stats 1")
    assert rows(first.host_stats, "name", "kind", "count", "total_ns", "p50_ns") == [
        ("poll", "sched", 10, 5_000_000, 500_000), ("fwrite", "io", 4, 20_000, 5_000),
        ("cudaDeviceSynchronize", "runtime", 3, 700_000, 233_333), ("cudaLaunchKernel", "runtime", 12, 60_000, 5_000),
        ("cudaMemcpy", "runtime", 2, 40_000, 20_000), ("train step", "annotation", 3, 900_000, 300_000),
    ]
    assert rows(first.kernel_stats, "name", "kind", "count", "total_ns", "p50_ns", "bytes") == [
        ("gemm(float *, float *, int)", "kernel", 12, 600_000, 50_000, None),
        ("[CUDA memcpy Host-to-Device]", "memcpy", 2, 30_000, 15_000, 400_000_000),
    ]
    assert rows(second.kernel_stats, "total_ns") == [(1_200_000,), (60_000,)]


def test_traces_of_calls_and_ranges_are_events(samples, tmp_path) -> None:
    run = load(samples / "nsys_api_trace.csv", tmp_path)
    assert rows(run.host, "name", "kind", "start_ns", "dur_ns", "pid", "tid", "correlation")[:3] == [
        ("train step", "annotation", 0, 300_000, 41, 41, None),
        ("cudaLaunchKernel_v7000", "runtime", 5_000, 6_000, 41, 41, 100),
        ("cudaDeviceSynchronize_v3020", "runtime", 20_000, 250_000, 41, 41, 200),
    ] and run.host.collect().height == 9


def test_a_summary_of_calls_and_activities_together_is_parted(tmp_path) -> None:
    run = load(tmp_path / "mixed.csv", tmp_path, (
        "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Category,Operation\n"
        "50.0,100,2,50.0,50.0,40,60,1.0,CUDA_API,cudaLaunchKernel\n"
        '40.0,90,1,90.0,90.0,90,90,0.0,CUDA_KERNEL,"k(int, int)"\n'
        "10.0,20,1,20.0,20.0,20,20,0.0,MEMORY_OPER,[CUDA memset]\n"
    ))
    assert rows(run.kernel_stats, "name", "kind", "total_ns") == [("k(int, int)", "kernel", 90), (
        "[CUDA memset]", "memset", 20)]
    assert rows(run.host_stats, "name", "kind", "count") == [("cudaLaunchKernel", "runtime", 2)]


def test_a_report_no_table_has_a_place_for_is_named_beside_those_that_are_read(tmp_path) -> None:
    run = load(tmp_path / "two.csv", tmp_path, (
        " ** CUDA API Summary (cuda_api_sum):\n\nTime (%),Total Time (ns),Num Calls,Avg (ns),Name\n1,2,3,4,cudaMalloc\n"
        "\n ** MPI Event Summary (mpi_event_sum):\n\nTime (%),Total Time (ns),Source,Avg (ns),Name\n1,2,x,4,MPI_Send\n"
    ))
    assert rows(run.host_stats, "name", "total_ns") == [("cudaMalloc", 2)]
    assert run.info.warnings == ("not shown: 1 reports that no table of warplens holds (mpi_event_sum)",)


def test_sums_answer_the_views_of_calls_ranges_and_copies(samples, tmp_path) -> None:
    run, _ = LOADER.load(Job(samples / "nsys_stats.txt", tmp_path))
    found = {name: ask(view(name), (run,)).frame for name in ("calls", "ranges", "copies", "kernels")}
    assert found["calls"].select("name", "total_ns", "sync_ns", "purpose").rows()[:2] == [
        ("poll", 5_000_000, 0, "system"), ("cudaDeviceSynchronize", 700_000, 700_000, "wait")]
    assert found["ranges"].select("name", "total_ns", "device_ns").rows() == [("train step", 900_000, None)]
    assert found["copies"].select("direction", "bytes", "rate").rows() == [
        ("H2D", 400_000_000, pytest.approx(400e6 / 30e-6))]
    assert found["kernels"]["p50_ns"].to_list() == [50_000, 15_000]


def test_every_printed_report_of_a_real_session_is_read_as_it_stands(data, tmp_path) -> None:
    """Line by line, without the columns: the number before a name under each title."""
    path = data / "traces/nsys_stats/README.md"
    runs = LOADER.load(Job(path, tmp_path))
    titles = {"nvtx_sum": "host_stats", "osrt_sum": "host_stats", "cuda_api_sum": "host_stats",
              "cuda_gpu_kern_sum": "kernel_stats", "cuda_gpu_mem_time_sum": "kernel_stats"}
    want: list[dict[str, int]] = []
    title = ""
    for line in path.read_text().splitlines():
        if found := re.search(r"Executing '(\w+)' stats report", line):
            title = found[1]
            if title == "nvtx_sum":
                want.append(dict.fromkeys(titles.values(), 0))
        elif title in titles and (row := re.match(r" +[\d.]+ +([\d,]+) +[\d,]+ +[\d,]+\.\d ", line)):
            want[-1][titles[title]] += int(row[1].replace(",", ""))
    got = [{name: run.table(name).collect()["total_ns"].sum() for name in want[0]} for run in runs]
    assert len(want) >= 4 and got == want


def test_reports_that_follow_each_other_without_an_empty_line_end_at_the_next_title(tmp_path) -> None:
    """As scripts write them together: a title is no row of the report before it."""
    text = ('** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):\n"Time (%)","Total Time (ns)","Instances","Name"\n'
            '"100.0","2000000","20","k"\n** CUDA API Summary (cuda_api_sum):\n'
            '"Time (%)","Total Time (ns)","Num Calls","Name"\n"100.0","9000000","20","cudaLaunchKernel"\n')
    run = load(tmp_path / "stats.csv", tmp_path, text)
    assert run.info.warnings == () and run.kernel_stats.collect().height == run.host_stats.collect().height == 1


def test_a_summary_of_calls_alone_has_no_row_of_kernels(tmp_path) -> None:
    text = '"Time (%)","Total Time (ns)","Num Calls","Name"\n"100.0","9000000","20","cudaLaunchKernel"\n'
    run = load(tmp_path / "stats.csv", tmp_path, text)
    assert (rows(run.kernel_stats, "name"), rows(run.host_stats, "name")) == ([], [("cudaLaunchKernel",)])


@pytest.mark.parametrize("text", [
    "Time (%),Total Time (ns),Source,Avg (ns),Name\n1,2,x,4,MPI_Send\n",
    " Time (%)  Total Time (ns)  Instances  Name\n   50.0      2   3   k\n",
])
def test_reports_of_other_things_are_left_alone(text: str) -> None:
    assert registry.claims(text.encode()) == ()


def test_a_report_without_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="without rows"):
        load(tmp_path / "none.csv", tmp_path, "Time (%),Total Time (ns),Instances,Avg (ns),Name\n")
