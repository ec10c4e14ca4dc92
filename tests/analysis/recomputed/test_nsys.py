"""Figures of Nsight Systems recordings, worked out from the tables of the export by SQL and plain loops."""

from __future__ import annotations

import bisect
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.analysis.recomputed.asked import view_of
from warplens.loaders.ingest.opening import open_run

POWER, TWO_GPUS = "power_iteration__baseline.sqlite", "nsys-ai/mfu_2gpu_before.sqlite"


@pytest.fixture(params=[POWER, TWO_GPUS], ids=["one GPU", "two GPUs"])
def export(request: pytest.FixtureRequest, data: Path) -> Path:
    return data / "traces" / "nsys_sqlite" / str(request.param)


@pytest.fixture
def database(export: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(f"file:{export}?mode=ro&immutable=1", uri=True)) as opened:
        yield opened


def launched(database: sqlite3.Connection) -> dict[int, list[tuple[int, int, int]]]:
    """Per thread the start of each launch call with the start and end of what it launched, in order."""
    made: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for table in ("KERNEL", "MEMCPY", "MEMSET"):
        if database.execute("select 1 from sqlite_master where name = ?", (f"CUPTI_ACTIVITY_KIND_{table}",)).fetchone():
            for thread, *times in database.execute(
                f"select r.globalTid, min(r.start), a.start, a.end from CUPTI_ACTIVITY_KIND_{table} a "
                "join CUPTI_ACTIVITY_KIND_RUNTIME r on r.correlationId = a.correlationId "
                "and r.globalTid >> 24 = a.globalPid >> 24 group by a.rowid"
            ):
                made[thread].append(tuple(times))
    return {thread: sorted(calls) for thread, calls in made.items()}


def test_projected_time_of_ranges_is_what_nsys_calls_so(export: Path, database: sqlite3.Connection) -> None:
    calls, sums = launched(database), defaultdict[str, list[int]](lambda: [0, 0, 0])
    for name, start, end, thread in database.execute(
        "select coalesce(n.text, s.value), start, end, globalTid from NVTX_EVENTS n left join StringIds s "
        "on s.id = n.textId where end is not null and eventType in (59, 60, 70, 71)"
    ):
        mine = calls.get(thread, [])
        inside = mine[bisect.bisect_left(mine, (start,)) : bisect.bisect_left(mine, (end,))]
        sums[name][0] += 1
        sums[name][1] += len(inside)
        sums[name][2] += max((one[2] for one in inside), default=0) - min((one[1] for one in inside), default=0)
    rows = [row for row in view_of(export, "ranges").rows if row["name"] in sums]
    assert len(rows) >= 5
    assert [(row["count"], row["launches"], row["projected_ns"]) for row in rows] == [
        tuple(sums[row["name"]]) for row in rows]


def test_calls_that_wait_are_those_whose_copy_was_over_or_that_synchronise(
    export: Path, database: sqlite3.Connection
) -> None:
    waited: dict[str, int] = defaultdict(int)
    for name, start, end, over in database.execute(
        "select s.value, r.start, r.end, exists (select 1 from CUPTI_ACTIVITY_KIND_MEMCPY m where "
        "m.correlationId = r.correlationId and m.globalPid >> 24 = r.globalTid >> 24 and m.end <= r.end "
        "and 0 in (m.srcKind, m.dstKind)) from CUPTI_ACTIVITY_KIND_RUNTIME r join StringIds s on s.id = r.nameId"
    ):
        plain = name.rsplit("_v", 1)[0]
        waits = ("Synchronize" in plain or "Query" in plain) or (over and "Memcpy" in plain)
        waited[plain] += (end - start) * bool(waits)
    rows = {row["name"]: row["sync_ns"] for row in view_of(export, "calls").rows if row["kind"] == "runtime"}
    assert rows == {name: waited[name] for name in rows}
    assert rows["cudaStreamSynchronize"] > 0


