"""What the view of metrics says of counters, against plain readings of real recordings and of bare samples."""

from __future__ import annotations

import csv
import gzip
import math
import sqlite3
from collections import defaultdict
from itertools import accumulate
from pathlib import Path
from statistics import mean

import polars as pl
import pytest

from warplens.analysis.contract.options import Options
from warplens.analysis.contract.view import CannotAnswer
from warplens.analysis.core.metrics import display_unit
from warplens.analysis.metrics.series import PARTS, summarised
from warplens.analysis.query.ask import ask
from warplens.analysis.views import view
from warplens.loaders import schema
from warplens.loaders.ingest.opening import open_run
from warplens.loaders.trace import Info, Trace

Figures = tuple[int, float, float, float, float]


def run_of(*samples: tuple[int | None, str, str | None, float | None, str], label: str = "run") -> Trace:
    columns = ("ts_ns", "metric", "device", "value", "unit")
    types = {"ts_ns": pl.Int64, "metric": pl.String, "device": pl.String, "value": pl.Float64, "unit": pl.String}
    frame = pl.DataFrame(list(samples), schema={name: types[name] for name in columns}, orient="row")
    return Trace(Info(label, label, "test"), metrics=schema.conform("metrics", frame.lazy()))


def figures(run: Trace) -> dict[tuple[str, str | None], Figures]:
    rows = summarised(run, ()).select("metric", "device", "samples", "min", "mean", "p50", "max")
    return {(str(row[0]), row[1] and str(row[1])): row[2:] for row in rows.iter_rows()}


def plain(values: list[float]) -> Figures:
    ordered = sorted(values)
    return (len(values), ordered[0], mean(values), ordered[math.ceil(len(values) / 2) - 1], ordered[-1])


def test_every_counter_has_its_range_mean_and_nearest_rank_median() -> None:
    run = run_of(*((at, "clock", "GPU 0", value, "MHz") for at, value in enumerate((5.0, 1.0, 9.0, 3.0))))
    assert figures(run) == {("clock", "GPU 0"): (4, 1.0, 4.5, 3.0, 9.0)}
    (row,) = summarised(run).iter_rows(named=True)
    assert (row["first_ns"], row["last_ns"], row["unit"]) == (0, 3, "MHz")


def test_what_was_asked_for_and_never_read_has_no_values() -> None:
    run = run_of((0, "fan", "GPU 0", None, "%"), (0, "power", "GPU 0", math.nan, "W"), (0, "power", "GPU 0", 2.0, "W"))
    assert figures(run) == {("fan", "GPU 0"): (0, None, None, None, None), ("power", "GPU 0"): (1, 2.0, 2.0, 2.0, 2.0)}


def test_devices_are_in_the_order_of_their_numbers() -> None:
    run = run_of(*((0, "clock", f"GPU {number}", 1.0, "MHz") for number in (10, 2, 0)))
    assert summarised(run)["device"].to_list() == ["GPU 0", "GPU 2", "GPU 10"]


def test_the_course_is_of_equal_parts_of_time_and_empty_where_nothing_was_sampled() -> None:
    run = run_of((0, "load", None, 1.0, ""), (1, "load", None, 3.0, ""), (PARTS * 10 - 1, "load", None, 7.0, ""))
    (course,) = summarised(run)["trend"].to_list()
    assert course == [2.0, *[None] * (PARTS - 2), 7.0]


def test_samples_without_times_are_in_their_order() -> None:
    run = run_of(*((None, "load", None, float(at), "") for at in range(PARTS)))
    (row,) = summarised(run).iter_rows(named=True)
    assert row["trend"] == [float(at) for at in range(PARTS)] and row["first_ns"] is None


@pytest.mark.parametrize(("name", "unit", "largest", "shown"), [
    ("pclk", "", 1980.0, "MHz"), ("pwr", None, 300.0, "W"), ("gtemp", "C", 80.0, "°C"), ("GPUTL", "%", 5.0, "%"),
    ("memory_usage", "", 8e10, ""), ("gpu_util", "", 97.0, "%"), ("loss", "", 2.0, ""),
    ("x", "a\x1b[31mb", 1.0, "a␛[31mb"),
])
def test_a_unit_is_the_recorded_one_else_what_the_name_says(
    name: str, unit: str | None, largest: float, shown: str
) -> None:
    assert display_unit(name, unit, largest) == shown


