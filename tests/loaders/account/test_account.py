"""Whose work an activity is: by what evidence, and that no chance makes a join."""

from __future__ import annotations

import random
from typing import Any

import polars as pl
import pytest
from msgspec.structs import replace

from warplens.loaders import schema
from warplens.loaders.trace import OP_BY, Info, PartOf, Trace


def recording(host: list[dict[str, Any]], kernels: list[dict[str, Any]]) -> Trace:
    def table(name: str, rows: list[dict[str, Any]]) -> pl.LazyFrame:
        return schema.conform(name, pl.DataFrame(rows, infer_schema_length=None).with_row_index("index").lazy())

    return Trace(Info("a.json", "a", "kineto"), table("kernels", kernels), table("host", host))


def op(name: str, start: int, external: int | None, dur: int = 90, **more: Any) -> dict[str, Any]:
    return {"name": name, "kind": "op", "start_ns": start, "dur_ns": dur, "pid": 1, "tid": 1, "rank": None,
            "external_id": external, "correlation": None} | more


def call(start: int, correlation: int | None, external: int | None = None, name: str = "cudaLaunchKernel",
         dur: int = 5, **more: Any) -> dict[str, Any]:
    return {"name": name, "kind": "runtime", "start_ns": start, "dur_ns": dur, "pid": 1, "tid": 1, "rank": None,
            "external_id": external, "correlation": correlation} | more


def activity(start: int, correlation: int | None, external: int | None = None, **more: Any) -> dict[str, Any]:
    return {"name": "gemm", "kind": "kernel", "start_ns": start, "dur_ns": 10, "device": "GPU 0", "stream": 7,
            "rank": None, "pid": None, "correlation": correlation, "op_id": external, "flow": None} | more


def linked(trace: Trace) -> list[tuple[int | None, int | None]]:
    return trace.account().activities.select("call", "op").rows()


def test_a_correlation_of_0_or_of_two_launches_is_no_evidence() -> None:
    host = [op("mm", 0, None), call(10, 0), call(30, 5), call(60, 5)]
    assert linked(recording(host, [activity(100, 0), activity(120, 5)])) == [(None, None), (None, None)]


def test_of_nested_calls_with_one_correlation_the_outer_one_is_the_launch() -> None:
    host = [op("mm", 0, None), call(10, 5, name="hipLaunchKernel", dur=20), call(12, 5, name="hipModuleLaunchKernel")]
    assert linked(recording(host, [activity(100, 5)])) == [(1, 0)]


def test_external_ids_that_name_other_operators_than_those_around_the_launches_are_not_used() -> None:
    host = [op("mm", 0, 1), call(10, 101), op("add", 100, 2), call(110, 102), op("gelu", 200, 3)]
    shifted = recording(host, [activity(300, 101, 2), activity(320, 102, 3)])
    assert linked(shifted) == [(1, 0), (3, 2)]
    assert shifted.links["external_id"] == {"agree": 0, "tested": 2, "used": False}
    right = recording(host, [activity(300, 101, 1), activity(320, 102, 2), activity(340, 999, 3)])
    assert linked(right) == [(1, 0), (3, 2), (None, 4)] and right.links["op"] == {"External id": 3}


def test_an_activity_without_a_call_whose_external_id_is_its_correlation_has_no_operator() -> None:
    host = [op("mm", 0, 1), call(10, 101), op("add", 100, 2)]
    assert linked(recording(host, [activity(300, 101, 1), activity(320, 2, 2)])) == [(1, 0), (None, None)]


def test_a_flow_names_the_call_once_and_every_activity_of_a_graph() -> None:
    host = [op("mm", 0, None), call(10, None), call(30, None, name="hipGraphLaunch")]
    trace = recording(host, [activity(100, None, flow=1), activity(120, None, flow=1), activity(140, None, flow=2),
                             activity(160, None, flow=2)])
    assert linked(trace) == [(1, 0), (None, None), (2, 0), (2, 0)]
    assert trace.links["call"] == {"flow": 3, "none": 1} and trace.links["op"] == {"none": 1, "nesting": 1, "replay": 2}


def test_runtime_ids_pair_as_many_calls_with_as_many_activities_that_begin_later() -> None:
    host = [op("mm", 0, 7), call(10, None, 1), call(30, None, 1), call(50, None, 2), call(60, None, 3)]
    rows = [activity(100, None, 1), activity(120, None, 1), activity(140, None, 2), activity(150, None, 2),
            activity(40, None, 3)]
    assert [at for at, _ in linked(recording(host, rows))] == [1, 2, None, None, None]


def test_processes_with_equal_numbers_keep_their_own() -> None:
    host = [op("mm", 0, 1, rank=0), call(10, 101, rank=0), op("bmm", 0, 1, rank=1), call(10, 101, rank=1)]
    trace = recording(host, [activity(100, 101, 1, rank=1), activity(100, 101, 1, rank=0)])
    assert linked(trace) == [(3, 2), (1, 0)] and [one["rank"] for one in trace.links["processes"]] == [0, 1]


