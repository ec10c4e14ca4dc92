"""Figures of an ncu profile, worked out from the cells of its pages with nothing but csv."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tests.analysis.recomputed.asked import view_of

PREFIXES = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "m": 1e-3, "u": 1e-6, "n": 1e-9}


@pytest.fixture
def folder(data: Path) -> Path:
    return data / "traces/ncu_csv/llm-perf-opt/ncu-v2/kernel_0001_67bdb7e29d1bb4e0ca0aec954ef18af3"


def cells(page: Path) -> list[dict[str, str]]:
    with page.open(newline="") as file:
        return list(csv.DictReader(file))


def plain(value: str, unit: str) -> float:
    """A cell in bytes, seconds, hertz or as it stands, whatever prefix its unit has."""
    number = float(value.replace(",", ""))
    return number * PREFIXES.get(unit[:1], 1.0) if unit[1:] in ("byte", "byte/s", "Hz", "hz", "s", "second") else number


def test_every_metric_of_the_pages_is_there_once_with_its_value(folder: Path) -> None:
    recorded = {
        (row["Metric Name"], plain(row["Metric Value"], row["Metric Unit"]))
        for page in folder.glob("*.csv") for row in cells(page)
        if row["Metric Name"] and row["Metric Value"] not in ("", "n/a", "(!) n/a")
    }
    rows = [row for row in view_of(folder, "sections").rows if row["what"] == "metric" and row["value"] is not None]
    shown = {(row["metric"], plain(str(row["value"]), row["unit"] or "")) for row in rows}
    assert len(recorded) > 50
    for name, value in recorded:
        assert any(one == name and got == pytest.approx(value, rel=1e-9, abs=1e-12) for one, got in shown), name


def test_rules_are_in_the_order_of_the_speed_up_they_estimate(folder: Path) -> None:
    said = {row["Rule Name"]: row for row in cells(folder / "ncu.details.csv") if row["Rule Name"]}
    rows = [row for row in view_of(folder, "sections").rows if row["what"] == "rule"]
    own = {name: float(row["Estimated Speedup"]) / 100 for name, row in said.items() if row["Estimated Speedup"]}
    assert {row["metric"]: row["speedup"] for row in rows if row["speedup"]} == pytest.approx(own)
    estimates = [row["speedup"] or 0 for row in rows]
    assert estimates == sorted(estimates, reverse=True) and len(own) >= 2


def test_the_kernels_time_and_memory_share_are_those_of_its_sections(folder: Path) -> None:
    metrics = {row["Metric Name"]: row for row in cells(folder / "ncu.section_SpeedOfLight.csv") if row["Metric Name"]}
    (kernel,) = view_of(folder, "kernels").rows
    duration = metrics["Duration"]
    assert kernel["total_ns"] == round(plain(duration["Metric Value"], duration["Metric Unit"]) * 1e9)
    assert kernel["dram"] == pytest.approx(float(metrics["DRAM Throughput"]["Metric Value"]) / 100, rel=1e-6)
    (launch,) = view_of(folder, "launches").rows
    limits = {row["Metric Name"]: row["Metric Value"] for row in cells(folder / "ncu.section_Occupancy.csv")}
    assert launch["occupancy"] == pytest.approx(float(limits["Achieved Occupancy"]) / 100, rel=1e-6)
    first = cells(folder / "ncu.details.csv")[0]
    assert launch["block"] == first["Block Size"].strip("()").replace(" ", "")
    assert launch["grid"] == first["Grid Size"].strip("()").replace(" ", "")
