"""Scopes: a process, a rank, a device, a cycle or a window is applied in every view, or refused with what there is."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest
from msgspec.structs import replace
from runs import host, kernel, run_of, samples

from warplens.analysis.contract.options import Options
from warplens.analysis.contract.view import CannotAnswer, ScopeRefused
from warplens.analysis.core.run_labels import scope_text
from warplens.analysis.cycles.detection import find_cycles
from warplens.analysis.cycles.scope import scoped_any_cycle
from warplens.analysis.query.ask import ask
from warplens.analysis.query.report import report
from warplens.analysis.table.table import Table
from warplens.analysis.views import VIEWS, view
from warplens.loaders.trace import Device, Trace

LAUNCH = {"kind": "runtime"}


def rank_rows(rank: int, slow: int = 1) -> tuple[list[dict[str, Any]], ...]:
    """Two steps of 1,000 ns on GPU 0 of one rank: cycles, host slices and kernels, with its process 100 + rank."""
    of = {"rank": rank, "pid": 100 + rank}
    cycles = [
        {"cycle": n, "start_ns": 1000 * n, "dur_ns": 1000, "label": f"ProfilerStep#{n}", "kind": "step",
         "source": "recorded", "complete": True, "rank": rank}
        for n in (0, 1)
    ]
    slices, kernels = [], []
    for n in (0, 1):
        at, number = 1000 * n, 10 * rank + n + 1
        slices += [host("aten::mm", at + 10, 200, **of), host("launch", at + 20, 5, correlation=number, **LAUNCH, **of)]
        kernels.append(kernel(2 * rank + n, at + 300, 100 * slow, rank=rank, correlation=number))
    return cycles, slices, kernels


def job(ranks: int = 3, **info: Any) -> Trace:
    """Ranks that each call their device GPU 0, rank n taking n + 1 times as long for a kernel."""
    parts = [rank_rows(rank, rank + 1) for rank in range(ranks)]
    cycles, slices, kernels = (list(chain(*tables)) for tables in zip(*parts, strict=True))
    run = run_of("job", cycles=cycles, host=slices, kernels=kernels, metrics=samples("load", "GPU 0", (5, 1.0)))
    about = replace(run.info, ranks=tuple(range(ranks)), devices=(Device("GPU 0"),), **info)
    return replace(run, info=about)


def two_devices() -> Trace:
    """One process that runs a step on GPU 0 and GPU 1 at once."""
    run = run_of(
        "both", cycles=rank_rows(0)[0], host=[host("aten::mm", 0, 900), host("launch", 1, 2, kind="runtime")],
        kernels=[kernel(0, 10, 100), kernel(1, 20, 300, device="GPU 1"), kernel(2, 1100, 50, device="GPU 1")],
    )
    return replace(run, info=replace(run.info, devices=(Device("GPU 0"), Device("GPU 1"))))


def rows(name: str, run: Trace, **scope: Any) -> list[dict[str, Any]]:
    return ask(view(name), (run,), Options(**scope)).frame.to_dicts()


def test_ranks_that_call_their_device_alike_stay_apart() -> None:
    assert [(r["rank"], r["device"], r["total_ns"]) for r in rows("kernels", job())] == [
        (2, "GPU 0", 600), (1, "GPU 0", 400), (0, "GPU 0", 200)
    ]
    pair = ask(view("kernels"), (job(), job(2)), Options()).frame
    assert {(r["rank"], r["total_ns_a"], r["total_ns_b"]) for r in pair.to_dicts()} == {
        (2, 600, None), (1, 400, 400), (0, 200, 200)
    }


def test_a_run_of_one_rank_is_held_against_all_of_a_job() -> None:
    (row,) = ask(view("kernels"), (job(), two_ranks_as_one()), Options()).frame.to_dicts()
    assert (row["count_a"], row["count_b"], row["rank"]) == (6, 2, None)


def two_ranks_as_one() -> Trace:
    cycles, slices, kernels = rank_rows(0)
    return run_of("single", cycles=cycles, host=slices, kernels=kernels)


@pytest.mark.parametrize("scope", [{"rank": 1}, {"pid_a": 101}], ids=str)
def test_a_rank_or_its_process_is_all_that_every_view_sees(scope: dict[str, Any]) -> None:
    run = job()
    assert [(r["rank"], r["count"]) for r in rows("kernels", run, **scope)] == [(None, 2)]
    assert [r["rank"] for r in rows("launches", run, **scope)] == [1, 1]
    assert {r["rank"] for r in rows("cycles", run, **scope)} == {1}
    assert [(r["name"], r["calls"], r["device_self_ns"]) for r in rows("ops", run, **scope)] == [("aten::mm", 2, 400)]
    overview = ask(view("overview"), (run,), Options(**scope))
    assert len(overview.facts["devices"]) == 1 and overview.facts["steps"] == 2
    times = {r["category"]: r["time_ns"] for r in overview.frame.to_dicts()}
    assert times["Kernel"] == 200


def test_a_scope_of_two_runs_is_each_sides_own() -> None:
    both = Options(rank=1, rank_b=2)
    (row,) = ask(view("kernels"), (job(), job()), both).frame.to_dicts()
    assert (row["total_ns_a"], row["total_ns_b"]) == (400, 600)
    assert ask(view("diff"), (job(), job()), both).facts["cycle_time"]["median_a_ms"] == pytest.approx(0.001)
    assert both.swapped().scope("a").rank == 2


@pytest.mark.parametrize(
    ("scope", "there"),
    [({"rank": 7, "rank_b": 7}, "it has 0, 1, 2"), ({"pid_a": 7, "pid_b": 7}, "it has 100, 101, 102"),
     ({"device": "GPU 7"}, "it has GPU 0"), ({"cycle": 7, "cycle_b": 7}, "it has cycles 0 to 1"),
     ({"from_ns": 10_000}, "it lasts from 0 ns to 2.00 µs"), ({"from_ns": 10, "to_ns": 10}, "before it begins")],
    ids=lambda value: str(value),
)
def test_what_is_not_there_is_refused_with_what_there_is(scope: dict[str, Any], there: str) -> None:
    runs = job(), job()
    for entry in VIEWS:
        with pytest.raises(ScopeRefused, match=there):
            report(entry.name, runs[: 1 if view(entry.name).one_run else 2], Options(**scope))


def test_a_device_takes_its_activities_and_leaves_the_cycles() -> None:
    run = two_devices()
    assert [(r["device"], r["total_ns"]) for r in rows("kernels", run, device="GPU 1")] == [("GPU 1", 350)]
    assert [r["dur_ns"] for r in rows("launches", run, device="GPU 0")] == [100]
    assert [d["device"] for d in ask(view("overview"), (run,), Options(device="GPU 1")).facts["devices"]] == ["GPU 1"]
    assert [r["busy_ns"] for r in rows("cycles", run, device="GPU 1")] == [300, 50]


def test_what_begins_in_a_window_is_in_it_and_windows_add_up() -> None:
    run = job()
    windows = [{"to_ns": 1300}, {"from_ns": 1300}]
    assert [len(rows("launches", run, **window)) for window in windows] == [3, 3]
    assert [r["start_ns"] for r in rows("launches", run, from_ns=1300)] == [1300] * 3
    cut = rows("cycles", run, to_ns=1500)
    assert [(r["cycle"], r["complete"]) for r in cut if r["rank"] == 0] == [(0, True), (1, False)]


def test_a_window_of_a_job_is_on_the_clock_of_its_first_rank() -> None:
    """As in its timeline, where a range is chosen; of one rank alone it is on that rank's own."""
    clocks = {0: 0, 1: 1_000_000, 2: -50_000}
    at = [(rank, n, 100_000 + 1000 * n + ahead) for rank, ahead in clocks.items() for n in range(6)]
    kernels = [kernel(10 * rank + n, start, 300, "ncclDevKernel_AllReduce_Sum_f32", kind="collective", rank=rank,
                      device=f"GPU {rank}", stream=1) for rank, n, start in at]
    run = run_of(kernels=kernels, host=[host("aten::mm", start, 50, rank=rank) for rank, _, start in at])
    files = {str(rank): f"rank{rank}.json" for rank in clocks}
    run = replace(run, info=replace(run.info, ranks=tuple(clocks), facts={"files": files}))
    window = {"from_ns": 102_000, "to_ns": 104_000}
    assert [(r["rank"], r["start_ns"]) for r in rows("launches", run, **window)] == [
        (rank, start) for rank, n, start in at if n in (2, 3)]
    assert [r["calls"] for r in rows("ops", run, **window)] == [6]
    assert len(rows("launches", run, to_ns=104_000)) == 12
    assert [r["start_ns"] for r in rows("launches", run, rank=1, from_ns=1_104_000)] == [1_104_000, 1_105_000]
    with pytest.raises(ScopeRefused, match="it lasts from"):
        rows("launches", run, from_ns=106_000)


