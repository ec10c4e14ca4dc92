"""Tables that are held in memory give the same rows however few of them somebody looks at."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from msgspec.structs import asdict, replace
from polars.testing import assert_frame_equal

from warplens.loaders.account.calls import CALLS, NAMES
from warplens.loaders.account.tables import LinkedSlices, slices_of
from warplens.loaders.ingest.opening import open_run
from warplens.loaders.kineto import table_frames
from warplens.loaders.kineto.columns import Strings


@pytest.fixture
def trace() -> Path:
    return Path(__file__).parents[3] / "samples" / "kineto.pt.trace.json"


@pytest.mark.parametrize("table", ["host", "kernels"])
def test_what_is_filtered_in_batches_is_what_is_filtered_as_a_whole(
    table: str, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_frames, "_BATCH", 1)
    condition = (pl.col("dur_ns") > 2_000) & (pl.col("kind") != "memcpy")
    parts = open_run(str(trace), use_cache=False)[0].table(table).filter(condition).collect()
    whole = open_run(str(trace), use_cache=False)[0].table(table).collect().filter(condition)
    assert parts.height > 0
    assert_frame_equal(parts, whole)


def test_to_look_whether_there_are_rows_makes_no_columns(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = open_run(str(trace), use_cache=False)[0].table("kernels")
    asked: list[int] = []
    frame = table_frames.frame

    def counted(*arguments: Any) -> pl.DataFrame:
        made = frame(*arguments)
        asked.append(made.width)
        return made

    monkeypatch.setattr(table_frames, "frame", counted)
    first = rows.select("name").head(1).collect()
    assert first.height == 1 and asked[0] <= 3
    assert_frame_equal(first, rows.select("name").collect().head(1))


def arrays(some: LinkedSlices) -> dict[str, Any]:
    columns = asdict(some)
    return {name: values.tolist() for name, values in (*columns.items(), *columns.pop("named").items())
            if name != "named"}


@pytest.mark.parametrize("case", ["sample", "odd", "ranked"])
def test_calls_and_operators_are_the_same_from_the_reader_and_from_the_table(
    case: str, trace: Path, tmp_path: Path
) -> None:
    if case != "sample":
        def event(number: int, cat: str, name: str, **more: Any) -> dict[str, Any]:
            return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": "thread 9", "ts": 10.5 + number,
                    "dur": 2} | more

        events = [
            event(0, "cpu_op", "aten::mm", args={"External id": 1 << 40}), event(1, "cuda_runtime", "cudaLaunchKernel"),
            event(2, "cuda_driver", "cuLaunchKernel", args={"correlation": 0}), event(3, "cpu_op", "aten::add", dur=-1),
            event(4, "cuda_runtime", "cudaGraphLaunch", args={"correlation": 7, "External id": 3}, pid=2),
            event(5, "user_annotation", "step"), event(6, "cpu_op", "aten::t", tid=3, ts=11),
            event(7, "kernel", "gemm", pid=0, tid=7, args={"correlation": 7, "device": 0, "stream": 7}),
        ]
        document = {"distributedInfo": {"rank": 3}} if case == "ranked" else {}
        trace = tmp_path / "trace.json"
        trace.write_text(json.dumps(document | {"traceEvents": events}))
    run = open_run(str(trace), use_cache=False)[0]
    assert run.held_host is not None
    held, read = (slices_of(one, CALLS, NAMES) for one in (run, replace(run, held_host=None)))
    for one, other in zip(held, read, strict=True):
        assert len(one.row) > 0 and arrays(one) == arrays(other)
    moved = run.with_tables(host=run.host.filter(pl.col("kind") == "op"))
    assert moved.held_host is None and run.with_tables(kernels=run.kernels).held_host is not None


def test_texts_are_numbered_in_the_order_they_are_first_seen() -> None:
    strings = Strings()
    assert strings.numbers(["b", "a", "b"]) == [0, 1, 0]
    assert strings.numbers(["a", "c", "b", "c"]) == [1, 2, 0, 2]
    assert strings.code("c") == 2 and strings.code("d") == 3
    assert strings.texts == ["b", "a", "c", "d"]


def test_opening_does_not_wait_for_polars() -> None:
    program = "import sys; import warplens.loaders.ingest.opening; print('polars' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", program], text=True).strip() == "False"


@pytest.mark.parametrize("table", ["host", "kernels"])
@pytest.mark.parametrize("limit", [None, 3, 100_000])
def test_rows_that_are_only_counted_or_numbered_are_all_there(table: str, limit: int | None, trace: Path) -> None:
    run = open_run(str(trace), use_cache=False)[0]
    rows, numbered = (one if limit is None else one.head(limit) for one in (
        run.table(table), run.table(table).with_row_index("row")))
    assert numbered.select("row").collect().height == rows.select("name").collect().height > 0
    assert run.with_tables(**{table: numbered.drop("row")}).has(table)
