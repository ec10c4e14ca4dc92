"""XLA's JSON: HLO ops and modules of the host become operators, and activities are tied to them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl

from warplens.loaders.ingest.opening import open_run

DEVICE, HOST, LAUNCHER, CALLS = 1, 701, 5, 7


def slice_of(pid: int, tid: int, name: str, ts: float, dur: float, **args: Any) -> dict[str, Any]:
    return {"args": args, "dur": dur, "name": name, "ph": "X", "pid": pid, "tid": tid, "ts": ts}


def named(pid: int, tid: int | None, name: str) -> dict[str, Any]:
    what = "process_name" if tid is None else "thread_name"
    return {"args": {"name": name}, "name": what, "ph": "M", "pid": pid, **({} if tid is None else {"tid": tid})}


def ran(correlation: int, op: str, ts: float) -> list[dict[str, Any]]:
    """The launch call on its own line, and the kernel 100 µs later."""
    own = {"correlation_id": str(correlation), "hlo_module": "jit_f", "hlo_op": op}
    return [slice_of(HOST, CALLS, "cuLaunchKernel", ts, 2.0, **own),
            slice_of(DEVICE, 1, "fused_kernel", ts + 100, 10.0, **own, kernel_details="regs:32")]


def test_launches_belong_to_the_slice_of_their_op_that_was_open(tmp_path: Path) -> None:
    events = [
        named(DEVICE, None, "/device:GPU:0"), named(DEVICE, 1, "Stream #2"), named(HOST, None, "/host:CPU"),
        named(HOST, LAUNCHER, "python3"), named(HOST, CALLS, "Host Threads/7"),
        slice_of(HOST, LAUNCHER, "jit_f:XLA GPU module", 0.0, 90.0), slice_of(HOST, LAUNCHER, "dot.3", 10.0, 20.0),
        slice_of(HOST, LAUNCHER, "fusion", 40.0, 20.0), slice_of(HOST, LAUNCHER, "not an op", 70.0, 5.0),
        *ran(1, "dot.3", 12.0), *ran(2, "fusion", 45.0), *ran(3, "dot.3", 80.0),  # no dot.3 is open at 80
    ]
    path = tmp_path / "plugins.trace.json"
    path.write_text(json.dumps({"displayTimeUnit": "ns", "metadata": {"highres-ticks": True}, "traceEvents": events}))
    (run,) = open_run(str(path), use_cache=False)
    host = run.host.with_columns(pl.col("name", "kind").cast(pl.String)).collect()
    operators = host.filter(pl.col("kind") == "op")
    assert operators["name"].to_list() == ["jit_f:XLA GPU module", "dot.3", "fusion"]
    ids = dict(operators.select("external_id", "name").rows())
    kernels = run.kernels.sort("correlation").select("correlation", "op_id").collect().rows()
    assert [(number, ids.get(op)) for number, op in kernels] == [(1, "dot.3"), (2, "fusion"), (3, None)]