def test_a_part_has_the_cycles_of_the_whole_and_none_of_its_own() -> None:
    """Three calls make a rhythm in the whole run; the window holds two of them and a rhythm of kernels."""
    work = [kernel(n, 100 * n, 40, name="ab"[n % 2]) for n in range(30)]
    run = run_of("found", host=[host("iterate", 1000 * n, 950) for n in range(3)], kernels=work)
    whole = find_cycles(run, Options()).frame
    assert whole["label"].to_list() == ["iterate"] * 3
    first = find_cycles(scoped_any_cycle(run, Options(to_ns=1900)), Options())
    assert first.frame["dur_ns"].to_list() == whole["dur_ns"].to_list()[:2]
    assert find_cycles(scoped_any_cycle(run, Options(from_ns=2100)), Options()).frame.is_empty()


def test_sums_over_the_whole_run_cannot_be_limited() -> None:
    sums = run_of("dump", kernel_stats=[{"name": "k", "kind": "kernel", "device": "GPU 0", "count": 4, "total_ns": 9}])
    with pytest.raises(ScopeRefused, match="sums over the whole run"):
        rows("kernels", sums, rank=0)
    assert rows("kernels", sums, device="GPU 0")[0]["count"] == 4
    operators = run_of("dump", operators=[{"name": "aten::mm", "calls": 4}])
    with pytest.raises(ScopeRefused, match="cannot be limited to GPU 0"):
        rows("ops", operators, device="GPU 0")


