"""Finished comparisons: every printed number, any labels, two runs with their ranked cycle times."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from warplens.loaders.comparison import LOADER, printed
from warplens.loaders.errors import Unreadable
from warplens.loaders.loader import HEAD_BYTES, Job
from warplens.loaders.recording.values import number

REPORT = """# Strict Performance Comparison: runs (PID: 11)

| Metric              | base       | slow       | Δ (slow - base) | Change (%) |
|:--------------------|:-----------|:-----------|:----------------|:-----------|
| Avg Cycle Time (us) | 750,054.29 | 785,001.80 | 34,947.51       | +4.66%     |

|   Time Rank |   base Time (us) | slow Time (us)   | Δ (us)     | Δ (%)   |
|------------:|-----------------:|:-----------------|:-----------|:--------|
|           1 |       771,618.75 | 1001081.25       | 229,462.50 | +29.74% |
|           2 |       757,989.25 | -                | -          | -       |

| Function Name | Metric Name | Device | Suspicion Score | β_base(%) | \
β_slow(%) | Δβ(%) | Z-Score(β) | p-value(β) | U-test p(β) | μ_base | μ_slow | \
Δμ | Z-Score(μ) | Z-Score(log_μ) | p-value(μ) | U-test p(μ) |
|:--|:--|:--|:--|:--|:--|:--|:--|:--|:--|:--|:--|:--|:--|:--|:--|:--|
| **operator|| [x]** | `m` | GPU 7 | **1,561.72** | 2.71 | 8.62 | +5.91 | 246.52 | 0 | 0.001 | \
450,167,277.78 | 5 | 6.68812e+07 | −32.31 | 17.8 | nan | - |
| cut off | m | GPU 7 | 3
"""


def test_a_report_opens_as_two_runs(tmp_path: Path) -> None:
    path = tmp_path / "r.md"
    path.write_text(REPORT)
    a, b = LOADER.load(Job(path, tmp_path))
    assert (a.info.label, b.info.label) == ("base", "slow")
    assert a.cycles.select("cycle", "dur_ns").collect().rows() == [(1, 771_618_750), (2, 757_989_250)]
    assert b.cycles.select("cycle", "dur_ns").collect().rows() == [(1, 1_001_081_250)]
    assert b.info.facts["Avg Cycle Time (us)"] == 785_001.80
    (row,) = a.comparison.collect().rows(named=True)
    assert row == {
        "function": "operator|| [x]", "metric": "m", "device": "GPU 7", "suspicion": 1561.72,
        "beta_a": 2.71, "beta_b": 8.62, "delta_beta": 5.91, "z_beta": 246.52, "p_beta": 0.0, "u_beta": 0.001,
        "mu_a": 450167277.78, "mu_b": 5.0, "delta_mu": 6.68812e7, "z_mu": -32.31, "z_log_mu": 17.8,
        "p_mu": None, "u_mu": None, "pid_a": 11, "pid_b": 11,
    }  # fmt: skip
    assert a.info.warnings[-1] == "1 of 2 rows could not be read and were left out."


@pytest.mark.parametrize(
    ("header", "label", "pid"),
    [("β_normal_pid_805580(%)", "normal", 805580), ("β_my run(%)", "my run", None), ("β_a_b(%)", "a_b", None)],
)
def test_headers_carry_any_label(tmp_path: Path, header: str, label: str, pid: int | None) -> None:
    path = tmp_path / "c.csv"
    path.write_text(f'Function Name,Metric Name,Device,Suspicion Score,{header},β_x(%)\n"f<a, b>",m,Host,1,2,3\n')
    a, b = LOADER.load(Job(path, tmp_path))
    assert (a.info.label, b.info.label) == (label, "x")
    columns = ("function", "beta_a", "beta_b", "pid_a", "pid_b")
    assert a.comparison.select(columns).collect().row(0) == ("f<a, b>", 2.0, 3.0, pid, None)


def test_every_pair_of_processes_keeps_its_pids(tmp_path: Path) -> None:
    head = "| Function Name | Metric Name | Device | Suspicion Score | β_base_pid_{}(%) | β_slow_pid_{}(%) |\n"
    row = "|:--|:--|:--|:--|:--|:--|\n| f | m | Host | 1 | {} | {} |\n"
    tables = (head.format(*pids) + row.format(*pids) for pids in ((1, 3), (2, 3)))
    ranks = "| Time Rank | base_pid_1 Time (us) | slow_pid_3 Time (us) |\n|--:|--:|--:|\n| 1 | 2.5 | - |\n"
    path = tmp_path / "r.md"
    path.write_text("# Cross Performance Comparison: runs\n\n" + ranks + "\n" + "\nprose\n\n".join(tables))
    assert LOADER.sniff(path.read_bytes())
    a, b = LOADER.load(Job(path, tmp_path))
    assert (a.info.label, b.info.label) == ("base", "slow")
    assert a.comparison.select("beta_a", "pid_a", "pid_b").collect().rows() == [(1.0, 1, 3), (2.0, 2, 3)]
    assert a.cycles.collect()["dur_ns"].to_list() == [2500] and not b.has("cycles")


def test_a_report_without_tables_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.md"
    path.write_text("# Performance Comparison\n\nnothing\n")
    with pytest.raises(Unreadable, match="no comparison table"):
        LOADER.load(Job(path, tmp_path))


@pytest.mark.parametrize(("text", "value"), [("-", None), ("+4.66%", 4.66), ("**1,234.5**", 1234.5), ("inf", None)])
def test_printed_numbers(text: str, value: float | None) -> None:
    assert number(printed(text))[0] == value


def test_the_seed_report_has_all_its_rows(data: Path, tmp_path: Path) -> None:
    path = data / "seeds/strict_comparison_sglang_gpu_instability.md"
    assert LOADER.sniff(path.read_bytes()[:HEAD_BYTES])
    a, b = LOADER.load(Job(path, tmp_path))
    assert a.comparison.collect().height == 264
    assert a.comparison.select("pid_a").collect()["pid_a"].unique().to_list() == [944615]
    means = [run.cycles.collect()["dur_ns"].mean() for run in (a, b)]
    assert means == pytest.approx([750_054_291.67, 785_001_800], abs=1)


def test_reference_tables_come_through_digit_for_digit(data: Path, tmp_path: Path) -> None:
    for path in data.glob("latencyprism/*/expected_comparison.csv"):
        assert LOADER.sniff(path.read_bytes()[:HEAD_BYTES])
        rows = list(csv.reader(path.read_text().splitlines()))[1:]
        frame = LOADER.load(Job(path, tmp_path))[0].comparison.collect()
        assert [list(row[:3]) for row in frame.rows()] == [row[:3] for row in rows]
        assert [list(row[3:17]) for row in frame.rows()] == [
            [None if cell in ("", "nan") else float(cell) for cell in row[3:17]] for row in rows
        ]
