"""Ascend's output folder: counts and sums are the vendor's, operators are tied by the recorded arrows."""

from __future__ import annotations

import csv
import importlib.util
import shutil
import sqlite3
import sys
from pathlib import Path

import polars as pl
import pytest

from warplens.analysis.core.intervals import union
from warplens.analysis.operators.tree import operators_of
from warplens.loaders import ascend
from warplens.loaders.ingest.opening import open_run
from warplens.loaders.loader import Job
from warplens.loaders.trace import Trace

SAMPLE = "ascend/rank1_ascend_pt"
REAL = "traces/ascend/msinsight_level2/rank0_ascend_pt"
INSIDE = "ASCEND_PROFILER_OUTPUT"


def load(path: Path, folder: Path) -> Trace:
    (trace,) = ascend.LOADER.load(Job(path, folder))
    return trace


def of_kind(trace: Trace, kind: str) -> pl.DataFrame:
    return trace.kernels.filter(pl.col("kind").cast(pl.String) == kind).collect()


def table(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def covered(rows: pl.DataFrame) -> int:
    """Time that any of the activities takes, in ns."""
    spans = union(rows["start_ns"].to_numpy(), (rows["start_ns"] + rows["dur_ns"]).to_numpy())
    return spans.length


@pytest.mark.parametrize("place", [SAMPLE, REAL])
def test_kernels_and_communication_are_the_vendors(place: str, samples: Path, data: Path, tmp_path: Path) -> None:
    folder = (samples if place == SAMPLE else data) / place / INSIDE
    trace = load(folder / "kernel_details.csv", tmp_path)
    details, (step, *_) = table(folder / "kernel_details.csv"), table(folder / "step_trace_time.csv")
    compute = [row for row in details if not row["Name"].startswith("hcom")]
    kernels, links = of_kind(trace, "kernel"), of_kind(trace, "collective")
    assert kernels["name"].cast(pl.String).sort().to_list() == sorted(row["Name"] for row in compute)
    assert links.height == len(details) - len(compute)
    assert covered(kernels) == pytest.approx(float(step["Computing"]) * 1e3, rel=1e-3)
    assert covered(links) == pytest.approx(float(step["Communication"]) * 1e3, rel=1e-3)
    exposed = covered(pl.concat([kernels, links])) - covered(kernels)
    assert exposed == pytest.approx(float(step["Communication(Not Overlapped)"]) * 1e3, rel=1e-3)


@pytest.mark.parametrize("path", [f"{REAL}/{INSIDE}/trace_view.json", "traces/ascend/mstt_trace_view.json"])
def test_every_arrow_of_a_real_trace_ties_its_kernel(path: str, data: Path) -> None:
    (trace,) = open_run(str(data / path), use_cache=False)
    kernels = of_kind(trace, "kernel")
    assert kernels.height > 180 and kernels["op_id"].null_count() == 0
    operators = operators_of(trace)
    assert operators is not None
    claimed = operators.frame["device_self_ns"].sum()
    own = trace.kernels.filter(pl.col("kind").cast(pl.String) != "sync").select(pl.col("dur_ns").sum()).collect().item()
    assert claimed >= 0.99 * own
    assert (operators.frame["host_self_ns"] >= 0).all()


def test_a_kernel_belongs_to_the_operator_its_arrow_comes_from(samples: Path, tmp_path: Path) -> None:
    trace = load(samples / SAMPLE / INSIDE / "kernel_details.csv", tmp_path)
    operators = trace.host.filter(pl.col("kind").cast(pl.String) == "op").select("external_id", op="name")
    tied = trace.kernels.join(operators, left_on="op_id", right_on="external_id").select("name", "op").collect()
    assert {(name, op) for name, op in tied.rows() if "hcom" not in name} == {
        ("MEMCPY_ASYNC", "aclnnInplaceCopy"), ("aclnnMm_MatMulV2", "aclnnMm"), ("aclnnRelu_Relu", "aclnnRelu"),
        ("aclnnAdd_Add", "aclnnAdd"),
    }  # fmt: skip


def test_the_steps_of_a_collective_and_events_are_no_kernels(samples: Path, tmp_path: Path) -> None:
    trace = load(samples / SAMPLE / INSIDE / "kernel_details.csv", tmp_path)
    names = {name: kind for name, kind in trace.kernels.select("name", "kind").collect().rows()}
    assert "SDMA" not in names and "Reduce_Inline" not in names
    assert names["EVENT_RECORD"] == "sync" and names["MEMCPY_ASYNC"] == "memcpy"


def test_the_table_adds_what_the_trace_lacks(samples: Path, tmp_path: Path) -> None:
    trace = load(samples / SAMPLE / INSIDE / "kernel_details.csv", tmp_path)
    found = trace.kernels.filter(pl.col("name").cast(pl.String) == "aclnnMm_MatMulV2").collect()
    assert found["tensor"].to_list() == pytest.approx([0.81, 0.81]) and set(found["grid"].cast(pl.String)) == {"24,1,1"}
    memory = trace.metrics.select("metric", "device", "value", "unit", "rank").collect()
    assert memory.rows()[0] == ("memory allocated", "NPU 0", 100.5 * (1 << 20), "B", 1) and memory.height == 6


@pytest.mark.parametrize("given", ["", INSIDE, f"{INSIDE}/kernel_details.csv"])
def test_the_folder_its_parent_and_its_table_open_the_same_run(given: str, samples: Path) -> None:
    (trace,) = open_run(str(samples / SAMPLE / given), use_cache=False)
    assert (trace.info.format, trace.info.label, trace.info.ranks) == ("ascend", "rank1_ascend_pt", (1,))
    assert trace.kernels.collect().height == 12 and trace.host.collect().height == 42
    assert trace.host.select("rank").unique().collect().rows() == [(1,)]
    assert trace.info.facts["step_trace_time"][0]["Communication"] == "45.396"


@pytest.mark.parametrize("name", ["mstt_kernel_details.csv"])
def test_a_table_alone_opens_with_its_kernels(name: str, data: Path) -> None:
    path = data / "traces/ascend" / name
    (trace,) = open_run(str(path), use_cache=False)
    wanted = table(path)
    assert trace.kernels.collect().height == len(wanted)
    total = sum(round(float(row["Duration(us)"]) * 1000) for row in wanted)
    assert trace.kernels.select(pl.col("dur_ns").sum()).collect().item() == total
    assert of_kind(trace, "collective").height == 19 and not trace.has("host")


def test_arguments_are_those_of_the_trace(samples: Path, tmp_path: Path) -> None:
    path = samples / SAMPLE / INSIDE / "kernel_details.csv"
    found = of_kind(load(path, tmp_path), "collective").row(0, named=True)
    assert ascend.LOADER.arguments(path, found["offset"], found["name"])["data_type"] == "FP32"


def test_without_a_usable_trace_the_table_is_shown_and_that_is_said(samples: Path, tmp_path: Path) -> None:
    shutil.copytree(samples / SAMPLE, tmp_path / "run")
    (tmp_path / "run" / INSIDE / "trace_view.json").write_text("this is no trace")
    (trace,) = open_run(str(tmp_path / "run"), use_cache=False)
    assert of_kind(trace, "kernel").height == 6 and of_kind(trace, "collective").height == 2
    assert "host slices are missing" in " ".join(trace.info.warnings)


def test_a_launch_without_a_readable_time_counts_and_has_no_place(tmp_path: Path) -> None:
    path = tmp_path / "kernel_details.csv"
    path.write_text("Name,Type,Accelerator Core,Start Time(us),Duration(us)\nx,x,AI_CORE,soon,later\n")
    trace = load(path, tmp_path)
    assert trace.kernels.select("name", "start_ns", "dur_ns", "device").collect().rows() == [("x", None, None, None)]
    assert trace.info.warnings == (
        "2 values of kernel_details.csv (Start Time(us), Duration(us)) could not be read: no number",
        "1 of 1 launches carry no time: they are counted, and in no sum")


def test_a_folder_whose_table_has_no_cores_opens_with_the_rest(samples: Path, tmp_path: Path) -> None:
    shutil.copytree(samples / "ascend", tmp_path / "run")
    (table,) = (tmp_path / "run").rglob("kernel_details.csv")
    rows = [line.split(",") for line in table.read_text().splitlines()]
    without = rows[0].index("Accelerator Core")
    table.write_text("\n".join(",".join(row[:without] + row[without + 1:]) for row in rows))
    (whole,), (trace,) = (open_run(str(path), use_cache=False) for path in (samples / "ascend", tmp_path / "run"))
    same = ("name", "kind", "start_ns", "dur_ns", "op_type", "tensor")
    assert trace.kernels.select(same).collect().equals(whole.kernels.select(same).collect())
    assert not trace.has("kernels.core") and whole.has("kernels.core")
    assert "lacks the column Accelerator Core" in " ".join(trace.info.warnings)
    alone = table.rename(tmp_path / "kernel_details.csv")
    assert load(alone, tmp_path).kernels.collect().height == len(rows) - 1


def test_columns_called_alike_are_one_and_a_pattern_is_a_name(tmp_path: Path) -> None:
    path = tmp_path / "details.csv"
    path.write_text("Name, Name,Type,*,Accelerator Core,Start Time(us),Duration(us)\na,b,x,y,AI_CORE,5.5,1.5\n")
    assert load(path, tmp_path).kernels.select("name", "dur_ns").collect().rows() == [("a", 1500)]


def test_the_sample_is_what_the_script_makes(samples: Path, tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("make_ascend", samples / "make_ascend.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["make_ascend"] = module
    spec.loader.exec_module(module)
    module.main(tmp_path)
    for file in sorted((samples / SAMPLE).rglob("*")):
        if file.is_file():
            assert file.read_bytes() == (tmp_path / file.relative_to(samples)).read_bytes(), file.name
    name = "ascend_pytorch_profiler_1.db"
    with sqlite3.connect(samples / name) as kept, sqlite3.connect(tmp_path / name) as made:
        assert [*kept.iterdump()] == [*made.iterdump()]
    kept.close()
    made.close()
