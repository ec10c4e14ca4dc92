"""The diff in the app: + opens a row into its parts, − closes it, and the cursor stays."""

from __future__ import annotations

from typing import Any

from app_runs import Shelf, app_on, frame, press, screen_text, settled

from warplens.loaders.ingest.call_tree import deferred
from warplens.loaders.trace import Info, Trace


def convolutions(label: str, names: list[str]) -> Trace:
    """Ten steps that call one operator for each of these kernels."""
    host: list[dict[str, Any]] = []
    kernels: list[dict[str, Any]] = []
    for number in range(10 * len(names)):
        at, correlation = number * 300_000, number + 1
        common = {"pid": 1, "tid": 1}
        host += [{"name": "aten::conv", "kind": "op", "start_ns": at, "dur_ns": 8_000, **common},
                 {"name": "cudaLaunchKernel", "kind": "runtime", "start_ns": at + 1_000, "dur_ns": 2_000,
                  "correlation": correlation, **common}]
        kernels.append({
            "index": number, "start_ns": at + 5_000, "dur_ns": 100_000 + number * 7 % 11, "pid": 1, "kind": "kernel",
            "name": names[number % len(names)], "device": "GPU 0", "stream": 7, "correlation": correlation,
        })
    length = 300_000 * len(names)
    cycles = [{"cycle": at, "start_ns": at * length, "dur_ns": length, "label": f"ProfilerStep#{at}", "kind": "step",
               "source": "recorded", "complete": True} for at in range(10)]
    tables = {"host": host, "kernels": kernels, "cycles": cycles}
    run = Trace(Info(source=f"{label}.json", label=label, format="test"))
    return deferred(run.with_tables(**{name: frame(name, rows) for name, rows in tables.items()}))


async def test_plus_and_minus_open_and_close_a_row_under_the_cursor() -> None:
    shelf = Shelf(a=convolutions("a", ["wino", "wino", "implicit", "same", "same", "same"]),
                  b=convolutions("b", ["wino", "fft", "fft", "same", "same", "same"]))
    app = app_on("a", "b", shelf=shelf, view="diff")
    async with app.run_test(size=(140, 40)) as pilot:
        await settled(pilot)
        pane = app.main.pane
        assert pane is not None
        await press(pilot, "slash", *"conv", "enter")
        await settled(pilot)
        assert "7 unchanged" in screen_text(app)  # one row
        total = pane.rows.table.total_rows if pane.rows.table is not None else 0
        assert f"{len(pane.rows.table or ()) - 1} of {total} rows" in screen_text(app), "a group's head is no row"
        for _ in range(len(pane.rows.table or ())):
            if pane.row()["parts"]:
                break
            await press(pilot, "down")
        row, whole = pane.row(), len(pane.rows.table or ())
        assert "implicit" not in screen_text(app)
        await press(pilot, "plus")
        await settled(pilot)
        assert pane.row()["function"] == row["function"] and len(pane.rows.table or ()) == whole + 3
        assert "implicit" in screen_text(app)
        await press(pilot, "down", "minus")
        await settled(pilot)
        assert len(pane.rows.table or ()) == whole and "implicit" not in screen_text(app)
        job = pane.export_job()
        exported = job().frame["function"].to_list() if job is not None else []
        assert {"implicit", "wino", "fft", "same"} <= set(exported), "what is folded on the screen is in the export"
        assert not any("unchanged" in name for name in exported)
