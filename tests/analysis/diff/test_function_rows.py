"""The rows a diff begins with: each function of a cycle once, in an order that its names decide."""

from __future__ import annotations

import polars as pl
import pytest

from warplens.analysis.contract.options import Options
from warplens.analysis.diff.function_change import FunctionChange, category, frame_of, in_order
from warplens.analysis.diff.prepare.samples import work_of
from warplens.loaders import schema
from warplens.loaders.trace import Info, Trace

ORDER = ["pid", "device", "function", "cycle"]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_rows_are_in_order_and_once_each(seed: int) -> None:
    rows = [
        {"cycle": cycle, "cycle_ns": 1_000, "cycle_start_ns": 1_000 * cycle, "pid": pid, "function": function,
         "kind": "kernel", "device": device, "metric": metric, "mu": 1.0, "dur_ns": 10 + cycle, "instances": 1}
        for cycle in range(4) for pid in (None, 7) for function in ("zeta", "alpha", "Beta") for device in
        ("GPU 10", "GPU 2", None) for metric in (None, "power", "clock")
    ]
    table = schema.conform("profile", pl.DataFrame(rows).sample(fraction=1.0, shuffle=True, seed=seed).lazy())
    work = work_of(Trace(Info("x", "x", "made")).with_tables(profile=table), Options())
    found = work.rows.with_columns(pl.col("device", "function").cast(pl.String)).select(ORDER)
    plain = pl.DataFrame(rows, infer_schema_length=None).select(ORDER).unique().sort(ORDER)
    assert found.equals(plain)
    assert set(work.metrics["metric"]) == {"power", "clock"}


def test_where_nothing_was_judged_the_largest_change_of_the_devices_comes_first() -> None:
    rows = [FunctionChange(name, device, "kernel", category("kernel", device), None, None, delta_ms=delta, a_ms=1.0,
                           b_ms=1.0, verdict=verdict, sure_ms=sure)
            for name, device, delta, verdict, sure in (
                ("small and new", "GPU 0", 0.1, "new", 0.1), ("gone", "GPU 0", -0.2, "gone", -0.2),
                ("copies", "GPU 0", 15.0, "not judged", None), ("call", "Host", 52.0, "not judged", None))]
    assert in_order(frame_of(rows), judged=False)["function"].to_list() == ["copies", "gone", "small and new", "call"]
    assert in_order(frame_of(rows))["function"].to_list() == ["small and new", "gone", "call", "copies"]
