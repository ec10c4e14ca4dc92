"""A small job of four ranks, one of which comes late, for the panes of ranks and collectives and their pictures."""

from __future__ import annotations

from typing import Any

import polars as pl

from warplens.loaders import schema
from warplens.loaders.trace import Info, Trace


def job(late_ns: int = 300_000, label: str = "job") -> Trace:
    """Four ranks at 24 all-reduces in six cycles; rank 2 comes 300 µs later in the first four."""
    rows: list[dict[str, Any]] = []
    for number in range(24):
        for rank in range(4):
            start = number * 1_000_000 + rank * 7_000 + (late_ns if rank == 2 and number < 16 else 0)
            rows.append({
                "index": len(rows), "start_ns": start, "dur_ns": number * 1_000_000 + 500_000 - start,
                "name": "ncclDevKernel_AllReduce", "kind": "collective", "device": f"GPU {rank}", "rank": rank,
                "seq": number, "process_group": "0",
            })
    cycles = [
        {"cycle": n, "start_ns": 4_000_000 * n, "dur_ns": 4_000_000, "label": "step", "kind": "step", "rank": rank,
         "source": "recorded", "complete": True}
        for rank in range(4) for n in range(6)
    ]
    frames = {"kernels": pl.DataFrame(rows), "cycles": pl.DataFrame(cycles)}
    info = Info(source=f"/traces/{label}", label=label, format="kineto", ranks=(0, 1, 2, 3))
    return Trace(info).with_tables(**{name: schema.conform(name, frame.lazy()) for name, frame in frames.items()})