def test_launches_without_times_have_no_window() -> None:
    with pytest.raises(ScopeRefused, match="without times"):
        rows("kernels", run_of("table", kernels=[kernel(0, None, 5)]), from_ns=0)


def test_without_warm_up_no_view_counts_what_it_did() -> None:
    spans = [5000, *[1000] * 7]
    starts = [sum(spans[:n]) for n in range(len(spans))]
    cycles = [{"cycle": n, "start_ns": at, "dur_ns": span, "label": f"ProfilerStep#{n}", "kind": "step",
               "source": "recorded", "complete": True} for n, (at, span) in enumerate(zip(starts, spans, strict=True))]
    run = run_of("warm", cycles=cycles, kernels=[kernel(n, at + 10, 100) for n, at in enumerate(starts)],
                 host=[host("aten::mm", at + 1, 5) for at in starts])
    assert rows("kernels", run, warm_up=False)[0]["count"] == 7
    assert len(rows("launches", run, warm_up=False)) == 7
    assert rows("ops", run, warm_up=False)[0]["calls"] == 7


def test_launches_say_cycle_rank_and_correlation() -> None:
    told = [(r["cycle"], r["rank"], r["correlation"]) for r in rows("launches", job(2))]
    assert told == [(0, 0, 1), (1, 0, 2), (0, 1, 11), (1, 1, 12)]


def test_a_list_of_cycles_is_limited_to_the_one_asked_for() -> None:
    assert {(r["cycle"], r["rank"]) for r in rows("cycles", job(2), cycle=1)} == {(1, 0), (1, 1)}
    pair: Table = report("cycles", (job(1), job(1)), Options(cycle=1, cycle_b=0))
    assert pair.frame.select("cycle_a", "cycle_b").rows() == [(1, 0)]
    assert pair.scope == "cycle 1 of A, cycle 0 of B"


def test_a_scope_is_said_in_words() -> None:
    scope = Options(cycle=5, cycle_b=5, rank=3, rank_b=3, device="GPU\x1b 0", from_ns=1_500_000, to_ns=2_000_000)
    assert scope_text(scope, 2) == "cycle 5, rank 3, GPU␛ 0, 1.5–2.0 ms"
    assert scope_text(Options(pid_a=1, pid_b=2, warm_up=False), 2) == "pid 1 of A, pid 2 of B, without warm-up"
    ranges = Options(from_ns=1_500_000, to_ns=2_000_000, window_b=(3_000_000, None))
    assert scope_text(ranges, 2) == "A 1.5–2.0 ms, B from 3.00 ms"
    assert scope_text(ranges.swapped(), 2) == "A from 3.00 ms, B 1.5–2.0 ms"
    assert scope_text(Options(), 2) == ""


def test_each_run_has_a_window_of_its_own() -> None:
    ranges = Options(from_ns=1_000, to_ns=1_310, window_b=(290, 1_000))
    pair = report("launches", (job(2),), ranges), report("launches", (job(2),), ranges.swapped())
    assert [one.frame["start_ns"].to_list() for one in pair] == [[1300, 1300], [300, 300]]
    rows_of = {r["rank"]: r for r in report("kernels", (job(2), job(2)), ranges).frame.to_dicts()}
    assert [(rows_of[at]["total_ns_a"], rows_of[at]["total_ns_b"]) for at in (0, 1)] == [(100, 100), (200, 200)]
    both = report("timeline", (job(2), job(2)), ranges)
    assert both.facts["offset_b_ns"] == 290 - 1_000
    assert (both.facts["from_ns"], both.facts["to_ns"]) == (1_000, 1_710), "as long as the longer one"


def test_a_view_that_holds_no_such_rows_still_says_why() -> None:
    with pytest.raises(CannotAnswer, match="no operators"):
        rows("ops", run_of("bare", kernels=[kernel(0, 0, 5)]), device="GPU 0")


def kept_when_narrow(name: str, run: Trace) -> set[str]:
    """The columns of what a row is of that a list never drops."""
    columns = ask(view(name), (run,), Options()).columns
    return {column.name for column in columns if column.role == "where" and column.order == 0}


def test_a_narrow_list_keeps_what_alone_tells_rows_apart() -> None:
    assert kept_when_narrow("kernels", job()) == {"rank"}
    assert kept_when_narrow("cycles", job()) == {"rank"}
    assert kept_when_narrow("kernels", two_devices()) == {"device"}
    assert kept_when_narrow("launches", job()) == set()
    different = run_of("two", kernels=[kernel(0, 0, 5), kernel(1, 9, 5, name="conv", device="GPU 1")])
    assert kept_when_narrow("kernels", different) == set()
