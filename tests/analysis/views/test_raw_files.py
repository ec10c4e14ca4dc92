"""Ranges, calls and copies of real recordings against plain readings of their files, which share no code with ours."""

from __future__ import annotations

import bisect
import gzip
import json
import re
import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from warplens.analysis.query.ask import ask
from warplens.analysis.views import view
from warplens.loaders.ingest.opening import open_run
from warplens.loaders.trace import Trace

KINETO = (
    "kineto/hta/nccl_parser_config/nccl_data.json.gz",
    pytest.param("kineto/hta/trace_diff/control/control.json.gz", marks=pytest.mark.deep),
    "kineto/tb_plugin/samples/resnet50_num_workers_0/worker0.1623143089861.pt.trace.json.gz",
    "kineto/tracelens/h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz",
)
NSYS = (
    "nsys_sqlite/nsys-ai/h100_2gpu_1s.sqlite", "nsys_sqlite/nsys-ai/mfu_2gpu_after.sqlite",
    "nsys_sqlite/power_iteration__baseline.sqlite",
)
RPD = "rpd/mytrace.rpd.gz"
Sums = dict[Any, tuple[int, ...]]


@cache
def opened(path: Path) -> Trace:
    (run,) = open_run(str(path), use_cache=False, compiled=False)
    return run


def rows_of(name: str, path: Path) -> list[dict[str, Any]]:
    return ask(view(name), (opened(path),)).frame.to_dicts()


def summed(found: Any, *names: str) -> Sums:
    """The rows' columns by the first of them, or by all that are no numbers."""
    keys = [name for name in names if not name.endswith(("_ns", "bytes", "count", "launches"))]
    rest = [name for name in names if name not in keys]
    return {tuple(row[key] for key in keys): tuple(row[name] or 0 for name in rest) for row in found}


def rounded(theirs: Sums) -> dict[Any, Any]:
    """What equals these counts exactly, and the rest but for a few nanoseconds an event that rounding may move."""
    return {key: (count, *(pytest.approx(one, rel=0, abs=count * 4 + 4) for one in rest))
            for key, (count, *rest) in theirs.items()}


@cache
def kineto(path: Path) -> list[dict[str, Any]]:
    found = []
    for event in json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal)["traceEvents"]:
        if event.get("ph") == "X" and "ts" in event:
            start = Decimal(str(event["ts"])) * 1000
            event["begin"], event["dur_ns"] = int(start), int(Decimal(str(event.get("dur", 0))) * 1000)
            event["cat"], event["args"] = str(event.get("cat", "")).lower(), event.get("args") or {}
            found.append(event)
    return found


ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset")
CALLS = {"cuda_runtime": "runtime", "runtime": "runtime", "cuda_driver": "driver"}


@pytest.mark.parametrize("name", KINETO)
def test_ranges_of_a_kineto_file(name, data):
    events = kineto(data / "traces" / name)
    ran = defaultdict(list)
    for event in events:
        if event["cat"] in ON_DEVICE:
            ran[event["args"].get("correlation")].append(event["dur_ns"])
    by_thread = defaultdict(list)
    for event in events:
        if event["cat"] in CALLS and event["args"].get("correlation"):
            by_thread[event["pid"], event["tid"]].append((event["begin"], event["args"]["correlation"]))
    for calls in by_thread.values():
        calls.sort()
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        loads = event["name"].startswith("enumerate(DataLoader)")
        if event["cat"] == "user_annotation" or (loads and event["cat"] in ("cpu_op", "operator")):
            found[event["name"]].append(event)
    want = {}
    for label, ranges in found.items():
        inside = set()
        for one in ranges:
            calls = by_thread[one["pid"], one["tid"]]
            low, high = (bisect.bisect_left(calls, (at, -1)) for at in (one["begin"], one["begin"] + one["dur_ns"]))
            inside |= {correlation for _, correlation in calls[low:high]}
        durations = [dur for correlation in inside for dur in ran[correlation]]
        want[(label,)] = (len(ranges), sum(one["dur_ns"] for one in ranges), len(durations), sum(durations))
    assert want
    got = rows_of("ranges", data / "traces" / name)
    mine = summed(got, "name", "count", "total_ns", "launches", "device_ns")
    assert {key: values[2] for key, values in mine.items()} == {key: values[2] for key, values in want.items()}
    assert set(mine) == set(want)
    for key, values in want.items():
        assert mine[key][0] == values[0], key
        assert abs(mine[key][1] - values[1]) <= values[0]
        assert abs(mine[key][3] - values[3]) <= values[2]