def test_real_counters_are_as_a_plain_reading_has_them(data: Path) -> None:
    folder = data / "latencyprism/SGLang-gpu_instability/abnormal"
    found: dict[str, list[float]] = defaultdict(list)
    with (folder / "result_counters_data.csv").open() as lines:
        for row in csv.DictReader(lines):
            if not row["counter_name"].startswith(("process_", "host_mem_")):  # split by process; in KiB
                found[row["counter_name"]].append(float(row["value"]))
    (run,) = open_run(str(folder), use_cache=False)
    got = {metric: row for (metric, _), row in figures(run).items() if not metric.startswith(("process_", "host_mem_"))}
    assert len(got) > 10 and got == {name: pytest.approx(plain(values)) for name, values in found.items()}


def test_the_monitor_of_a_rocm_recording_is_as_sqlite_has_it(data: Path, tmp_path: Path) -> None:
    path = tmp_path / "mytrace.rpd"
    path.write_bytes(gzip.decompress((data / "traces/rpd/mytrace.rpd.gz").read_bytes()))
    connection = sqlite3.connect(path)
    found: dict[tuple[str, str], list[tuple[float, int]]] = defaultdict(list)
    query = "select monitorType, deviceId, value, end - start from rocpd_monitor where monitorType = 'sclk'"
    for metric, device, value, held in connection.execute(query):
        found[metric, f"GPU {device}"].append((float(value), held))
    connection.close()
    (run,) = open_run(str(path), use_cache=False)
    got = {key: row for key, row in figures(run).items() if key[0] == "sclk"}
    assert got == {key: pytest.approx(weighted(values)) for key, values in found.items()}


def weighted(values: list[tuple[float, int]]) -> tuple[int, float, float, float, float]:
    """Number, least, mean, median and largest value, each weighted with the time that it held."""
    total, ordered = sum(held for _, held in values), sorted(values)
    mean = sum(value * held for value, held in values) / total
    passed = list(accumulate(held for _, held in ordered))
    middle = next(value for (value, _), time in zip(ordered, passed, strict=True) if 2 * time >= total)
    return len(values), ordered[0][0], mean, middle, ordered[-1][0]


def test_two_runs_are_ordered_by_how_much_the_mean_changed() -> None:
    a = run_of((0, "clock", "GPU 0", 1000.0, "MHz"), (0, "power", "GPU 0", 100.0, "W"), (0, "gone", "GPU 0", 1.0, ""))
    b = run_of((0, "clock", "GPU 0", 250.0, "MHz"), (0, "power", "GPU 0", 101.0, "W"), label="other")
    table = ask(view("metrics"), (a, b))
    names = [column.name for column in table.columns]
    rows = [dict(zip(names, row, strict=True)) for row in table.window(0, len(table))]
    assert [(row["metric"], row["change"], row["mean_delta"]) for row in rows] == [
        ("clock", -0.75, -750.0), ("power", 0.01, 1.0), ("gone", None, None)]
    assert rows[0]["mean_change"] == "1,000 → 250 MHz"
    assert {"samples_a", "samples_b", "min_a", "p50_b", "max_delta", "first_ns_a"} <= set(names)


def test_devices_of_two_runs_that_share_no_name_are_matched_and_said() -> None:
    a, b = run_of((0, "clock", "GPU 3", 4.0, "MHz")), run_of((0, "clock", "GPU 5", 2.0, "MHz"), label="other")
    table = ask(view("metrics"), (a, b))
    assert len(table) == 1 and "compared B's GPU 5 with A's GPU 3" in table.notes[-1]


def test_a_run_without_counters_says_what_would_have_them() -> None:
    with pytest.raises(CannotAnswer, match="no samples of counters"):
        ask(view("metrics"), (run_of(),))


def test_a_window_and_a_device_limit_the_samples() -> None:
    run = run_of(*((at * 100, "clock", f"GPU {at % 2}", float(at), "MHz") for at in range(10)))
    table = ask(view("metrics"), (run,), Options(from_ns=200, to_ns=600, device="GPU 1"))
    assert [row[:2] for row in table.window(0, 9, ("device", "samples", "mean"))] == [("GPU 1", 2)]


def test_the_samples_themselves_are_a_view() -> None:
    run = run_of((5, "clock", "GPU 0", 1.5, "MHz"), (None, "clock", "GPU 0", None, "MHz"))
    table = ask(view("samples"), (run,))
    assert table.window(0, 2, ("ts_ns", "metric", "value")) == [(5, "clock", 1.5), (None, "clock", None)]
