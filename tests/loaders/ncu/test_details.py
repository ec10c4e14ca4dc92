"""All that Nsight Compute says of a launch is there when somebody looks at it, and pages of one profile are one."""

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
from warplens.loaders.ingest.event_arguments import arguments
from warplens.loaders.ingest.opening import open_run
from warplens.loaders.loader import Job
from warplens.loaders.ncu import LOADER, report
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


def test_everything_said_of_a_launch_is_in_its_arguments(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text(DETAILS)
    run = opened(path)
    assert run.kernels.select("dur_ns", "offset").collect().rows() == [(5_000, 0), (7_000, 1)]
    assert arguments(run.info, None, 0, "k0") == {
        "SpeedOfLight: Duration": "5.00 us", "SpeedOfLight: Memory Throughput": "61.5 %",
        "SpeedOfLight: rule SOLBottleneck": "optimisation: Too small a grid. Estimated speed-up 38.2% (global).",
    }
    assert arguments(run.info, None, 1, "k1") == {"SpeedOfLight: Duration": "7.00 us"}
    with pytest.raises(Unreadable, match="has changed"):
        arguments(run.info, None, 1, "k0")
    with pytest.raises(Unreadable, match="has changed"):
        arguments(run.info, None, 9, "k0")


def test_the_details_of_a_kernel_have_what_was_measured_of_its_longest_launch(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text(DETAILS)
    run = opened(path)
    sections = details(view("kernels"), ask(view("kernels"), (run,)), 0, (run,), Options()).sections
    (found,) = (one.event for one in sections if one.title == "All that was measured (the longest)")
    assert found is not None and (found.offset, found.name) == (1, "k1")


@pytest.mark.parametrize("name", ["ncu_long.csv", "ncu_wide.csv", "ncu_text.txt"])
def test_every_layout_says_what_was_measured_of_every_launch(name: str, samples: Path) -> None:
    run = opened(samples / name)
    for at, kernel, dur in run.kernels.select("offset", pl.col("name").cast(pl.String), "dur_ns").collect().rows():
        said = arguments(run.info, None, at, kernel)
        (text,) = (str(value) for key, value in said.items() if "gpu__time_duration.sum" in key)
        number, unit = text.split()
        assert float(number.replace(",", "")) * {"n": 1, "u": 1e3, "m": 1e6}[unit[0]] == pytest.approx(dur)


def test_pages_of_one_profile_are_one_recording_whichever_is_opened(tmp_path: Path) -> None:
    (tmp_path / "a.details.csv").write_text(DETAILS)
    (tmp_path / "a.section_Occupancy.csv").write_text(OCCUPANCY)
    for path in (tmp_path, tmp_path / "a.details.csv", tmp_path / "a.section_Occupancy.csv"):
        run = opened(path)
        rows = run.kernels.select("name", "dur_ns", "occupancy").collect().rows()
        assert rows == [("k0", 5_000, None), ("k1", 7_000, pytest.approx(0.44))]
        assert "Occupancy: Block Limit Registers" in arguments(run.info, None, 0, "k0")
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
    said = arguments(run.info, None, 0, str(run.kernels.collect()["name"].cast(pl.String)[0]))
    wanted, rules = set(), set()
    for file in folder.glob("*.csv"):
        for row in csv.DictReader(file.read_text().splitlines()):
            before = " · ".join(part for part in (row["Section Name"], row.get("Body Item Label")) if part)
            if row["Metric Name"]:
                wanted.add((f"{before}: {row['Metric Name']}", f"{row['Metric Value']} {row['Metric Unit']}".strip()))
            if row["Rule Name"]:
                rules.add((f"{before}: rule {row['Rule Name']}", row["Estimated Speedup"]))
    assert len(wanted) > 50 and wanted <= set(said.items())
    assert rules and all(gain in said[key] for key, gain in rules)


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
    assert run.info.serialised and "smsp__inst.sum" in run.info.facts["unused_metrics"]
    said = arguments(run.info, None, 0, "gemm")
    assert said["SpeedOfLight: rule SOL"] == (
        "Bound: by memory Estimated speed-up 12.5% (global). [dram__throughput = 81.0: lower it]")
    assert said["gpu__time_duration.sum"] == "5000 ns" and said["smsp__inst.sum"] == "12"


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
    assert report.LOADER.arguments(reports, 0, "?")
    monkeypatch.setitem(RULES[0]["speedup_estimation"], "speedup", None)
    with pytest.raises(Unreadable, match="cannot be read by NVIDIA's library"):
        report.LOADER.arguments(reports, 0, "?")
    monkeypatch.setattr(Action, "metric_names", lambda self: 1 / 0)
    with pytest.raises(Unreadable, match="cannot be read by NVIDIA's library"):
        report.LOADER.load(Job(reports, tmp_path))


def test_details_of_damaged_files_are_values_or_a_refusal(samples: Path, tmp_path: Path) -> None:
    chance = random.Random(3)
    for name in ("ncu_long.csv", "ncu_wide.csv", "ncu_text.txt"):
        run = opened(samples / name)
        kernel = str(run.kernels.collect()["name"].cast(pl.String)[1])
        for _ in range(20):
            path = Path(shutil.copy(samples / name, tmp_path / name))
            data = bytearray(path.read_bytes())
            for _ in range(chance.choice((1, 5, 60))):
                data[chance.randrange(len(data))] = chance.choice(b'",\n\0\xff9')
            path.write_bytes(bytes(data))
            try:
                assert LOADER.arguments(path, 1, kernel)
            except ValueError:
                continue
