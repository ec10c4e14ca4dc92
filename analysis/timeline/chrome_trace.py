"""A run, or a part of one, as a Chrome trace that Perfetto and chrome://tracing open.

Slices are complete events in microseconds with nanosecond precision, ``ac2g`` flows join a launch and its activity,
counters stay counters, and devices and threads keep their names. Data that is not in the tables (shapes, stacks) is
left out. Format: the Trace Event Format, with the categories and arguments PyTorch's profiler writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import orjson
import polars as pl

from ...loaders.schema import columns_of
from ...loaders.trace import Trace
from ..communication.rank_clocks import clocks_of, on_first_clock
from ..contract.options import Options
from ..contract.view import CannotAnswer
from ..cycles.scope import scoped, scoped_any_cycle

BATCH = 50_000  # Events held as Python objects at a time.
_ACTIVITY = {"kernel": "kernel", "collective": "kernel", "memcpy": "gpu_memcpy", "memset": "gpu_memset",
             "sync": "cuda_sync"}
_HOST = {"op": "cpu_op", "runtime": "cuda_runtime", "driver": "cuda_driver", "python": "python_function",
         "annotation": "user_annotation", "dataloader": "user_annotation", "overhead": "overhead"}
_NUMBER = re.compile(r"(\d+)$")


def with_launches(whole: Trace, part: Trace) -> Trace:
    """The part plus the launch calls of its activities that began outside it (without their parent slices)."""
    calls = whole.kernels.select("index").collect(engine="streaming").with_columns(
        row=whole.account().activities["call"].cast(pl.Int64))
    wanted = part.kernels.select("index").join(calls.lazy(), on="index").select(index="row").drop_nulls().unique()
    outside = whole.host.join(wanted, on="index", how="semi").join(part.host.select("index"), on="index", how="anti")
    return part.with_tables(host=pl.concat([part.host, outside]).sort("index"))


def sliced(run: Trace, options: Options) -> Iterator[bytes]:
    """The part of the run in the options' scope as a trace, all ranks on the clock of the first, as in the
    timeline. Raises CannotAnswer where nothing in it has a time."""
    scope = scoped(run, options)
    if not scope.has("kernels") and not scope.has("host"):
        raise CannotAnswer(f"{run.info.label} holds nothing with a time here; a trace of it would be empty.")
    if scope is not run:
        scope = with_launches(run, scope)
    return document(on_first_clock(scope, clocks_of(scoped_any_cycle(run, options, window=False))))


def gzipped(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The pieces as a gzip file; its header holds no time, so the same trace gives the same bytes."""
    from isal import isal_zlib

    packing = isal_zlib.compressobj(wbits=31)
    for piece in pieces:
        yield packing.compress(piece)
    yield packing.flush()


def document(run: Trace) -> Iterator[bytes]:
    """The trace as pieces of one JSON document, in order."""
    devices = _devices(run)
    head: dict[str, Any] = {
        "schemaVersion": 1, "displayTimeUnit": "ns",
        "deviceProperties": [
            {"id": number, "name": next((d.name for d in run.info.devices if d.id == name), None) or name}
            for name, number in devices.items()
        ],
    }
    if run.info.epoch_ns is not None:
        head["baseTimeNanoseconds"] = run.info.epoch_ns
    if len(run.info.ranks) == 1:
        head["distributedInfo"] = {"rank": run.info.ranks[0]}
    yield orjson.dumps(head)[:-1] + b',"traceEvents":[\n'
    first = True
    for piece in _pieces(run, devices):
        if piece:
            yield (b"" if first else b",\n") + b",\n".join(piece)
            first = False
    yield b"\n]}\n"


def _devices(run: Trace) -> dict[str, int]:
    """A number per device: the one in its name if every device has a distinct one, else its position."""
    devices = run.kernels.select(pl.col("device").cast(pl.String)).unique().collect(engine="streaming")["device"]
    names = sorted(devices.drop_nulls().to_list())
    numbers = [int(match[1]) if (match := _NUMBER.search(name)) else -1 for name in names]
    own = len(set(numbers)) == len(numbers) and min(numbers, default=0) >= 0
    return dict(zip(names, numbers if own else range(len(names)), strict=True))


