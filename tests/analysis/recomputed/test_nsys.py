"""Figures of Nsight Systems recordings, worked out from the tables of the export by SQL and plain loops."""

from __future__ import annotations

import bisect
import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.analysis.recomputed.asked import view_of

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
    assert found["blocking copies"]["sentence"].startswith(f"{count} pageable copies")