@pytest.mark.parametrize("name", KINETO)
def test_calls_and_copies_of_a_kineto_file(name, data):
    events = kineto(data / "traces" / name)
    calls: dict[Any, list[int]] = defaultdict(list)
    copies: dict[Any, list[tuple[int, int]]] = defaultdict(list)
    for event in events:
        if event["cat"] in CALLS:
            calls[event["name"], CALLS[event["cat"]]].append(event["dur_ns"])
        elif event["cat"] in ("gpu_memcpy", "gpu_memset", "memcpy", "memset"):
            way = re.search(r"(\w)to(\w)", event["name"])
            kind = "memset" if "set" in event["cat"] else "memcpy"
            size = event["args"].get("bytes") or 0
            place = next((one for one in ("pageable", "pinned") if one in event["name"].lower()), None)
            device = f"GPU {event['args'].get('device', event['pid'])}"
            copies[kind, f"{way[1]}2{way[2]}" if way else None, place, device].append((event["dur_ns"], int(size)))
    made = summed(rows_of("calls", data / "traces" / name), "name", "kind", "count", "total_ns")
    assert made == rounded({key: (len(durs), sum(durs)) for key, durs in calls.items()})
    wanted = {key: (len(some), sum(dur for dur, _ in some), sum(size for _, size in some))
              for key, some in copies.items()}
    if wanted:
        made = summed(rows_of("copies", data / "traces" / name), "kind", "direction", "memory", "device", "count",
                      "total_ns", "bytes")
        assert made == rounded(wanted)


_opened: list[sqlite3.Connection] = []


@pytest.fixture(autouse=True)
def databases_are_closed() -> Iterator[None]:
    yield
    while _opened:
        _opened.pop().close()


def database(path: Path) -> sqlite3.Connection:
    _opened.append(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True))
    return _opened[-1]