def test_a_launch_without_a_record_is_lost_after_the_last_record_cut_and_in_a_capture_neither() -> None:
    host = [call(0, 1), call(10, 2), call(20, 3, name="cudaMemcpyAsync"), call(25, 8, name="cudaStreamBeginCapture"),
            call(30, 4), call(35, 9, name="cudaStreamEndCapture"), call(40, 5), call(50, 6)]
    trace = recording(host, [activity(100, 1), activity(110, 5)])
    assert {name: trace.links[name] for name in ("lost", "cut", "launch_calls")} == {
        "lost": 1, "cut": 1, "launch_calls": 4}
    assert trace.account().missing.rows() == [(1, 10, None, False), (7, 50, None, True)]


def test_a_part_of_a_recording_has_the_account_of_the_whole() -> None:
    host = [op("mm", 0, 1), call(10, 101), op("add", 100, 2), call(110, 102), op("gelu", 200, 3)]
    trace = recording(host, [activity(300, 101, 2), activity(320, 102, 3)])
    part = replace(trace, part_of=PartOf(trace)).with_tables(
        kernels=trace.kernels.filter(pl.col("index") == 1), host=trace.host.filter(pl.col("start_ns") >= 100))
    assert linked(part) == [(1, 0)] and part.links == trace.links  # alone, its External id would name gelu


@pytest.mark.parametrize("seed", range(4))
def test_no_numbering_makes_a_wrong_join(seed: int, deep: bool) -> None:
    """Correlation ids number launches at random, External ids either operators or something else; some calls are not
    in the file. Each activity has its own call and operator, or none."""
    chance = random.Random(seed)
    for _ in range(2_500 if deep else 25):
        count, sound = chance.randint(2, 12), chance.random() < 0.5
        numbers = chance.sample(range(1, 4 * count), count)
        external = chance.sample(range(1, 4 * count), count)
        named = external if sound else [*external[1:], external[0]]
        host, kernels, truth = [], [], []
        for at in range(count):
            there = chance.random() < 0.9
            host.append(op(f"op{at}", 100 * at, external[at], pid=chance.randint(1, 2)))
            operator = len(host) - 1
            if there:
                host.append(call(100 * at + 10, numbers[at], pid=host[operator]["pid"]))
            truth.append((len(host) - 1 if there else None, operator))
            kernels.append(activity(5_000 + 20 * at, numbers[at], named[at]))
        order = chance.sample(range(count), count)
        trace = recording(host, [kernels[at] for at in order])
        for at, (found, own) in zip(order, linked(trace), strict=True):
            assert found == truth[at][0]
            if found is not None:
                assert own == truth[at][1]
            elif not any(one for one, _ in truth):
                continue  # without any launch nothing tests the ids
            else:
                assert own in ((truth[at][1], None) if sound else (None,))


@pytest.mark.parametrize("seed", range(4))
def test_no_flow_label_or_number_of_another_process_makes_a_wrong_join(seed: int, deep: bool) -> None:
    """Two to four processes use the same ids. Some activities have no correlation id, or one that no call has, and a
    flow: to their call, to a row that is no call, to none. External ids name the operators of their launches, other
    operators, or are the same for all. Each activity has its own call and the operator around it, or none, wherever a
    launch of the process shows whether its ids are right."""
    chance = random.Random(100 + seed)
    for _ in range(2_500 if deep else 25):
        host, kernels, truth = [], [], []
        for rank in range(chance.randint(2, 4)):
            count, ids = chance.randint(2, 10), chance.choice(("own", "shifted", "equal"))
            numbers = chance.sample(range(1, 15), count)
            for at in range(count):
                named = {"own": at + 1, "shifted": (at + 1) % count + 1, "equal": 1}[ids]
                host += [op(f"op{at}", 100 * at, at + 1, rank=rank, pid=rank),
                         call(100 * at + 10, numbers[at], rank=rank, pid=rank)]
                own = len(host) - 1
                known = chance.choice(("correlation", "flow", "no call", "nowhere"))
                kernels.append(activity(
                    5_000 + 20 * at, numbers[at] if known == "correlation" else chance.choice((None, 0, 900)), named,
                    rank=rank, flow={"flow": own, "no call": own - 1}.get(known)))
                shows = known in ("correlation", "flow") and (ids != "equal" or at > 0)
                truth.append((own, own - 1, known, shows))
        order = chance.sample(range(len(kernels)), len(kernels))
        trace = recording(host, [kernels[at] for at in order])
        for at, (found, operator) in zip(order, linked(trace), strict=True):
            own, around, known, _ = truth[at]
            assert found == (own if known in ("correlation", "flow") else None)
            rank = kernels[at]["rank"]
            if found is not None:
                assert operator == around
            elif any(shows for (*_, shows), one in zip(truth, kernels, strict=True) if one["rank"] == rank):
                assert operator in (around, None)


def test_the_evidence_of_an_operator_has_its_word() -> None:
    assert OP_BY[0] == "none" and len(set(OP_BY)) == 6