def test_the_finding_about_blocking_copies_has_their_number_and_time(data: Path) -> None:
    export = data / "traces" / "nsys_sqlite" / POWER
    found: dict[str, Any] = {one["rule"]: one for one in view_of(export, "triage").facts["rules"]}
    steps = view_of(export, "overview").facts["in_steps"]
    with closing(sqlite3.connect(f"file:{export}?mode=ro&immutable=1", uri=True)) as database:
        zero = min(database.execute(f"select min(start) from {table}").fetchone()[0] for table in (
            "CUPTI_ACTIVITY_KIND_RUNTIME", "OSRT_API", "SCHED_EVENTS where isSchedIn"))
        count, host_ns, bytes_ = database.execute(
            "select count(*), sum(r.end - r.start), sum(m.bytes) from CUPTI_ACTIVITY_KIND_MEMCPY m "
            "join CUPTI_ACTIVITY_KIND_RUNTIME r on r.correlationId = m.correlationId where m.end <= r.end "
            "and m.start between ? and ?", (zero + steps["from_ns"], zero + steps["to_ns"])).fetchone()
    (row,) = found["blocking copies"]["rows"]
    assert (row["count"], row["host_ns"], row["bytes"]) == (count, host_ns, bytes_)
    assert f"({count} pageable copies, " in found["blocking copies"]["sentence"]


def idle_gaps(export: Path) -> list[tuple[int, int]]:
    """The gaps of the only GPU on the export's own clock, from the union of what ran there."""
    with closing(sqlite3.connect(f"file:{export}?mode=ro&immutable=1", uri=True)) as database:
        ran = sorted(database.execute("select start, end from CUPTI_ACTIVITY_KIND_KERNEL union all "
                                      "select start, end from CUPTI_ACTIVITY_KIND_MEMCPY").fetchall())
    gaps, over = [], ran[0][1]
    for start, end in ran:
        if start > over:
            gaps.append((over, start))
        over = max(over, end)
    return gaps


def test_processor_samples_while_the_device_was_idle(data: Path) -> None:
    export = data / "traces" / "nsys_sqlite" / POWER
    counted: dict[str, int] = defaultdict(int)
    with closing(sqlite3.connect(f"file:{export}?mode=ro&immutable=1", uri=True)) as database:
        gaps = idle_gaps(export)
        for at, function, module, unresolved in database.execute(
            "select e.start, s.value, m.value, unresolved from COMPOSITE_EVENTS e join SAMPLING_CALLCHAINS c on "
            "c.id = e.id and stackDepth = 0 join StringIds s on s.id = symbol join StringIds m on m.id = module"
        ):
            place = bisect.bisect_right(gaps, (at, 1 << 62)) - 1
            if place >= 0 and at < gaps[place][1]:
                counted[f"[{Path(module).name.strip('[]')}]" if unresolved else function] += 1
    (device,) = view_of(export, "idle").facts["host_samples"]
    assert device["samples"] == sum(counted.values()) > 300
    assert len(device["functions"]) == 20
    assert device["functions"] == {name: counted[name] for name in device["functions"]}