def tables(connection: sqlite3.Connection) -> set[str]:
    return {name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")}


@pytest.mark.parametrize("name", NSYS)
def test_calls_of_an_nsys_export(name, data):
    connection = database(data / "traces" / name)
    want: Sums = {}
    for table in {"CUPTI_ACTIVITY_KIND_RUNTIME", "OSRT_API"} & tables(connection):
        query = f"select value, count(*), sum(end - start) from {table} join StringIds on id = nameId group by 1"
        for label, count, total in connection.execute(query):
            key = re.sub(r"_v\d{4,5}$", "", label)
            before = want.get((key,), (0, 0))
            want[(key,)] = (before[0] + count, before[1] + total)
    assert want
    got: Sums = {}
    for row in rows_of("calls", data / "traces" / name):
        before = got.get((row["name"],), (0, 0))
        got[(row["name"],)] = (before[0] + row["count"], before[1] + row["total_ns"])
    assert got == want


@pytest.mark.parametrize("name", NSYS)
def test_copies_of_an_nsys_export(name, data):
    connection = database(data / "traces" / name)
    ways, places = {1: "H2D", 2: "D2H", 8: "D2D", 10: "P2P"}, {0: "pageable", 1: "pinned"}
    want: dict[Any, list[int]] = defaultdict(lambda: [0, 0, 0])
    columns = "copyKind, srcKind, dstKind, count(*), sum(end - start), sum(bytes)"
    query = f"select {columns} from CUPTI_ACTIVITY_KIND_MEMCPY group by 1, 2, 3"
    for way, source, target, *sums in connection.execute(query):
        key = "memcpy", ways[way], places.get(source, places.get(target))
        want[key] = [a + b for a, b in zip(want[key], sums, strict=True)]
    if "CUPTI_ACTIVITY_KIND_MEMSET" in tables(connection):
        query = "select count(*), sum(end - start), sum(bytes) from CUPTI_ACTIVITY_KIND_MEMSET"
        want["memset", None, None] = list(connection.execute(query).fetchone())
    got: dict[Any, list[int]] = defaultdict(lambda: [0, 0, 0])
    for row in rows_of("copies", data / "traces" / name):
        key = row["kind"], row["direction"], row["memory"]
        got[key] = [a + row[one] for a, one in zip(got[key], ("count", "total_ns", "bytes"), strict=True)]
    assert got == want


def test_ranges_of_an_nsys_export(data):
    """The one of the three whose NVTX ranges are not PyTorch's operators."""
    connection = database(data / "traces" / NSYS[2])
    launches = defaultdict(list)
    for start, tid, correlation in connection.execute(
            "select start, globalTid, correlationId from CUPTI_ACTIVITY_KIND_RUNTIME order by start"):
        launches[tid].append((start, correlation))
    ran = defaultdict(list)
    for table in ("KERNEL", "MEMCPY"):
        for correlation, dur in connection.execute(
                f"select correlationId, end - start from CUPTI_ACTIVITY_KIND_{table}"):
            ran[correlation].append(dur)
    want = defaultdict(lambda: [0, 0, 0, 0])
    query = """select coalesce(text, value), start, end, globalTid from NVTX_EVENTS left join StringIds on id = textId
               where eventType = 59"""
    for label, start, end, tid in connection.execute(query):
        mine = [dur for at, correlation in launches[tid] if start <= at < end for dur in ran[correlation]]
        want[(label,)] = [a + b for a, b in zip(want[(label,)], (1, end - start, len(mine), sum(mine)), strict=True)]
    assert len(want) == 222
    got = summed(rows_of("ranges", data / "traces" / NSYS[2]), "name", "count", "total_ns", "launches", "device_ns")
    assert got == {key: tuple(values) for key, values in want.items()}


def test_an_rpd_database(data, tmp_path):
    plain = tmp_path / "plain.rpd"
    plain.write_bytes(gzip.decompress((data / "traces" / RPD).read_bytes()))
    connection = database(plain)
    query = """select string, count(*), sum(end - start) from rocpd_api join rocpd_string s on s.id = apiName_id
               where string like 'hip%' group by string"""
    calls = {(label,): (count, total) for label, count, total in connection.execute(query)}
    assert summed(rows_of("calls", plain), "name", "count", "total_ns") == calls
    query = """select string, count(*), sum(o.end - o.start), sum(c.size) from rocpd_op o
               join rocpd_string s on s.id = o.opType_id left join rocpd_api_ops t on t.op_id = o.id
               left join rocpd_copyapi c on c.api_ptr_id = t.api_id where string like 'Copy%' group by string"""
    ways = {"CopyDeviceToDevice": "D2D", "CopyHostToDevice": "H2D", "CopyDeviceToHost": "D2H"}
    copies = {(ways[label],): tuple(sums) for label, *sums in connection.execute(query)}
    assert summed(rows_of("copies", plain), "direction", "count", "total_ns", "bytes") == copies
    ranges = defaultdict(lambda: [0, 0])
    query = """select a.string, b.string, end - start from rocpd_api join rocpd_string a on a.id = apiName_id
               join rocpd_string b on b.id = args_id"""
    for api, said, dur in connection.execute(query):
        if api == "UserMarker" and "::" not in said and said:
            ranges[(said,)] = [ranges[(said,)][0] + 1, ranges[(said,)][1] + dur]
    got = summed(rows_of("ranges", plain), "name", "count", "total_ns")
    assert {key: got[key] for key in got if key in ranges} == {key: tuple(ranges[key]) for key in got if key in ranges}
    assert {"execute_model", "_run_engine"} <= {key[0] for key in got if key in ranges}
