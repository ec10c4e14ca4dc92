"""Small runs from bare rows: what the tests of analysis are written with."""

from __future__ import annotations

from typing import Any

import polars as pl

from warplens.loaders import schema
from warplens.loaders.ingest.call_tree import deferred
from warplens.loaders.trace import Info, Trace

Rows = list[dict[str, Any]]


def run_of(label: str = "run", **tables: Rows) -> Trace:
    """A run with these rows in these tables."""
    frames = {
        name: schema.conform(name, pl.DataFrame(rows, infer_schema_length=None).lazy()) for name, rows in tables.items()
    }
    return deferred(Trace(Info(source=f"{label}.json", label=label, format="test")).with_tables(**frames))


def host(name: str, start: int, dur: int, kind: str = "op", **more: Any) -> dict[str, Any]:
    """A slice on thread 1 of process 1."""
    return {"name": name, "start_ns": start, "dur_ns": dur, "kind": kind, "pid": 1, "tid": 1, "rank": None, **more}


def kernel(index: int, start: int | None, dur: int, name: str = "gemm", **more: Any) -> dict[str, Any]:
    """A kernel on GPU 0."""
    return {"index": index, "start_ns": start, "dur_ns": dur, "name": name, "kind": "kernel", "device": "GPU 0",
            "rank": None, **more}


def steps(*durations: int, **more: Any) -> Rows:
    """Recorded cycles 0, 1, 2, ... one after the other from time 0."""
    start, made = 0, []
    for number, dur in enumerate(durations):
        made.append({"cycle": number, "start_ns": start, "dur_ns": dur, "label": f"ProfilerStep#{number}",
                     "kind": "step", "source": "recorded", "complete": True, **more})
        start += dur
    return made


def samples(
    metric: str, device: str | None, *points: tuple[int, float], unit: str = "", pid: int | None = None
) -> Rows:
    """Samples of one counter: (time, value) each."""
    return [
        {"metric": metric, "device": device, "ts_ns": at, "value": value, "unit": unit, "pid": pid}
        for at, value in points
    ]
