"""Figures of a real profile of Nsight Compute, recomputed from its pages by a plain reading."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from warplens.analysis.contract.options import Options
from warplens.analysis.query.ask import ask
from warplens.analysis.query.report import report
from warplens.analysis.views import view
from warplens.loaders.ingest.opening import open_run


def printed(folder: Path) -> list[dict[str, str]]:
    return [row for page in sorted(folder.glob("*.csv")) for row in csv.DictReader(page.read_text().splitlines())]


def test_ten_figures_of_the_details_page_by_another_road(data: Path) -> None:
    (folder,) = (data / "traces/ncu_csv/llm-perf-opt/ncu-v2").iterdir()
    (run,) = open_run(str(folder), use_cache=False, compiled=False)
    rows = printed(folder)

    def cell(section: str, metric: str) -> float:
        found = {row["Metric Value"] for row in rows
                 if row["Section Name"] == section and row["Metric Name"] == metric}
        (value,) = found  # every page that has it prints the same
        return float(value.replace(",", ""))

    shown = {(row["section"], row["metric"]): row for row in ask(view("sections"), (run,)).frame.to_dicts()}
    speed, memory, warps = "GPU Speed Of Light Throughput", "Memory Workload Analysis", "Scheduler Statistics"
    for section, metric, times in (
        (speed, "Duration", 1e3), (speed, "DRAM Frequency", 1e9), (speed, "Elapsed Cycles", 1.0),
        (speed, "Compute (SM) Throughput", 1.0), (memory, "Memory Throughput", 1e9), (memory, "L2 Hit Rate", 1.0),
        (warps, "No Eligible", 1.0), (warps, "Active Warps Per Scheduler", 1.0),
        ("Occupancy", "Block Limit Registers", 1.0), ("Occupancy", "Achieved Occupancy", 1.0),
    ):
        assert shown[section, metric]["value"] == pytest.approx(cell(section, metric) * times)
    gains = {row["Rule Name"]: row["Estimated Speedup"] for row in rows if row["Rule Name"]}
    for row in shown.values():
        if row["what"] == "rule":
            assert row["speedup"] == (float(gains[row["metric"]]) / 100 if gains[row["metric"]] else None)
    (launch,) = ask(view("launches"), (run,)).frame.to_dicts()
    assert launch["dur_ns"] == cell(speed, "Duration") * 1e3
    assert launch["dram"] == pytest.approx(cell(speed, "DRAM Throughput") / 100)
    assert launch["occupancy"] == pytest.approx(cell("Occupancy", "Achieved Occupancy") / 100)
    best = max((float(gain), rule) for rule, gain in gains.items() if gain and rule != "IssueSlotUtilization")
    first = report("triage", (run,), Options()).frame.to_dicts()[0]
    assert first["rule"] == "recorded rules" and f"est. speed-up {best[0]:.1f}% (global)" in first["finding"]


def test_a_profile_against_itself_has_no_change(data: Path) -> None:
    (folder,) = (data / "traces/ncu_csv/llm-perf-opt/ncu-v2").iterdir()
    runs = tuple(open_run(str(folder), use_cache=False, compiled=False)[0] for _ in "ab")
    rows = ask(view("sections"), (runs[0], runs[1])).frame.to_dicts()
    assert len(rows) == ask(view("sections"), runs[:1]).total_rows
    assert {row["change"] for row in rows} == {0.0, None} and all(row["value_a"] == row["value_b"] for row in rows)


def test_pages_of_two_runs_that_print_other_sections_are_compared_where_they_meet(data: Path, tmp_path: Path) -> None:
    (folder,) = (data / "traces/ncu_csv/llm-perf-opt/ncu-v2").iterdir()
    (part,) = folder.glob("*Occupancy.csv")
    (tmp_path / "ncu.section_Occupancy.csv").write_bytes(part.read_bytes())
    (whole,), (lone,) = (open_run(str(one), use_cache=False, compiled=False) for one in (folder, tmp_path))
    rows = ask(view("sections"), (whole, lone)).frame.to_dicts()
    there = {row["section"] for row in rows if row["value_b"] is not None}
    assert there == {"Occupancy"} and any(row["value_b"] is None for row in rows)
    assert ask(view("sections"), (lone, whole)).total_rows == len(rows)
