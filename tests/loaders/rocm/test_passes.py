"""A dispatch that was replayed for other counters is one launch, in every file that may hold it; an id that is none
names nothing; rounded times are none in JSON either."""

from __future__ import annotations

import copy
import csv
import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from warplens.loaders.ingest.opening import open_run

SECOND = 10**9


@pytest.fixture
def document(samples: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((samples / "rocprofv3_results.json").read_text())
    return content


def later(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same dispatches a second later, 777 ns longer."""
    return [{**row, "start_timestamp": row["start_timestamp"] + SECOND,
             "end_timestamp": row["end_timestamp"] + SECOND + 777} for row in rows]


@pytest.mark.parametrize("kept", ["counters", "first", "both"])
def test_replayed_dispatches_of_a_document_are_one_launch(
    kept: str, document: dict[str, Any], samples: Path, tmp_path: Path
) -> None:
    process = document["rocprofiler-sdk-tool"][0]
    first = process["buffer_records"]["kernel_dispatch"]
    second = later(first)
    process["counters"] = [{"id": {"handle": 1}, "name": "SQ_WAVES"}, {"id": {"handle": 2}, "name": "SQ_BUSY"}]
    process["callback_records"]["counter_collection"] = [
        {"dispatch_data": row, "records": [{"counter_id": {"handle": number}, "value": 100.0 * number}] * 2}
        for number, rows in ((1, first), (2, second)) for row in rows]
    process["buffer_records"]["kernel_dispatch"] = {"counters": [], "first": first, "both": first + second}[kept]
    path = tmp_path / "results.json"
    path.write_text(json.dumps(document))
    (run,) = open_run(path)
    (plain,) = open_run(samples / "rocprofv3_results.json")
    columns = ["start_ns", "dur_ns"]
    assert run.kernels.select(columns).collect().equals(plain.kernels.select(columns).collect())
    values = run.launch_metrics.select(pl.col("metric").cast(pl.String), "value").collect()
    assert sorted(set(values.rows())) == [("SQ_BUSY", 400.0), ("SQ_WAVES", 200.0)]
    assert values.height == 2 * len(first) and "2 passes" in str(run.info.warnings)


@pytest.mark.parametrize("with_kernels", [False, True])
def test_replayed_dispatches_in_csv_files_are_one_launch(with_kernels: bool, samples: Path, tmp_path: Path) -> None:
    def repeat(target: str, source: str) -> None:
        rows = list(csv.DictReader((samples / source).read_text().splitlines()))
        more = copy.deepcopy(rows)
        for row in more:
            row.update({name: str(int(row[name]) + SECOND) for name in ("Start_Timestamp", "End_Timestamp")})
            row.update({"Counter_Name": f"X_{row['Counter_Name']}"} if "Counter_Name" in row else {})
        with (tmp_path / target).open("w") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows + more)

    repeat("run_counter_collection.csv", "rocprofv3_counters/counter_collection.csv")
    if with_kernels:
        repeat("run_kernel_trace.csv", "rocprofv3/run_kernel_trace.csv")
    (run,) = open_run(tmp_path / "run_counter_collection.csv")
    assert run.kernels.collect().height == 12
    assert run.launch_metrics.collect().height == 72 and "2 passes" in str(run.info.warnings)


def test_an_id_that_is_none_names_no_device(document: dict[str, Any], tmp_path: Path) -> None:
    process = document["rocprofiler-sdk-tool"][0]
    dispatches, copies = process["buffer_records"]["kernel_dispatch"], process["buffer_records"]["memory_copy"]
    dispatches[0]["dispatch_info"]["agent_id"]["handle"] = [1]
    dispatches[1]["dispatch_info"]["dispatch_id"] = {}
    copies[0]["dst_agent_id"]["handle"] = copies[0]["src_agent_id"]["handle"] = [2]
    path = tmp_path / "results.json"
    path.write_text(json.dumps(document))
    (run,) = open_run(path)
    assert run.kernels.collect().height == len(dispatches) + len(copies)
    assert run.kernels.select(pl.col("device").null_count()).collect().item() == 2


def test_times_of_a_document_that_a_spreadsheet_rounded_are_none(document: dict[str, Any], tmp_path: Path) -> None:
    text = re.sub(r'("(?:start|end)_timestamp": )(\d+)', lambda match: f"{match[1]}{int(match[2]):.5E}",
                  json.dumps(document))
    path = tmp_path / "results.json"
    path.write_text(text)
    (run,) = open_run(path)
    kernels = run.kernels.collect()
    assert kernels.height == 16 and kernels["start_ns"].null_count() == kernels["dur_ns"].null_count() == 16
    assert "24 values of kernel_dispatch (start, end) could not be read: rounded" in str(run.info.warnings)
