"""Kineto JSON: what each dialect becomes, and that no event is lost or changed."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from warplens.loaders import schema
from warplens.loaders.errors import Unreadable
from warplens.loaders.ingest.stream import head
from warplens.loaders.kineto import LOADER, info, spool
from warplens.loaders.kineto.plain import Plain
from warplens.loaders.kineto.recovery import arguments
from warplens.loaders.loader import Job
from warplens.loaders.trace import Trace


def load(folder: Path, document: Any, name: str = "t.json") -> Trace:
    raw = document if isinstance(document, bytes) else json.dumps(document).encode()
    (folder / name).write_bytes(raw)
    workspace = folder / "workspace"
    workspace.mkdir(exist_ok=True)
    (trace,) = LOADER.load(Job(folder / name, workspace))
    return trace


def rows(frame: pl.LazyFrame, *columns: str) -> list[tuple[Any, ...]]:
    return frame.select(columns).collect().rows()


def kernel(name: str = "gemm", ts: Any = 10, dur: Any = 2, **more: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": ts, "dur": dur, **more}


def test_a_kernel_keeps_all_that_was_recorded(tmp_path: Path) -> None:
    args = {
        "device": 3, "stream": 20, "correlation": 71, "External id": 9, "grid": [4, 1, 1], "block": [128, 2, 1],
        "registers per thread": 32, "shared memory": 1024, "est. achieved occupancy %": 25, "blocks per SM": 0.5,
        "graph node id": (6 << 32) + 2,
    }  # fmt: skip
    trace = load(tmp_path, {"traceEvents": [kernel(args=args)]})
    assert rows(
        trace.kernels, "name", "kind", "device", "stream", "correlation", "op_id", "grid", "block", "registers",
        "shared_bytes", "occupancy", "blocks_per_sm", "graph",
    ) == [("gemm", "kernel", "GPU 3", 20, 71, 9, "4,1,1", "128,2,1", 32, 1024, 0.25, 0.5, 6)]  # fmt: skip


def test_a_grid_is_the_same_however_it_is_spaced(tmp_path: Path) -> None:
    grids = "[4,1,1]", "[4, 1, 1]", "[ 4,\t1,\r\n  1 ]"
    spaced = [json.dumps(kernel(ts=at, args={"grid": [4, 1, 1]})).replace("[4, 1, 1]", grid)
              for at, grid in enumerate(grids, 1)]
    assert rows(load(tmp_path, f"[{','.join(spaced)}]".encode()).kernels, "grid") == [("4,1,1",)] * 3


@pytest.mark.parametrize("ranks", ["[0, 1, 2]", [0, 1, 2]])
def test_a_collective_keeps_its_group_its_number_and_its_size(tmp_path: Path, ranks: Any) -> None:
    args = {
        "Collective name": "_allgather_base", "In msg nelems": 16, "Out msg nelems": 48, "Group size": 3,
        "dtype": "BFloat16", "Process Group Name": "tp", "Process Group Ranks": ranks, "Seq": 41,
    }  # fmt: skip
    trace = load(tmp_path, {"traceEvents": [kernel("ncclDevKernel_AllGather", args=args), kernel(ts=20)]})
    assert rows(
        trace.kernels, "kind", "collective", "process_group", "group_ranks", "group_size", "dtype", "in_elements",
        "out_elements", "seq",
    ) == [
        ("collective", "_allgather_base", "tp", "0,1,2", 3, "BFloat16", 16, 48, 41), ("kernel", *[None] * 8),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("ts", "dur", "expected"),
    [
        ("1712195495519689.047", "0.001", (0, 1)),
        ("1712195495519689.047", "12.77012757357446", (0, 12770)),
        ("1712195495519689.047", "0.0005", (0, 1)),
        ('"1712195495519689.047"', "5", (0, 5000)),
        ("1.5e3", "1e0", (0, 1000)),
        ("7", "null", (0, None)),
    ],
)
def test_nanoseconds_come_from_the_digits(tmp_path: Path, ts: str, dur: str, expected: tuple[int, int]) -> None:
    text = f'[{{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":{ts},"dur":{dur}}}]'
    trace = load(tmp_path, text.encode())
    assert rows(trace.kernels, "start_ns", "dur_ns") == [expected]


def test_a_large_absolute_time_is_exact(tmp_path: Path) -> None:
    trace = load(tmp_path, b'[{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1712195495519689.047,"dur":1}]')
    assert trace.info.epoch_ns == 1712195495519689047


@pytest.mark.parametrize(
    ("category", "table", "kind"),
    [
        ("Kernel", "kernels", "kernel"), ("Memcpy", "kernels", "memcpy"), ("gpu_memset", "kernels", "memset"),
        ("cuda_sync", "kernels", "sync"), ("Operator", "host", "op"), ("cpu_op", "host", "op"),
        ("Runtime", "host", "runtime"), ("cuda_driver", "host", "driver"), ("python_function", "host", "python"),
        ("user_annotation", "host", "annotation"), ("overhead", "host", "overhead"),
    ],
)  # fmt: skip
def test_categories_of_every_year(tmp_path: Path, category: str, table: str, kind: str) -> None:
    trace = load(tmp_path, [kernel("x", cat=category)])
    assert rows(trace.table(table), "name", "kind") == [("x", kind)]


def test_what_repeats_other_events_is_left_out(tmp_path: Path) -> None:
    trace = load(tmp_path, [kernel(), kernel("step", cat="gpu_user_annotation"), kernel("span", cat="Trace")])
    assert rows(trace.kernels, "name") == [("gemm",)]
    assert rows(trace.host, "name") == []


def test_names_tell_collectives_and_data_loading(tmp_path: Path) -> None:
    events = [kernel("ncclDevKernel_AllReduce"), kernel("enumerate(DataLoader)#_Single.__next__", cat="cpu_op")]
    trace = load(tmp_path, events)
    assert rows(trace.kernels, "kind") == [("collective",)]
    assert rows(trace.host, "kind") == [("dataloader",)]


def test_threads_and_streams_recorded_as_text(tmp_path: Path) -> None:
    events = [kernel(tid="stream 7"), kernel("op", cat="Operator", pid="12", tid="25738")]
    trace = load(tmp_path, events)
    assert rows(trace.kernels, "stream", "device") == [(7, "GPU 0")]
    assert rows(trace.host, "pid", "tid") == [(12, 25738)]


def test_recorded_steps_are_cycles(tmp_path: Path) -> None:
    steps = [kernel(f"ProfilerStep#{n}", ts=100 * n, dur=90, cat="user_annotation") for n in (3, 4)]
    trace = load(tmp_path, {"traceEvents": [*steps, kernel(ts=310)], "distributedInfo": {"rank": 5}})
    assert rows(trace.cycles, "cycle", "start_ns", "dur_ns", "label", "rank", "source") == [
        (3, 0, 90_000, "ProfilerStep#3", 5, "recorded"),
        (4, 100_000, 90_000, "ProfilerStep#4", 5, "recorded"),
    ]
    assert trace.info.ranks == (5,)
    assert rows(trace.kernels, "rank") == [(5,)]


def test_counters_and_memory_are_metrics(tmp_path: Path) -> None:
    memory = {"Device Type": 1, "Device Id": 2, "Total Allocated": 512, "Total Reserved": 1024, "Bytes": 8}
    events = [
        {"ph": "C", "name": "GPU 7 gpu_sm_frequency", "pid": 1, "ts": 1, "args": {"gpu_sm_frequency": 1187.5}},
        {"ph": "C", "name": "util", "pid": 3, "ts": 2, "args": {"value": 4}},
        {"ph": "M", "name": "process_labels", "pid": 3, "args": {"labels": "GPU 3"}},
        {"ph": "i", "name": "[memory]", "pid": 9, "ts": 3, "args": memory},
    ]
    trace = load(tmp_path, events)
    assert rows(trace.metrics.sort("ts_ns", maintain_order=True), "ts_ns", "metric", "device", "value", "unit") == [
        (0, "gpu_sm_frequency", "GPU 7", 1187.5, "MHz"),
        (1000, "util", "GPU 3", 4.0, ""),
        (2000, "memory allocated", "GPU 2", 512.0, "B"),
        (2000, "memory reserved", "GPU 2", 1024.0, "B"),
    ]


def test_metadata_may_come_before_or_after_the_events(tmp_path: Path) -> None:
    properties = {"deviceProperties": [{"id": 0, "name": "H100", "numSms": 132}], "distributedInfo": {"rank": 1}}
    before = load(tmp_path, {**properties, "traceEvents": [kernel()]})
    after = load(tmp_path, {"traceEvents": [kernel()], **properties})
    assert before.info.devices == after.info.devices
    assert after.info.devices[0].name == "H100"
    assert before.info.ranks == after.info.ranks == (1,)


def test_a_traceevents_inside_other_values_misleads_nobody(tmp_path: Path) -> None:
    text = {"note": '"traceEvents": [{', "inner": {"traceEvents": [kernel("no")]}, "traceEvents": [kernel("yes")]}
    assert rows(load(tmp_path, text).kernels, "name") == [("yes",)]


def test_begin_and_end_pairs_are_slices(tmp_path: Path) -> None:
    lane = {"pid": 1, "tid": 1}
    events = [{"ph": "B", "name": "f", "ts": 5, **lane}, {"ph": "E", "ts": 7.25, **lane}]
    assert rows(load(tmp_path, events).host, "name", "dur_ns") == [("f", 2250)]


@pytest.mark.parametrize("bare", ["inf", "-inf", "nan", "Infinity", "NaN"])
def test_bare_infinities_are_repaired_and_counted(tmp_path: Path, bare: str) -> None:
    text = json.dumps([kernel(), kernel("copy", cat="gpu_memcpy", args={"bytes": 8, "speed": "#"})])
    trace = load(tmp_path, text.replace('"#"', bare).encode())
    assert rows(trace.kernels, "name", "bytes") == [("gemm", None), ("copy", 8)]
    assert "repaired 1 event" in trace.info.warnings[0]


def test_a_file_cut_in_the_middle_opens_with_what_it_has(tmp_path: Path) -> None:
    whole = json.dumps({"traceEvents": [kernel(f"k{n}") for n in range(50)]}).encode()
    trace = load(tmp_path, whole[:2000])
    (warning,) = trace.info.warnings
    assert warning.startswith("truncated") and trace.info.coverage is not None
    names = [name for (name,) in rows(trace.kernels, "name")]
    assert names == [f"k{n}" for n in range(len(names))] and len(names) == whole[:2000].count(b"}, {")


def test_a_corrupt_stretch_is_skipped_and_counted(tmp_path: Path) -> None:
    parts = [json.dumps(kernel(f"k{n}")) for n in range(9)]
    parts[4] = parts[4][:20] + "\0\0garbage\"" + parts[4][30:]
    trace = load(tmp_path, f'{{"traceEvents": [{", ".join(parts)}]}}'.encode())
    assert [name for (name,) in rows(trace.kernels, "name")] == ["k0", "k1", "k2", "k3", "k5", "k6", "k7", "k8"]
    assert "skipped 1 corrupt stretch" in trace.info.warnings[0]


def test_a_document_without_events_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="no list of trace events"):
        load(tmp_path, {"schemaVersion": 1})


def test_the_sniffer_knows_traces_from_other_json() -> None:
    assert LOADER.sniff(b'{"schemaVersion": 1, "deviceProperties": [')
    assert LOADER.sniff(b'[{"ph": "X", "pid": 3')
    assert not LOADER.sniff(b'{"a": 1}')
    assert not LOADER.sniff(b'[[1, "create", [0, 1]], [2')
    assert not LOADER.sniff(b'{"schema": "1.0.2-chakra.0.0.4", "pid": 1, "nodes": [')


def test_every_recording_has_the_kernels_of_a_plain_reading(data: Path, tmp_path: Path) -> None:
    checked = 0
    for path in sorted((data / "traces/kineto").rglob("*.json*")):
        if path.stat().st_size > 600_000:
            continue
        if not LOADER.sniff(head(path)):
            continue
        raw = path.read_bytes()
        document = json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw, parse_float=Decimal)
        count: Counter[str] = Counter()
        total: Counter[str] = Counter()
        for event in document["traceEvents"]:
            if event.get("cat") in ("kernel", "Kernel") and event.get("ph") == "X":
                count[event["name"]] += 1
                total[event["name"]] += round(Decimal(event["dur"]) * 1000)
        (trace,) = LOADER.load(Job(path, tmp_path))
        launched = trace.kernels.filter(pl.col("kind").is_in(["kernel", "collective"])).group_by("name")
        got = launched.agg(pl.len(), pl.col("dur_ns").sum()).collect().rows()
        assert {name: n for name, n, _ in got} == dict(count), path.name
        assert {name: ns for name, _, ns in got} == dict(total), path.name
        checked += 1
    assert checked > 15


@pytest.mark.parametrize("packed", [False, True])
def test_all_arguments_of_an_event_are_read_again_from_the_file(tmp_path: Path, packed: bool) -> None:
    args = {"Input Dims": [[1, 2], []], "Call stack": "x" * 200_000, "ratio": 0.5, "stream": 3}
    text = json.dumps({"traceEvents": [kernel("a"), kernel("b", args=args), kernel("c")]}).encode()
    name = "t.json.gz" if packed else "t.json"
    trace = load(tmp_path, gzip.compress(text) if packed else text, name)
    offsets = [offset for (offset,) in rows(trace.kernels, "offset")]
    assert [arguments(tmp_path / name, offset) for offset in offsets] == [{}, args, {}]
    with pytest.raises(ValueError, match="no event begins"):
        arguments(tmp_path / name, offsets[1] + 1)


def test_negative_durations_are_not_recorded_and_counted(tmp_path: Path) -> None:
    trace = load(tmp_path, [kernel(dur=-3), kernel(dur=4)])
    assert rows(trace.kernels, "dur_ns") == [(None,), (4000,)]
    assert trace.info.warnings == ("1 value of traceEvents (dur) could not be read: ends before it starts",)


def test_a_step_of_negative_duration_is_no_cycle(tmp_path: Path) -> None:
    steps = [kernel(f"ProfilerStep#{n}", ts=100 * n, dur=dur, cat="user_annotation") for n, dur in ((1, -2), (2, 90))]
    trace = load(tmp_path, steps)
    assert rows(trace.cycles, "cycle", "dur_ns") == [(2, 90_000)]
    assert rows(trace.host, "dur_ns") == [(None,), (90_000,)]
    assert trace.info.warnings == ("1 value of traceEvents (dur) could not be read: ends before it starts",)


def test_the_first_rows_of_a_big_file_come_early(tmp_path: Path) -> None:
    text = json.dumps({"traceEvents": [kernel(f"k{n % 9}", ts=n, args={"x": "y" * 400}) for n in range(40_000)]})
    (tmp_path / "t.json").write_text(text)
    seen: list[Trace] = []
    (trace,) = LOADER.load(Job(tmp_path / "t.json", tmp_path, first_rows=seen.append, compiled=False))
    (first,) = seen
    few = first.kernels.collect()
    assert 0 < few.height < 40_000
    assert few.equals(trace.kernels.collect().head(few.height))


@pytest.mark.parametrize("spill", [1, pytest.param(4000, marks=pytest.mark.deep), 1 << 30])
@pytest.mark.parametrize("step", [1, -1], ids=["forwards", "backwards"])
@pytest.mark.parametrize("rank", [None, 3])
@pytest.mark.parametrize("header", [True, False], ids=["rank first", "rank last"])
def test_tables_are_the_same_in_memory_in_one_file_and_in_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spill: int, step: int, rank: int | None, header: bool
) -> None:
    events = [
        {"ph": "X", "cat": "kernel", "name": f"k{n % 5}", "pid": n % 2, "tid": 7, "ts": 5000 + step * n, "dur": 1,
         "args": {"stream": 7, "device": n % 2, "correlation": n, "rank": 1 if n == 9 else None}}
        for n in range(300)
    ]  # fmt: skip
    launch = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 77, "tid": 1, "ts": 5000, "dur": 1}
    about = {} if rank is None else {"distributedInfo": {"rank": rank}}
    listed = {"traceEvents": [launch, *events] if header else [*events, launch]}
    text = json.dumps({**about, **listed} if header else {**listed, **about})
    (tmp_path / "t.json").write_text(text)
    for bound in ("SPILL_BYTES", "HELD_BYTES"):
        monkeypatch.setattr(spool, bound, spill)
    monkeypatch.setattr("warplens.loaders.kineto.load.Plain", partial(Plain, block=3000))
    monkeypatch.setattr("warplens.loaders.kineto.load.HEADER_BYTES", 300)
    found = []
    for lasting in (True, False):
        place = tmp_path / str(lasting)
        place.mkdir()
        (trace,) = LOADER.load(Job(tmp_path / "t.json", place, lasting=lasting))
        if lasting:
            written = sorted(place.glob("kernels*.arrow"))
            assert (len(written) > 1) == (spill < 1 << 30 and step == 1 and header), "written once"
            numbers = pl.concat([pl.read_ipc(file, columns=["index"]) for file in written])
            assert numbers["index"].to_list() == list(range(300))
        found.append(trace.kernels.collect())
    assert found[0].equals(found[1]) and found[0]["start_ns"].min() == 0
    assert found[0]["correlation"].to_list() == found[0]["index"].to_list() == list(range(300))
    assert found[0]["start_ns"].to_list() == [1000 * (n if step == 1 else 299 - n) for n in range(300)]
    assert found[0]["rank"].to_list() == [1 if n == 9 else rank for n in range(300)]
    assert found[0]["pid"].to_list() == [77] * 300


@pytest.mark.parametrize("table", ["kernels", "host"])
@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
@pytest.mark.parametrize("rank", [None, 3])
def test_columns_asked_for_one_by_one_are_those_of_the_table(
    tmp_path: Path, table: str, engine: Any, rank: int | None
) -> None:
    kernels = [kernel(f"k{n % 3}", ts=9 * n, args={"rank": n % 2 or None, "correlation": n}) for n in range(40)]
    calls = [{**kernel("cudaLaunchKernel", ts=9 * n, pid=70 + n % 2), "cat": "cuda_runtime"} for n in range(40)]
    about = {} if rank is None else {"distributedInfo": {"rank": rank}}
    (tmp_path / "t.json").write_text(json.dumps({**about, "traceEvents": [*kernels, *calls]}))

    def held() -> pl.LazyFrame:
        (trace,) = LOADER.load(Job(tmp_path / "t.json", tmp_path, lasting=False))
        return trace.table(table)

    whole = held().collect(engine=engine)
    assert whole.height == 40 and whole.schema == schema.polars_schema(table)
    for column in whole.columns:
        assert held().select(column).collect(engine=engine).equals(whole.select(column))
    asked, odd = held(), pl.col("offset") % 2 == 1
    assert asked.filter(odd).select("name").collect(engine=engine).equals(whole.filter(odd).select("name"))
    assert asked.slice(3, 5).collect(engine=engine).equals(whole.slice(3, 5))
    assert asked.filter(odd).head(4).collect(engine=engine).equals(whole.filter(odd).head(4))
    few = asked.head(9).filter(odd).select("pid").collect(engine=engine)
    assert few.equals(whole.head(9).filter(odd).select("pid"))
    assert asked.select(pl.len()).collect(engine=engine).item() == 40


@pytest.mark.parametrize("spill", [1, 1 << 30])
def test_values_that_fit_no_column_are_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spill: int) -> None:
    monkeypatch.setattr(spool, "SPILL_BYTES", spill)
    wide = [4294967295, -2147483649, -(2**31), 2**31 - 1, 2**63, 255, None]
    args = [{"registers per thread": value, "stream": value} for value in wide]
    trace = load(tmp_path, [kernel(ts=at, args=one) for at, one in enumerate(args, 1)])
    fits = [None, None, -(2**31), 2**31 - 1, None, 255, None]
    assert [row[0] for row in rows(trace.kernels, "registers")] == fits
    assert [row[0] for row in rows(trace.kernels, "stream")] == [*wide[:4], 7, 255, 7]


@pytest.mark.parametrize("more", [{"pid": "host"}, {"args": {"device": -2}}, {"pid": None}])
def test_kernels_that_name_no_device_have_none(tmp_path: Path, more: dict[str, Any]) -> None:
    trace = load(tmp_path, [kernel(**more)])
    assert rows(trace.kernels, "device") == [(None,)] and trace.info.devices == ()


def test_a_device_has_one_name_however_late_it_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "SPILL_BYTES", 1)
    monkeypatch.setattr("warplens.loaders.kineto.load.Plain", partial(Plain, block=500))
    slices = [kernel(ts=n, args={"device": 0}) for n in range(40)]
    ascend = {"ph": "M", "name": "process_name", "pid": 5, "args": {"name": "Ascend Hardware"}}
    trace = load(tmp_path, [*slices, ascend])
    assert set(rows(trace.kernels, "device")) == {("NPU 0",)}
    assert [device.id for device in trace.info.devices] == ["NPU 0"]


def test_times_that_are_too_far_apart_do_not_end_the_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    far = [*(kernel(ts=3_900_000_000_000_000, dur=1 + at) for at in range(30)), kernel(ts=-3_900_000_000_000_000)]
    far.append(kernel(ts=9_200_000_000_000_000))  # later than any clock: no time
    found = []
    for spill in (1, 1 << 30):
        monkeypatch.setattr(spool, "SPILL_BYTES", spill)
        monkeypatch.setattr("warplens.loaders.kineto.load.Plain", partial(Plain, block=500))
        found.append(rows(load(tmp_path, far, f"{spill}.json").kernels, "start_ns", "dur_ns", "index"))
    assert found[0] == found[1] and len(found[0]) == 32 and found[0][-1] == (None, None, 31)


@pytest.mark.parametrize(("slices", "told"), [(1, False), (3, True)])
def test_an_export_of_xla_at_its_limit_says_that_the_rest_may_be_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slices: int, told: bool
) -> None:
    monkeypatch.setattr(info, "XLA_MOST_EVENTS", 4)
    events = [{"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/device:GPU:0"}},
              {"ph": "M", "pid": 1, "tid": 2, "name": "thread_name", "args": {"name": "Stream #7"}}]  # fmt: skip
    events += [{"ph": "X", "pid": 1, "tid": 2, "ts": 10 * at, "dur": 5, "name": "k"} for at in range(slices)]
    trace = load(tmp_path, {"traceEvents": events})
    assert any("xplane.pb, which has all" in said for said in trace.info.warnings) == told


def test_a_time_whose_exponent_hides_its_last_digits_is_none(tmp_path: Path) -> None:
    text = json.dumps([kernel("a", 1), kernel("b", 2), kernel("c", 3)])
    for short, long in ((1, "1.62068E+14"), (2, "1.620680000000125E+14"), (3, "1.62068000000016E14")):
        text = text.replace(f'"ts": {short},', f'"ts": {long},')
    trace = load(tmp_path, text.encode())
    assert sorted(rows(trace.kernels.with_columns(pl.col("name").cast(pl.String)), "name", "start_ns")) == [
        ("a", None), ("b", 0), ("c", 3_500)]
    assert "1 value of traceEvents (ts) could not be read: rounded by a spreadsheet: the last digits are gone" in (
        trace.info.warnings)
