"""All that Nsight Compute says of a launch is in the tables, by section, and pages of one profile are one."""

from __future__ import annotations

import csv
import random
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from warplens.analysis.contract.options import Options
from warplens.analysis.contract.view import CannotAnswer
from warplens.analysis.details.row_details import details
from warplens.analysis.query.ask import ask
from warplens.analysis.views import VIEWS, view
from warplens.loaders.errors import Unreadable
from warplens.loaders.ingest.opening import open_run
from warplens.loaders.loader import Job
from warplens.loaders.ncu import LOADER, report
from warplens.loaders.ncu.metrics import natural
from warplens.loaders.trace import Trace

HEADER = ("ID,Process ID,Process Name,Host Name,Kernel Name,Context,Stream,Block Size,Grid Size,Device,CC,Section Name,"
          "Metric Name,Metric Unit,Metric Value,Rule Name,Rule Type,Rule Description,Estimated Speedup Type,"
          "Estimated Speedup")


def line(number: int, *cells: str) -> str:
    before = (str(number), "7", "app", "host", f"k{number}", "1", "13", "(128, 1, 1)", "(4, 1, 1)", "0", "9.0")
    return ",".join(f'"{cell}"' for cell in (*before, *cells, *[""] * (9 - len(cells))))


DETAILS = "\n".join([
    HEADER, line(0, "SpeedOfLight", "Duration", "us", "5.00"),
    line(0, "SpeedOfLight", "Memory Throughput", "%", "61.5"),
    line(0, "SpeedOfLight", "", "", "", "SOLBottleneck", "OPT", "Too small a grid.", "global", "38.2"),
    line(1, "SpeedOfLight", "Duration", "us", "7.00"), "",
])
OCCUPANCY = "\n".join([
    HEADER, line(0, "Occupancy", "Block Limit Registers", "block", "5"), line(1, "Occupancy", "Achieved Occupancy", "%",
                                                                           "44.0"), "",
])


def opened(path: Path) -> Trace:
    (run,) = open_run(str(path), use_cache=False, compiled=False)
    return run


def metrics(run: Trace, index: int = 0) -> list[tuple[Any, ...]]:
    columns = pl.col("section", "metric", "unit", "text").cast(pl.String)
    rows = run.launch_metrics.filter(pl.col("index") == index).with_columns(columns).collect()
    return rows.select("section", "metric", "value", "unit", "text").rows()


def rules(run: Trace) -> list[tuple[Any, ...]]:
    columns = pl.col("section", "rule", "kind", "scope").cast(pl.String)
    rows = run.launch_rules.with_columns(columns, pl.col("speedup").round(6)).collect()
    return rows.select("index", "section", "rule", "kind", "message", "speedup", "scope").rows()