def test_functions_and_their_tree_are_those_of_all_processor_samples(data: Path) -> None:
    export = data / "traces" / "nsys_sqlite" / POWER
    with closing(sqlite3.connect(f"file:{export}?mode=ro&immutable=1", uri=True)) as database:
        recorded = database.execute(
            "select e.id, globalTid & 0xffffff, s.value, m.value, unresolved from COMPOSITE_EVENTS e join "
            "SAMPLING_CALLCHAINS c on c.id = e.id join StringIds s on s.id = symbol join StringIds m on m.id = module "
            "order by e.id, stackDepth").fetchall()
    stacks: dict[int, list[Any]] = {}
    for sample, thread, function, module, unresolved in recorded:
        of = Path(module).name.strip("[]")
        frame = (f"[{of}]" if unresolved else function, of)
        stack = stacks.setdefault(sample, [thread])
        if not (unresolved and stack[-1] == frame):
            stack.append(frame)
    own, walked_own, total = (Counter[tuple[str, str]]() for _ in range(3))
    nodes = defaultdict[tuple[Any, ...], list[int]](lambda: [0, 0])
    for thread, *frames in stacks.values():
        own[frames[0]] += 1
        if len(frames) > 1:
            walked_own[frames[0]] += 1
            total.update(set(frames))
            for length in range(len(frames) + 1):
                node = nodes[thread, *frames[::-1][:length]]
                node[0] += 1
                node[1] += length == len(frames)
    listed = view_of(export, "stacks")
    assert {(row["name"], row["module"]): (row["self_samples"], row["samples"]) for row in listed.rows} == {
        frame: (own[frame], total[frame]) for frame in {*own, *total}}
    walked = sum(len(stack) > 2 for stack in stacks.values())
    assert (listed.facts["samples"], listed.facts["with_callers"]) == (len(stacks), walked) == (893, 223)
    assert listed.facts["without_symbols"] == sum(many for (name, _), many in own.items() if name.startswith("["))
    assert [one for row in listed.rows for one in (row["self_share"], row["share"])] == pytest.approx(
        [of[row["name"], row["module"]] / 223 for row in listed.rows for of in (walked_own, total)])
    rows = view_of(export, "stacks", "--tree").rows
    assert [row["samples"] for row in rows if row["kind"] == "thread"] == [
        one[0] for one in sorted((one for key, one in nodes.items() if len(key) == 1), reverse=True)]
    around: list[Any] = []
    for row in rows:
        around[row["depth"]:] = [(row["name"], row["module"]) if row["kind"] == "function" else int(row["thread"])]
        assert [row["samples"], row["self_samples"]] == nodes.pop(tuple(around))
    assert not nodes


def test_calls_of_the_system_have_the_chains_that_were_recorded_with_them(data: Path) -> None:
    export = data / "traces" / "nsys_sqlite" / POWER
    with closing(sqlite3.connect(f"file:{export}?mode=ro&immutable=1", uri=True)) as database:
        recorded = database.execute(
            "select s.value, count(*), sum(end - start) from OSRT_API o join StringIds s on s.id = nameId "
            "where callchainId > 0 group by 1 order by 3 desc").fetchall()
        innermost = set(database.execute(
            "select s.value, t.value from OSRT_API o join StringIds s on s.id = nameId join OSRT_CALLCHAINS c on "
            "c.id = callchainId and stackDepth = 0 join StringIds t on t.id = symbol where not unresolved"))
    run, = open_run(str(export), use_cache=False)
    chains = run.call_chains.filter(pl.col("call").is_not_null()).collect()
    sums = chains.group_by(pl.col("call").cast(pl.String)).agg(pl.len(), pl.col("dur_ns").sum())
    assert sums.sort("dur_ns", descending=True).rows() == recorded
    assert set(chains.select(pl.col("call", "function").cast(pl.String)).rows()) == innermost


def test_ranges_of_two_runs_have_the_kernels_of_each_cycle_whose_work_was_launched_in_the_recording(data: Path) -> None:
    """Every cycle has four flash kernels. Of the first, some were launched before the recording; B's fourth is cut."""
    exports = [data / "traces/nsys_sqlite/nsys-ai" / f"mfu_2gpu_{side}.sqlite" for side in ("before", "after")]
    wanted = []
    for path, cycles in zip(exports, (range(1, 16), (1, 2, *range(4, 15))), strict=True):
        with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as database:
            spans = [end - start for start, end in database.execute(
                "select start, end from CUPTI_ACTIVITY_KIND_KERNEL k join StringIds s on s.id = k.shortName "
                "where value = 'flash_fwd_kernel' order by start")]
        wanted.append(round(sum(sum(spans[4 * cycle : 4 * cycle + 4]) for cycle in cycles) / len(cycles)))
    rows = view_of(exports[0], "ranges", str(exports[1])).rows
    flash = next(row for row in rows if row["name"] == "FlashAttnFunc")
    assert [flash["per_cycle_ns_a"], flash["per_cycle_ns_b"]] == wanted