def _pieces(run: Trace, devices: dict[str, int]) -> Iterator[list[bytes]]:
    yield [_named("process_name", number, 0, name) for name, number in devices.items()]
    call = run.account().activities["call"].cast(pl.UInt32)
    launching = set(call.drop_nulls().unique())
    starts: dict[int, tuple[Any, Any, int]] = {}
    for rows in _batches(run.host.with_row_index("row").filter(pl.col("start_ns").is_not_null())):
        result = []
        for row in rows:
            if row["row"] in launching:
                starts[row["row"]] = row["pid"], row["tid"], row["start_ns"]
            result.append(_host_event(row))
        yield result
    for rows in _batches(run.kernels.with_columns(call).filter(pl.col("start_ns").is_not_null())):
        result = []
        for row in rows:
            number = devices.get(row["device"], 0)
            result.append(_activity(row, number))
            launch = starts.get(row["call"])
            if launch is not None and row["kind"] != "sync":
                result += _flow(row, launch, number)
        yield result
    for rows in _batches(run.metrics.filter(pl.col("ts_ns").is_not_null() & pl.col("value").is_finite())):
        yield [_counter(row, devices) for row in rows]


def _batches(table: pl.LazyFrame) -> Iterator[list[dict[str, Any]]]:
    texts = [name for name, dtype in columns_of(table).items() if dtype == pl.Categorical]
    frame = table.with_columns(pl.col(texts).cast(pl.String)).collect(engine="streaming")
    for begin in range(0, frame.height, BATCH):
        yield frame[begin : begin + BATCH].to_dicts()


def _micro(ns: int) -> orjson.Fragment:
    """Nanoseconds as exact decimal microseconds."""
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    return orjson.Fragment(f"{sign}{ns // 1000}.{ns % 1000:03d}")


def _slice(cat: str, row: dict[str, Any], pid: object, tid: object, arguments: dict[str, Any]) -> bytes:
    recorded = {key: value for key, value in arguments.items() if value is not None}
    return orjson.dumps({
        "ph": "X", "cat": cat, "name": row["name"], "pid": pid, "tid": tid, "ts": _micro(row["start_ns"]),
        "dur": _micro(row["dur_ns"] or 0), "args": recorded,
    })


def _host_event(row: dict[str, Any]) -> bytes:
    arguments = {
        "correlation": row["correlation"], "External id": row["external_id"], "Sequence number": row["sequence"],
        "Fwd thread id": row["forward_tid"],
    }
    return _slice(_HOST.get(row["kind"], row["kind"] or "cpu_op"), row, row["pid"] or 0, row["tid"] or 0, arguments)


def _activity(row: dict[str, Any], device: int) -> bytes:
    sizes = {key: [int(part) for part in row[key].split(",")] if row[key] else None for key in ("grid", "block")}
    occupancy = row["occupancy"]
    arguments = {
        "device": device, "stream": row["stream"], "correlation": row["correlation"], "External id": row["op_id"],
        **sizes, "registers per thread": row["registers"], "shared memory": row["shared_bytes"],
        "est. achieved occupancy %": None if occupancy is None else round(100 * occupancy),
        "blocks per SM": row["blocks_per_sm"], "bytes": row["bytes"], "graph id": row["graph"],
        "Collective name": row["collective"], "Process Group Name": row["process_group"], "dtype": row["dtype"],
        "Process Group Ranks": f"[{row['group_ranks']}]" if row["group_ranks"] else None, "Seq": row["seq"],
        "Src Rank": row["src_rank"], "Dst Rank": row["dst_rank"], "Group size": row["group_size"],
        "In msg nelems": row["in_elements"], "Out msg nelems": row["out_elements"],
    }
    return _slice(_ACTIVITY.get(row["kind"], "kernel"), row, device, _stream(row), arguments)


def _stream(row: dict[str, Any]) -> int:
    return row["stream"] if row["stream"] is not None else 0


def _flow(row: dict[str, Any], launch: tuple[Any, Any, int], device: int) -> list[bytes]:
    pid, tid, start = launch
    same = {"cat": "ac2g", "name": "ac2g", "id": row["call"]}  # correlation ids may be missing, or of another process
    return [
        orjson.dumps({"ph": "s", **same, "pid": pid or 0, "tid": tid or 0, "ts": _micro(start)}),
        orjson.dumps({"ph": "f", "bp": "e", **same, "pid": device, "tid": _stream(row), "ts": _micro(row["start_ns"])}),
    ]


def _counter(row: dict[str, Any], devices: dict[str, int]) -> bytes:
    return orjson.dumps({
        "ph": "C", "name": row["metric"], "pid": devices.get(row["device"], row["pid"] or 0), "tid": 0,
        "ts": _micro(row["ts_ns"]), "args": {row["unit"] or "value": row["value"]},
    })


def _named(kind: str, pid: int, tid: int, name: str) -> bytes:
    return orjson.dumps({"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}})