def test_every_metric_and_rule_is_kept_by_launch_and_section(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text(DETAILS)
    run = opened(path)
    assert run.kernels.select("dur_ns").collect()["dur_ns"].to_list() == [5_000, 7_000]
    assert metrics(run) == [("SpeedOfLight", "Duration", 5_000.0, "ns", None),
                            ("SpeedOfLight", "Memory Throughput", 61.5, "%", None)]
    assert metrics(run, 1) == [("SpeedOfLight", "Duration", 7_000.0, "ns", None)]
    assert rules(run) == [(0, "SpeedOfLight", "SOLBottleneck", "OPT", "Too small a grid.", 0.382, "global")]


TEXT = """[1433] smoke@127.0.0.1
  k(float *) (1, 1, 1)x(32, 1, 1), Context 1, Stream 7, Device 0, CC 8.6
    Section: Launch Statistics
    ---------------------------- --------------- ---------------
    Metric Name                      Metric Unit    Metric Value
    ---------------------------- --------------- ---------------
    Function Cache Configuration                 CachePreferNone
    Registers Per Thread         register/thread              16
    ---------------------------- --------------- ---------------

    OPT   Est. Speedup: 97.37%
          The grid is configured to execute only 1 block, which is less than the GPU's 38
          multiprocessors.
    ----- ------------------------------------------------------------------------------------
    WRN   The optional metric inst_executed could not be found.

    Section: Occupancy
    ---------------------------- --------------- ---------------
    Metric Name                      Metric Unit    Metric Value
    ---------------------------- --------------- ---------------
    Theoretical Occupancy                      %           33.33
    ---------------------------- --------------- ---------------

    OPT   Est. Local Speedup: 66.67%
          Limited by the number of blocks.
"""


def test_a_text_report_has_sections_and_rules(tmp_path: Path) -> None:
    path = tmp_path / "ncu.txt"
    path.write_text(TEXT)
    run = opened(path)
    assert metrics(run) == [
        ("Launch Statistics", "Function Cache Configuration", None, None, "CachePreferNone"),
        ("Launch Statistics", "Registers Per Thread", 16.0, "register/thread", None),
        ("Occupancy", "Theoretical Occupancy", 33.33, "%", None),
    ]
    grid = "The grid is configured to execute only 1 block, which is less than the GPU's 38 multiprocessors."
    assert rules(run) == [
        (0, "Launch Statistics", None, "OPT", grid, 0.9737, None),
        (0, "Launch Statistics", None, "WRN", "The optional metric inst_executed could not be found.", None, None),
        (0, "Occupancy", None, "OPT", "Limited by the number of blocks.", 0.6667, "local"),
    ]


def test_the_details_of_a_kernel_have_what_was_measured_of_its_longest_launch(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text(DETAILS)
    run = opened(path)
    sections = details(view("kernels"), ask(view("kernels"), (run,)), 0, (run,), Options()).sections
    (found,) = (one.rows for one in sections if one.title == "GPU Speed Of Light Throughput (the longest)")
    assert found == (("Duration", "7.00 µs"),)


@pytest.mark.parametrize("name", ["ncu_long.csv", "ncu_wide.csv", "ncu_text.txt"])
def test_every_layout_says_what_was_measured_of_every_launch(name: str, samples: Path) -> None:
    run = opened(samples / name)
    durations = run.kernels.select("dur_ns").collect()["dur_ns"].to_list()
    for index, dur in enumerate(durations):
        (found,) = (row for row in metrics(run, index) if row[1] == "gpu__time_duration.sum")
        assert found[2:] == (pytest.approx(dur), "ns", None)


@pytest.mark.parametrize(("printed", "kept"), [
    ("Gbyte/second", ("B/s", 1e9)), ("Kbyte/block", ("B/block", 1e3)), ("usecond", ("ns", 1e3)), ("ms", ("ns", 1e6)),
    ("s", ("ns", 1e9)), ("Ghz", ("Hz", 1e9)), ("hz", ("Hz", 1.0)), ("cycle/nsecond", ("Hz", 1e9)), ("%", ("%", 1.0)),
    ("inst", ("inst", 1.0)), ("register/thread", ("register/thread", 1.0)), ("", ("", 1.0)), ("nbyte", ("nbyte", 1.0)),
])  # fmt: skip
def test_units_have_one_scale_each(printed: str, kept: tuple[str, float]) -> None:
    assert natural(printed) == kept


def test_pages_of_one_profile_are_one_recording_whichever_is_opened(tmp_path: Path) -> None:
    (tmp_path / "a.details.csv").write_text(DETAILS)
    (tmp_path / "a.section_Occupancy.csv").write_text(OCCUPANCY)
    for path in (tmp_path, tmp_path / "a.details.csv", tmp_path / "a.section_Occupancy.csv"):
        run = opened(path)
        rows = run.kernels.select("name", "dur_ns", "occupancy").collect().rows()
        assert rows == [("k0", 5_000, None), ("k1", 7_000, pytest.approx(0.44))]
        assert ("Occupancy", "Block Limit Registers", 5.0, "block", None) in metrics(run)
        assert "read together: 2 pages of one profile" in run.info.warnings


@pytest.mark.parametrize("first", [0, 1], ids=["A has durations", "B has durations"])
def test_pages_of_other_sections_are_a_pair_and_what_one_did_not_time_is_not_0(tmp_path: Path, first: int) -> None:
    runs = []
    for name, text in (("timed", DETAILS), ("occupancy", OCCUPANCY)):
        (tmp_path / name).mkdir()
        (path := tmp_path / name / "run.csv").write_text(text)
        runs.append(opened(path))
    pair, lacks = ((runs[0], runs[1]), "b") if not first else ((runs[1], runs[0]), "a")
    answered = {}
    for entry in VIEWS:
        with suppress(CannotAnswer):
            answered[entry.name] = ask(view(entry.name), pair)
    assert {"overview", "kernels", "launches", "diff", "triage", "pairs"} <= set(answered)
    assert answered["diff"].summary[0] == f"GPU     durations are not recorded in {lacks.upper()}"
    (row,) = answered["overview"].frame.to_dicts()
    assert (row[f"time_ns_{lacks}"], row["time_ns_delta"]) == (None, None)
    assert [row[f"total_ns_{lacks}"] for row in answered["kernels"].frame.to_dicts()] == [None, None]
    assert not any("0 ns" in said for table in answered.values() for said in table.summary)


def test_every_page_of_a_real_profile_is_shown(data: Path) -> None:
    (folder,) = (data / "traces/ncu_csv/llm-perf-opt/ncu-v2").iterdir()
    run = opened(folder)
    assert run.kernels.collect().height == 1
    have = {(section, metric) for section, metric, *_ in metrics(run)}
    percent = {(section, metric): value for section, metric, value, unit, _ in metrics(run) if unit == "%"}
    found = {(rule, message): speedup for _, _, rule, _, message, speedup, _ in rules(run)}
    for file in folder.glob("*.csv"):
        for row in csv.DictReader(file.read_text().splitlines()):
            section = " · ".join(part for part in (row["Section Name"], row.get("Body Item Label")) if part)
            if row["Metric Name"]:
                assert (section, row["Metric Name"]) in have
            if row["Metric Unit"] == "%":
                assert percent[section, row["Metric Name"]] == float(row["Metric Value"])
            if row["Rule Name"]:
                said = found.pop((row["Rule Name"], row["Rule Description"]), "elsewhere")
                gain = row["Estimated Speedup"]
                assert said == "elsewhere" or said == (float(gain) / 100 if gain else None)
    assert len(have) > 60 and len(percent) > 15 and not found


class Metric(SimpleNamespace):
    def value(self) -> Any:
        return self.said

    def unit(self) -> str:
        return str(self.of)

    def num_instances(self) -> int:
        return int(self.several)


class Action:
    """A result as NVIDIA's library hands it out."""

    def __init__(self, name: str, metrics: dict[str, Any], rules: list[dict[str, Any]]) -> None:
        self._name, self._rules = name, rules
        self._metrics = {key: Metric(said=value, of="ns" if "time" in key else "%" if "pct" in key else "", several=1)
                         for key, value in metrics.items()}

    def name(self) -> str:
        return self._name

    def metric_names(self) -> tuple[str, ...]:
        return tuple(self._metrics)

    def metric_by_name(self, name: str) -> Metric | None:
        return self._metrics.get(name)

    def rule_results_as_dicts(self) -> list[dict[str, Any]]:
        return self._rules


RULES = [{"name": "SOL", "section_identifier": "SpeedOfLight",
          "rule_message": {"title": "Bound", "message": "by memory"},
          "speedup_estimation": {"type": 2, "speedup": 12.5},
          "focus_metrics": [{"name": "dram__throughput", "value": 81.0, "info": "lower it"}]}]
ACTIONS = [
    Action("gemm", {"gpu__time_duration.sum": 5000, "launch__grid_dim_x": 4, "launch__grid_dim_y": 2,
                    "launch__grid_dim_z": 1, "launch__device_id": 1, "launch__stream_id": 7,
                    "device__attribute_compute_capability_major": 9, "device__attribute_compute_capability_minor": 0,
                    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": 81.0, "smsp__inst.sum": 12}, RULES),
    Action("softmax", {"gpu__time_duration.sum": 800, "smsp__inst.sum": 3}, []),
]


@pytest.fixture
def reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A report, and a stand-in for the library that reads it."""
    path = tmp_path / "run.ncu-rep"
    path.write_bytes(report.MAGIC + b"whatever")
    results = SimpleNamespace(num_actions=lambda: len(ACTIONS), action_by_idx=ACTIONS.__getitem__)
    loaded = SimpleNamespace(num_ranges=lambda: 1, range_by_idx=lambda number: results)
    monkeypatch.setitem(sys.modules, "ncu_report", SimpleNamespace(load_report=lambda name: loaded))
    return path


def test_a_report_is_read_by_nvidias_library(reports: Path, tmp_path: Path) -> None:
    (run,) = report.LOADER.load(Job(reports, tmp_path))
    assert run.kernels.select("name", "dur_ns", "dram", "grid", "device", "stream").collect().rows() == [
        ("gemm", 5_000, pytest.approx(0.81), "4,2,1", "GPU 1", 7), ("softmax", 800, None, None, None, None)]
    assert run.info.serialised
    assert rules(run) == [
        (0, "SpeedOfLight", "SOL", None, "Bound: by memory [dram__throughput = 81.0: lower it]", 0.125, "global")]
    assert {(None, "gpu__time_duration.sum", 5000.0, "ns", None), (None, "smsp__inst.sum", 12.0, None, None)} <= set(
        metrics(run))


def test_without_the_library_the_refusal_says_how_to_get_it(reports: Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "ncu_report", None)
    with pytest.raises(Unreadable) as refused:
        opened(reports)
    assert "warplens[ncu]" in refused.value.advice and "--page raw" in refused.value.advice


def test_what_the_library_raises_is_a_refusal(reports: Path, tmp_path: Path, monkeypatch) -> None:
    def fails(name: str) -> None:
        raise RuntimeError("not a report")

    monkeypatch.setitem(sys.modules, "ncu_report", SimpleNamespace(load_report=fails))
    with pytest.raises(Unreadable, match="cannot be read by NVIDIA's library"):
        report.LOADER.load(Job(reports, tmp_path))


def test_what_the_library_should_never_say_is_a_refusal_or_a_text(reports: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(ACTIONS[0], "_name", "\ud800")
    (run,) = report.LOADER.load(Job(reports, tmp_path))
    assert run.kernels.collect()["name"].cast(pl.String)[0] == "?"
    monkeypatch.setitem(RULES[0]["speedup_estimation"], "speedup", None)
    (run,) = report.LOADER.load(Job(reports, tmp_path))
    assert [rule[-2:] for rule in rules(run)] == [(None, "global")]
    monkeypatch.setattr(Action, "metric_names", lambda self: 1 / 0)
    with pytest.raises(Unreadable, match="cannot be read by NVIDIA's library"):
        report.LOADER.load(Job(reports, tmp_path))


def test_damaged_files_have_tables_or_are_refused(samples: Path, tmp_path: Path, deep: bool) -> None:
    chance = random.Random(3)
    for name in ("ncu_long.csv", "ncu_wide.csv", "ncu_text.txt"):
        for _ in range(40 if deep else 10):
            path = Path(shutil.copy(samples / name, tmp_path / name))
            data = bytearray(path.read_bytes())
            for _ in range(chance.choice((1, 5, 60))):
                data[chance.randrange(len(data))] = chance.choice(b'",\n\0\xff9')
            path.write_bytes(bytes(data))
            try:
                (run,) = LOADER.load(Job(path, tmp_path))
            except Unreadable:
                continue
            launches = run.kernels.collect().height
            assert run.launch_metrics.filter(~pl.col("index").is_between(0, launches - 1)).collect().is_empty()
