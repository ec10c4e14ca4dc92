"""Two runs compared per unit of work: what belongs to the whole cycles of each, divided by their number."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warplens.analysis.contract.options import Options
from warplens.analysis.query.ask import ask
from warplens.analysis.table.filters import Filter
from warplens.analysis.views.ops import TREE

STEP = 1_000


def step(number: int, rank: int | None = None, **more: Any) -> dict[str, Any]:
    return {"cycle": number, "start_ns": number * STEP, "dur_ns": STEP, "label": f"ProfilerStep#{number}",
            "kind": "step", "source": "recorded", "rank": rank, **more}


def launched(at: int, dur: int, name: str = "gemm", rank: int | None = None, **more: Any) -> tuple[dict, dict]:
    """A call at that time and the kernel it launched, which runs a little later."""
    correlation = at + 1 + 1_000_000 * (rank or 0)
    call = {"name": "cudaLaunchKernel", "kind": "runtime", "start_ns": at, "dur_ns": 5, "pid": 1, "tid": 1,
            "correlation": correlation, "rank": rank}
    kernel = {"name": name, "kind": "kernel", "device": "GPU 0", "start_ns": at + 10, "dur_ns": dur,
              "correlation": correlation, "rank": rank, **more}
    return call, kernel


def recording(run_of: Any, label: str, cycles: int, dur: int = 100, before: int = 0, **more: Any) -> Any:
    """Steps of two launches each, and what ran before the first one."""
    work = [launched(number * STEP + 1 + 300 * one, dur) for number in range(1, cycles + 1) for one in range(2)]
    work += [launched(1, before)] if before else []
    return run_of(label, cycles=[step(number) for number in range(1, cycles + 1)], host=[call for call, _ in work],
                  kernels=[kernel for _, kernel in work], **more)


@pytest.mark.parametrize("view", ["kernels", "calls"])
def test_a_longer_recording_of_the_same_work_does_not_differ_whatever_ran_before_its_steps(run_of, rows_of, view):
    (row,) = rows_of(view, recording(run_of, "a", 12, before=900), recording(run_of, "b", 5))
    assert row["total_ns_delta"] < 0
    assert (row["per_cycle_ns_a"], row["per_cycle_ns_delta"]) == ((200, 0) if view == "kernels" else (10, 0))
    assert (row["count_per_cycle_a"], row["count_per_cycle_b"], row["count_per_cycle_delta"]) == (2, 2, 0)


def test_what_is_listed_sorted_and_filtered_is_per_cycle_until_the_recording_is_asked_for(run_of, asked):
    table = asked("kernels", recording(run_of, "a", 12), recording(run_of, "b", 5))
    listed = {column.name for column in table.columns if column.order is not None}
    assert (table.per, table.facts["per"]) == ("cycle", "cycle")
    assert "per_cycle_ns_a" in listed and "total_ns_a" not in listed
    assert len(table.filtered(Filter("total<1us"))) == 1  # 200 ns a cycle, 2,400 a recording
    whole = table.compared("recording")
    assert (whole.per, whole.facts["per"]) == ("recording", "recording")
    assert len(whole.filtered(Filter("total_a<1us"))) == 0
    assert whole.column_in_basis("per_cycle_ns_delta") == "total_ns_delta"
    assert whole.compared("cycle").columns == table.columns


def test_the_largest_change_comes_first_by_what_is_shown(run_of, asked):
    a = [launched(number * STEP + 1, 100) for number in range(1, 9)]
    a += [launched(number * STEP + 300, 10, "small") for number in range(1, 9)]
    b = [launched(number * STEP + 1, 100) for number in range(1, 5)]
    b += [launched(number * STEP + 300, 40, "small") for number in range(1, 5)]
    runs = [
        run_of(name, cycles=[step(number) for number in range(1, 1 + len(work) // 2)],
               host=[call for call, _ in work], kernels=[kernel for _, kernel in work])
        for name, work in (("a", a), ("b", b))
    ]
    table = asked("kernels", *runs)
    assert [row[0] for row in table.window(0, 2, ["name"])] == ["small", "gemm"]
    whole = table.compared("recording")
    assert [row[0] for row in whole.window(0, 2, ["name"])] == ["gemm", "small"]
    kept = whole.filtered(Filter("total_a>0"))
    assert [row[0] for row in kept.window(0, 2, ["name"])] == [
        "gemm", "small"]


def test_rows_that_did_not_change_are_in_the_order_of_their_size(run_of, asked):
    """A run with itself: by name, its smallest kernels came first."""
    work = [launched(6_001, 10, "a"), launched(6_101, 300, "b"), launched(6_501, 20, "c")]
    run = run_of(cycles=[step(6)], host=[call for call, _ in work], kernels=[kernel for _, kernel in work])
    table = asked("kernels", run, run)
    for basis in ("recording", "cycle"):
        shown = table.compared("recording").compared(basis)
        assert [row[0] for row in shown.window(0, 3, ["name"])] == ["b", "c", "a"]


def test_totals_of_several_devices_say_that_they_are(run_of, asked):
    """The diff, beside it, has a line for each device."""
    def run(*devices: str) -> Any:
        work = [launched(6_001 + 100 * number, 10, device=device) for number, device in enumerate(devices)]
        return run_of(cycles=[step(6)], host=[call for call, _ in work], kernels=[kernel for _, kernel in work])

    one, two = run("GPU 0"), run("GPU 0", "GPU 1")
    assert asked("kernels", one, one).summary[0].startswith("Per cycle: total")
    assert asked("kernels", one, two).summary[0].startswith("Per cycle, all devices together: total 10 ns → 20 ns")


def test_on_either_basis_rows_without_a_change_are_in_the_order_of_their_size(run_of, asked):
    """What one run lacks has no change: GPU 1 idles longer within the cycles, GPU 2 longer in all."""
    def run(label: str, devices: dict[str, tuple[int, ...]]) -> Any:
        work = [launched(at, 10, device=device) for device, begins in devices.items() for at in begins]
        return run_of(label, cycles=[step(number) for number in (6, 7)], host=[call for call, _ in work],
                      kernels=[kernel for _, kernel in work])

    in_cycles = (6_001, 6_501, 7_001, 7_501)
    table = asked("idle", run("a", {"GPU 0": in_cycles, "GPU 1": in_cycles, "GPU 2": (1, 6_401, 6_451)}),
                  run("b", {"GPU 0": in_cycles}))
    for basis, stem in (("recording", "total_ns_"), ("cycle", "per_cycle_ns_")):
        shown = table.compared("recording").compared(basis)
        rows = shown.window(0, len(shown), ["device", f"{stem}a", f"{stem}delta"])
        sizes = [size for _, size, delta in rows if delta is None and size is not None]
        assert len(sizes) > 1 and sizes == sorted(sizes, reverse=True), rows


def test_without_cycles_in_one_run_whole_recordings_are_compared(run_of, asked):
    call, kernel = launched(1, 70)
    table = asked("kernels", recording(run_of, "a", 3), run_of("b", host=[call], kernels=[kernel]))
    (row,) = table.frame.to_dicts()
    assert (table.per, table.facts["per"]) == ("recording", "recording")
    assert (row["total_ns_delta"], row["per_cycle_ns_a"], row["per_cycle_ns_delta"]) == (70 - 600, None, None)
    assert "B has no whole cycles" in " ".join(table.notes)
    assert table.compared("cycle") is table


def test_of_a_job_it_is_per_cycle_and_rank(run_of, rows_of, asked):
    def job(label: str, ranks: int, cycles: int) -> Any:
        work = [launched(number * STEP + 1, 100, rank=rank, device=f"GPU {rank}")
                for number in range(1, cycles + 1) for rank in range(ranks)]
        marks = [step(number, rank) for rank in range(ranks) for number in range(1, cycles + 1)]
        return run_of(label, cycles=marks, host=[call for call, _ in work], kernels=[kernel for _, kernel in work])

    (calls,) = rows_of("calls", job("a", 2, 6), job("b", 4, 3))
    assert (calls["count_per_cycle_a"], calls["count_per_cycle_delta"]) == (1, 0)
    pair = job("a", 2, 6), job("b", 2, 3)
    kernels = asked("kernels", *pair)
    assert {row["device"]: row["per_cycle_ns_a"] for row in kernels.frame.to_dicts()} == {"GPU 0": 100, "GPU 1": 100}
    assert kernels.summary[0].startswith("Per cycle, all ranks together: total 200 ns")
    assert asked("calls", *pair).summary[0].startswith("Per cycle and rank: total 5 ns")


def test_prefill_and_decode_are_weighed_alike(run_of, asked):
    def serving(label: str, prefills: int, decodes: int) -> Any:
        marks, work = [], []
        for number in range(1, prefills + decodes + 1):
            kind = "prefill" if number <= prefills else "decode"
            marks.append(step(number, kind=kind))
            work.append(launched(number * STEP + 1, 600 if kind == "prefill" else 100))
        return run_of(label, cycles=marks, host=[call for call, _ in work], kernels=[kernel for _, kernel in work])

    table = asked("kernels", serving("a", 2, 8), serving("b", 6, 4))
    (row,) = table.frame.to_dicts()
    assert (row["per_cycle_ns_a"], row["per_cycle_ns_b"]) == (300, 300)  # 8 of 20 are prefill
    assert "40% prefill" in " ".join(table.notes)


def test_cycles_that_are_not_whole_do_not_count(run_of, rows_of):
    first = recording(run_of, "a", 8)  # its last step lacks the second kernel
    cut = first.with_tables(kernels=first.kernels.filter(pl.col("start_ns") < 8 * STEP + 100))
    (row,) = rows_of("kernels", cut, recording(run_of, "b", 8))
    assert (row["per_cycle_ns_a"], row["per_cycle_ns_b"]) == (200, 200)


def test_a_cycle_that_is_asked_for_is_the_unit_itself(run_of, rows_of):
    (row,) = rows_of("kernels", recording(run_of, "a", 12), recording(run_of, "b", 5, dur=150),
                     options=Options(cycle=3, cycle_b=2))
    assert (row["total_ns_a"], row["per_cycle_ns_a"], row["per_cycle_ns_b"]) == (200, 200, 300)


@settings(max_examples=settings().max_examples // 3)  # half a second each
@given(cycles=st.tuples(st.integers(1, 12), st.integers(1, 12)), dur=st.integers(1, 500))
def test_the_law_of_the_same_work(run_of, rows_of, cycles, dur):
    (row,) = rows_of("kernels", recording(run_of, "a", cycles[0], dur), recording(run_of, "b", cycles[1], dur))
    assert (row["per_cycle_ns_a"], row["per_cycle_ns_delta"]) == (2 * dur, 0)


def test_the_tree_of_operators_is_per_cycle_too(run_of):
    def called(label: str, cycles: int) -> Any:
        whole = recording(run_of, label, cycles)
        ops = [{"name": "aten::mm", "kind": "op", "start_ns": number * STEP, "dur_ns": 700, "pid": 1, "tid": 1}
               for number in range(1, cycles + 1)]
        rows = [*ops, *whole.host.collect().to_dicts()]
        return run_of(label, cycles=whole.cycles.collect().to_dicts(), host=rows,
                      kernels=whole.kernels.collect().to_dicts())

    table = ask(TREE, (called("a", 12), called("b", 5)))
    row = next(row for row in table.frame.to_dicts() if row["name"] == "aten::mm")
    assert (row["device_self_ns_delta"], row["per_cycle_ns_a"], row["per_cycle_ns_delta"]) == (-1400, 200, 0)
    assert "per_cycle_ns_a" not in {column.name for column in table.compared("recording").columns
                                    if column.order is not None}


def test_the_overview_holds_no_cycle_against_a_recording(run_of, asked):
    steps = recording(run_of, "a", 5)
    call, kernel = launched(1, 70)
    bare = run_of("b", host=[call], kernels=[kernel])
    times = {row["category"]: row["time_ns_a"] for row in asked("overview", steps, bare).frame.to_dicts()}
    assert (times["Kernel"], asked("overview", steps, bare).per) == (5 * 200, "recording")
    assert asked("overview", steps, recording(run_of, "b", 3)).per == "cycle"


def test_idle_time_is_that_of_the_windows(run_of, rows_of):
    def waiting(label: str, cycles: int, dur: int) -> Any:
        return recording(run_of, label, cycles, dur)

    rows = rows_of("idle", waiting("a", 12, 100), waiting("b", 5, 250))
    a, b = (sum(row[f"per_cycle_ns_{side}"] for row in rows) for side in "ab")
    assert abs(a - (STEP - 200)) <= 2 and abs(b - (STEP - 500)) <= 2


@pytest.mark.parametrize(("view", "each"), [("kernels", 200), ("calls", 10), ("idle", 800)])
def test_cycles_of_warm_up_are_in_no_sum_per_cycle(run_of, asked, view, each):
    def warmed(label: str, times: int) -> Any:
        """Twelve steps of two launches, the first with that many times as much of everything."""
        marks, work, now = [], [], STEP
        for number in range(1, 13):
            more = times if number == 1 else 1
            marks.append({**step(number), "start_ns": now, "dur_ns": more * STEP})
            work += [launched(now + 1 + 200 * one, 100 * more) for one in range(2)]
            now += more * STEP
        return run_of(label, cycles=marks, host=[call for call, _ in work], kernels=[kernel for _, kernel in work])

    table = asked(view, warmed("a", 1), warmed("b", 9))
    assert "(mean of 12 whole cycles in A, 11 in B)" in table.summary[0]
    assert table.frame["per_cycle_ns_a"].sum() == table.frame["per_cycle_ns_b"].sum() == each
    if view != "calls":  # whose first two take as long as the others
        assert table.frame["total_ns_delta"].sum() > each


def test_means_and_percentiles_are_of_the_calls_in_whole_cycles_where_the_sums_are(run_of, rows_of):
    """Each run has a long launch before its cycles, which is no part of their sums."""
    def recording(label: str, dur: int):
        cycles = [{"cycle": at + 1, "start_ns": 1000 * at, "dur_ns": 1000, "kind": "step", "source": "recorded",
                   "complete": True} for at in range(1, 5)]
        kernels = [{"index": at, "start_ns": 1000 * at, "dur_ns": long, "name": "gemm", "kind": "kernel",
                    "device": "GPU 0"} for at, long in enumerate((900, dur, dur + 10, dur + 20, dur + 30))]
        return run_of(label, cycles=cycles, kernels=kernels)

    (row,) = rows_of("kernels", recording("a", 100), recording("b", 200))
    assert (row["count_per_cycle_a"], row["per_cycle_ns_a"]) == (1, 115)
    assert (row["mean_ns_a"], row["mean_in_cycles_ns_a"]) == (272, 115)
    assert (row["p50_in_cycles_ns_a"], row["p50_in_cycles_ns_b"], row["max_in_cycles_ns_b"]) == (110, 210, 230)
    assert (row["max_ns_a"], sum(row["trend_a"]), sum(row["trend_in_cycles_a"])) == (900, 5, 4)
