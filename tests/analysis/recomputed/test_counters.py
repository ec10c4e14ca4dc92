"""Figures of a log of counters, worked out from its text."""

from __future__ import annotations

import csv
from datetime import datetime
from pathlib import Path
from statistics import mean

import pytest

from tests.analysis.recomputed.asked import view_of


def test_counters_of_nvidia_smi_are_those_of_its_log(data: Path) -> None:
    log = data / "traces" / "gpu_timeseries" / "distracted_gpu_usage_log.csv"
    with log.open(newline="") as file:
        lines = [[cell.strip() for cell in row] for row in csv.reader(file)]
    header, samples = lines[0], [row for row in lines[1:] if len(row) == len(lines[0])]
    times = [datetime.strptime(row[0], "%Y/%m/%d %H:%M:%S.%f") for row in samples]
    rows = {row["metric"]: row for row in view_of(log, "metrics").rows}
    assert len(rows) == 5
    for column in range(3, len(header)):
        name, _, unit = header[column].partition("[")
        times_unit = 1 << 20 if unit.startswith("MiB") else 1
        values = sorted(int(row[column]) * times_unit for row in samples)
        row = rows[name]
        assert row["samples"] == len(values) > 50
        assert (row["min"], row["max"]) == (values[0], values[-1])
        assert row["p50"] == values[(len(values) + 1) // 2 - 1]  # nearest rank
        assert row["mean"] == pytest.approx(mean(values), rel=1e-12)
        assert row["first_ns"] == 0
        assert row["last_ns"] == round((times[-1] - times[0]).total_seconds() * 1e3) * 1_000_000
