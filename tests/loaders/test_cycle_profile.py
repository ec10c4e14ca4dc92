"""Cycle profiles: the recorder's numbers as they are, its cycles, its counters, and which cycles it saw whole."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path

import polars as pl
import pytest

from warplens.loaders.cycle_profile import COUNTERS, LOADER, PERF, unit_of
from warplens.loaders.errors import Unreadable
from warplens.loaders.loader import Job
from warplens.loaders.trace import Trace

HEADER = (
    "cycle,pid,hostname,beta_pct,function_name,metric_name,device,func_type,mu_pct,sigma_pct,duration,"
    "interpolation_status,anchor_name,anchor_dur_us,cycle_start_ts,instances_count,simple_name"
).split(",")


def row(cycle: int, function: str, *, pid: int = 7, device: str = "GPU 3", metric: str = "m", n: int = 10) -> list[str]:
    mu = "" if metric == "N/A" else "118687.5000"
    start = f"{1_763_000_605_515_065 + 1_000_000 * cycle}.7500"
    tail = [f"{100 + cycle}.2500", start, str(n), "simple"]
    kind = "oncpu" if device == "Host" else "gpu_compute"
    return [
        str(cycle),
        str(pid),
        "",
        "12.3457",
        function,
        metric,
        device,
        kind,
        mu,
        "0.0001",
        "1.2340",
        "**",
        "run",
        *tail,
    ]


def load(folder: Path, rows: Iterable[list[str]], counters: str | None = None) -> Trace:
    with (folder / PERF).open("w", newline="") as file:
        csv.writer(file).writerows([HEADER, *rows])
    if counters is not None:
        (folder / COUNTERS).write_text("counter_name,timestamp,value,hostname\n" + counters)
    return LOADER.load(Job(folder, folder))[0]


def test_numbers_come_through_as_recorded(tmp_path: Path) -> None:
    trace = load(tmp_path, [row(1, "void f<a, b>(int, long)"), row(1, "g", metric="N/A")])
    first, second = trace.profile.collect().rows(named=True)
    assert first == {
        "cycle": 1, "cycle_ns": 101_250, "cycle_start_ns": 0, "anchor": "run", "pid": 7, "host": None,
        "function": "void f<a, b>(int, long)", "kind": "kernel", "metric": "m", "device": "GPU 3",
        "beta": 12.3457, "mu": 118687.5, "sigma": 0.0001, "dur_ns": 1234, "instances": 10, "interpolated": True,
        "rank": None,
    }  # fmt: skip
    assert (second["metric"], second["mu"], second["interpolated"]) == (None, None, None)
    assert trace.info.epoch_ns == 1_763_000_606_515_065_750
    assert trace.cycles.select("cycle", "start_ns", "dur_ns", "label", "source").collect().rows() == [
        (1, 0, 101_250, "run", "recorded")
    ]


@pytest.mark.parametrize(
    ("function", "recorded", "kind"),
    [
        ("gemm", "gpu_compute", "kernel"),
        ("void cross_device_reduce_1stage<int>(int*)", "gpu_compute", "collective"),
        ("anything", "gpu_comm", "collective"),
        ("Memcpy HtoD (Pinned -> Device)", "gpu_memcpy_h2d", "memcpy"),
        ("Memset (Device)", "gpu_memcpy_h2d", "memset"),
        ("write", "disk_read_and_write", "disk"),
        ("runq", "runq", "runq"),
    ],
)
def test_kinds_are_in_the_words_of_the_kernel_table(tmp_path: Path, function: str, recorded: str, kind: str) -> None:
    cells = row(1, function)
    cells[HEADER.index("func_type")] = recorded
    assert load(tmp_path, [cells]).profile.collect()["kind"].to_list() == [kind]


def test_a_cycle_without_its_usual_device_rows_is_incomplete(tmp_path: Path) -> None:
    rows = [row(c, "spin", device="Host") for c in range(6)]
    rows += [row(c, f"k{i}") for c in range(1, 6) for i in range(10 if c != 2 else 6)]
    trace = load(tmp_path, rows)
    assert trace.cycles.select("complete").collect().to_series().to_list() == [False, True, False, True, True, True]


def test_a_cycle_with_fewer_launches_of_every_function_is_incomplete(tmp_path: Path) -> None:
    rows = [row(c, f"k{i}", n=10 if c else 7) for c in range(4) for i in range(5)]
    assert load(tmp_path, rows).cycles.filter(~pl.col("complete")).collect()["cycle"].to_list() == [0]


def test_another_kind_of_cycle_is_not_incomplete(tmp_path: Path) -> None:
    rows = [row(c, f"decode{i}") for c in range(1, 7) for i in range(10)] + [row(0, f"prefill{i}") for i in range(4)]
    assert load(tmp_path, rows).cycles.collect()["complete"].all()


def test_a_run_without_any_device_has_complete_cycles(tmp_path: Path) -> None:
    assert load(tmp_path, [row(c, "spin", device="Host") for c in range(3)]).cycles.collect()["complete"].all()


def test_processes_of_one_cycle_share_its_row(tmp_path: Path) -> None:
    trace = load(tmp_path, [row(c, "k", pid=p, device=f"GPU {p}") for c in range(3) for p in (6, 10)])
    assert trace.cycles.collect().height == 3
    assert [device.id for device in trace.info.devices] == ["GPU 6", "GPU 10"]
    assert trace.info.facts["pids"] == [6, 10]


def test_counters_name_their_process_and_unit(tmp_path: Path) -> None:
    counters = (
        "process_cpu_usage_4.013652e+06,1763000605000000.250000,178.030000,\n"
        "host_mem_free,1763000605000001.000000,2.000000,\n"
        "gpu_sm_frequency,1763000605000002.000000,1410.000000,\n"
        "gpu_usage_5,1763000605000003.000000,4.000000,\n"
        "gpu_usage,broken,4.000000,\n"
    )
    trace = load(tmp_path, [row(0, "k")], counters)
    assert trace.metrics.select("ts_ns", "metric", "device", "value", "unit", "pid").collect().rows() == [
        (0, "process_cpu_usage", "Host", 178.03, "%", 4013652),
        (750, "host_mem_free", "Host", 2048.0, "B", None),
        (1750, "gpu_sm_frequency", None, 1410.0, "MHz", None),
        (2750, "gpu_usage", "GPU 5", 4.0, "%", None),
    ]
    assert trace.info.warnings == (
        f"1 value of {COUNTERS} (timestamp) could not be read: no number",
        f"1 of 5 rows of {COUNTERS} could not be read and were left out.")


@pytest.mark.parametrize(
    ("counter", "unit"), [("gpu_mem_used", "B"), ("gpu_mem_usage", "%"), ("net_rx_rate", "B/s"), ("queue_depth", "")]
)
def test_units_follow_the_counters_name(counter: str, unit: str) -> None:
    assert unit_of(counter)[0] == unit


def test_counters_alone_open_as_metrics(tmp_path: Path) -> None:
    path = tmp_path / COUNTERS
    path.write_text("counter_name,timestamp,value,hostname\ngpu_usage,1.5,4.0,\n")
    trace = LOADER.load(Job(path, tmp_path))[0]
    assert trace.metrics.collect().height == 1 and not trace.has("profile") and not trace.has("cycles")


def test_a_perf_file_of_any_name_opens_alone(tmp_path: Path) -> None:
    load(tmp_path, [row(1, "k")], "gpu_usage,1.5,4.0,\n")
    renamed = (tmp_path / PERF).rename(tmp_path / "run1.csv")
    (trace,) = LOADER.load(Job(renamed, tmp_path))
    assert trace.info.label == "run1" and trace.has("profile") and not trace.has("metrics")


def test_broken_counters_do_not_cost_the_profile(tmp_path: Path) -> None:
    load(tmp_path, [row(1, "k")])
    (tmp_path / COUNTERS).write_text("nonsense\n")
    (trace,) = LOADER.load(Job(tmp_path / PERF, tmp_path))
    assert trace.has("profile") and "could not be used" in trace.info.warnings[0]


def test_a_time_no_clock_shows_moves_no_cycle(tmp_path: Path) -> None:
    trace = load(tmp_path, [row(1, "k"), row(2, "k")], "gpu_usage,8516362886007544706.0,4.0,\n")
    assert trace.cycles.select(pl.col("start_ns").min()).collect().item() == 0


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    (tmp_path / PERF).write_text("cycle,pid,function_name\n1,2,f\n")
    with pytest.raises(Unreadable, match="lacks the column beta_pct"):
        LOADER.load(Job(tmp_path / PERF, tmp_path))


def test_every_number_of_the_recordings_is_there(data: Path, tmp_path: Path) -> None:
    for path in sorted(data.glob("latencyprism/*/*/" + PERF)):
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        trace = LOADER.load(Job(path.parent, tmp_path))[0]
        profile = trace.profile.collect()
        assert profile["beta"].to_list() == [float(row["beta_pct"]) for row in rows]
        assert profile["mu"].to_list() == [float(row["mu_pct"]) if row["mu_pct"] else None for row in rows]
        assert profile["function"].to_list() == [row["function_name"] for row in rows]
        assert profile["dur_ns"].to_list() == [round(float(row["duration"]) * 1000) for row in rows]
        assert trace.info.label == path.parent.name and trace.info.warnings == ()
        assert trace.metrics.collect().height == path.with_name(COUNTERS).read_text().count("\n") - 1
