"""Collectives and ranks: who waits for whom, how fast a transfer is, who is late, and what is left unsaid."""

from __future__ import annotations

import random
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from runs import host, kernel, run_of, steps

from warplens.analysis.communication.arrivals import arrivals_of
from warplens.analysis.communication.collectives import kind_of
from warplens.analysis.communication.row_details import sections
from warplens.analysis.contract.options import Options
from warplens.analysis.contract.view import CannotAnswer
from warplens.analysis.query.ask import ask
from warplens.analysis.ranks.beginnings import straggler_of
from warplens.analysis.table.table import Table
from warplens.analysis.views import view
from warplens.loaders.trace import Trace

US = 1_000


def answer(name: str, *runs: Trace, **options: Any) -> Table:
    return ask(view(name), runs, Options(**options))


def job(
    arrivals: list[list[int]], clocks: list[int] | None = None, last_needs: int = 100 * US, **more: Any
) -> Trace:
    """A rank an inner column: it comes to each collective at those times (ns), which ends ``last_needs`` after all."""
    clocks = clocks or [0] * len(arrivals[0])
    rows: list[dict[str, Any]] = []
    for number, came in enumerate(arrivals):
        end = max(came) + last_needs
        for rank, at in enumerate(came):
            rows.append(collective(len(rows), at + clocks[rank], end - at, rank, number, **more))
    return run_of("job", kernels=rows)


def collective(index: int, start: int, dur: int, rank: int, number: int | None, **more: Any) -> dict[str, Any]:
    """An all-reduce of 4 MiB of floats among four ranks."""
    return {
        **kernel(index, start, dur, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", rank=rank, device=f"GPU {rank}"),
        "kind": "collective", "collective": "allreduce", "process_group": "0", "group_ranks": "0,1,2,3",
        "group_size": 4, "dtype": "Float", "in_elements": 1 << 20, "out_elements": 1 << 20, "seq": number, **more,
    }


def of_files(run: Trace) -> Trace:
    """The run as the recordings of several files without a common clock."""
    ranks = run.kernels.select(pl.col("rank").unique()).collect()["rank"].to_list()
    facts = {"files": {str(rank): f"rank{rank}.json" for rank in ranks}}
    info = replace(run.info, facts=facts, ranks=tuple(sorted(ranks)))
    return Trace(info).with_tables(kernels=run.kernels, cycles=run.cycles)


def even(count: int, ranks: int = 4, late: int | None = None, by: int = 0, seed: int = 3) -> list[list[int]]:
    """Arrivals at so many collectives a millisecond apart, up to 20 µs uneven; one rank later by that."""
    rng = random.Random(seed)
    return [
        [1_000 * US * number + rng.randrange(20 * US) + (by if rank == late else 0) for rank in range(ranks)]
        for number in range(count)
    ]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("_allgather_base", "allgather"), ("_reduce_scatter_base", "reducescatter"), ("all_to_allv", "alltoall"),
        ("ncclDevKernel_ReduceScatter_Sum_f16_RING_LL(ncclDevComm*)", "reducescatter"), ("allreduce", "allreduce"),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, x)", "sendrecv"), ("broadcast", "broadcast"),
        ("ncclDevKernel_Generic(ncclDevComm*, channelMasks, ncclWork*)", "collective"), ("barrier", "barrier"),
        ("void cross_device_reduce_2stage<half, 8>(RankData*)", "allreduce"), (None, "collective"), ("send", "send"),
    ],
)
def test_a_name_tells_the_kind(name: str | None, kind: str) -> None:
    assert kind_of(name) == kind


def test_waits_transfers_and_bandwidth_of_one_collective() -> None:
    run = job([[0, 300 * US, 100 * US, 200 * US]])
    (row,) = answer("collectives", run).frame.to_dicts()
    assert (row["kind"], row["group"], row["ranks"], row["bytes"], row["count"]) == ("allreduce", "0", 4, 4 << 20, 1)
    assert row["total_ns"] == (400 + 100 + 300 + 200) * US == row["exposed_ns"]
    assert (row["wait_ns"], row["transfer_ns"], row["last_rank"]) == (600 * US, 400 * US, 1)
    assert row["algbw"] == pytest.approx((4 << 20) / 100e-6)
    assert row["busbw"] == pytest.approx(1.5 * row["algbw"])


def test_a_gathered_message_counts_whole_and_loses_one_part() -> None:
    run = job([[0, 0, 0, 0]], collective="_allgather_base", out_elements=4 << 20)
    (row,) = answer("collectives", run).frame.to_dicts()
    assert (row["kind"], row["bytes"]) == ("allgather", 16 << 20)
    assert row["busbw"] == pytest.approx(0.75 * row["algbw"])


def test_what_is_not_recorded_is_null() -> None:
    lacking = dict.fromkeys(("collective", "process_group", "group_ranks", "group_size", "dtype", "in_elements",
                             "out_elements"))
    run = run_of("one", kernels=[collective(0, 0, 500, 0, None, **lacking)])
    (row,) = answer("collectives", run).frame.to_dicts()
    assert row["kind"] == "allreduce"
    assert [row[name] for name in ("bytes", "wait_ns", "transfer_ns", "algbw", "busbw", "last_rank", "group")] == (
        [None] * 7
    )


def test_computation_of_the_same_device_hides_a_collective() -> None:
    run = run_of("one", kernels=[
        collective(0, 1000, 1000, 0, 0), kernel(1, 1500, 200, rank=0), kernel(2, 1000, 900, rank=1, device="GPU 1"),
    ])
    table = answer("collectives", run)
    assert table.frame["exposed_ns"].to_list() == [800]
    assert table.facts["devices"][0] == {
        "device": "GPU 0", "rank": 0, "comm_ns": 1000, "exposed_ns": 800, "overlap": pytest.approx(0.2)
    }


def test_a_run_without_collectives_says_so_with_its_devices() -> None:
    table = answer("collectives", run_of("quiet", kernels=[kernel(0, 0, 10)]))
    assert table.total_rows == 0 and table.facts["devices"][0]["comm_ns"] == 0
    assert table.summary == ("No device ran a collective.",)
    with pytest.raises(CannotAnswer):
        answer("collectives", run_of("timeless", kernels=[kernel(0, None, 10)]))


@pytest.mark.parametrize("numbered", [True, False])
def test_clocks_are_brought_together_by_the_ends(numbered: bool) -> None:
    clocks = [0, 2_500_000, -1_000_000, 77]
    more: dict[str, Any] = {} if numbered else {"seq": None}
    run = of_files(job(even(12), clocks, **more))
    rows = {row["rank"]: row for row in answer("ranks", run).frame.to_dicts()}
    assert [rows[rank]["clock_offset_ns"] for rank in range(4)] == clocks
    assert all(rows[rank]["clock_residual_ns"] == 0 for rank in range(4))
    straight = answer("ranks", job(even(12))).frame
    assert straight.select("rank", "wait_ns", "last_count").sort("rank").equals(
        answer("ranks", run).frame.select("rank", "wait_ns", "last_count").sort("rank")
    )


def test_a_recording_that_began_later_is_placed_by_the_evenness_of_its_ends() -> None:
    whole = job(even(12, late=2, by=300 * US), [0, 0, 5_000_000, 0], seq=None)
    later = whole.with_tables(kernels=whole.kernels.filter(~((pl.col("rank") == 2) & (pl.col("index") < 12))))
    later = of_files(later)
    frame = arrivals_of(later).frame
    assert frame["instance"].null_count() == 0
    assert frame.group_by("instance").len()["len"].to_list().count(3) == 3
    assert answer("ranks", later).facts["straggler"]["rank"] == 2


def clock_of(run: Trace) -> tuple[Any, ...]:
    """Offset, residual and evidence of rank 1, and the straggler's rank."""
    table = answer("ranks", run)
    row = {row["rank"]: row for row in table.frame.to_dicts()}[1]
    straggler = table.facts["straggler"]
    return row["clock_offset_ns"], row["clock_residual_ns"], row["clock_evidence"], straggler and straggler["rank"]


def test_of_fewer_than_three_collectives_the_recorded_clock_stands_or_the_clock_is_unknown() -> None:
    run = job(even(2, ranks=2, late=1, by=500 * US), [0, 70 * US])
    assert clock_of(run) == (0, None, "recorded", None)
    assert clock_of(of_files(run)) == (None, None, None, None)
    table = answer("ranks", of_files(run))
    assert "The clocks of rank 1 and rank 0 cannot be brought together" in " ".join(table.notes)
    drawn = answer("timeline", of_files(run))
    assert "The clocks of rank 1 and rank 0 cannot be brought together" in " ".join(drawn.notes)
    assert table.frame["wait_ns"].to_list() == [None, None] == table.frame["caused_wait_ns"].to_list()


def test_a_residual_is_half_the_spread_of_the_middle_two_thirds_of_the_end_differences() -> None:
    apart = [7 * US * number for number in range(11)]
    rows = [collective(2 * n + rank, n * 1_000 * US + rank * by, 100 * US, rank, n)
            for n, by in enumerate(apart) for rank in (0, 1)]
    offset, residual, evidence, _ = clock_of(run_of("drift", kernels=rows))
    assert (offset, residual, evidence) == (35 * US, pytest.approx((8.4 - 1.6) / 2 * 7 * US), "seq")


def test_ends_that_differ_by_more_than_a_transfer_takes_are_no_clock() -> None:
    apart = [60 * US * number for number in range(11)]
    rows = [collective(2 * n + rank, n * 1_000 * US + rank * by, 100 * US, rank, n)
            for n, by in enumerate(apart) for rank in (0, 1)]
    run = run_of("drift", kernels=rows)
    assert clock_of(run)[:3] == (0, None, "recorded")
    assert clock_of(of_files(run))[:3] == (None, None, None)


def test_one_rank_whose_ends_fit_nothing_does_not_take_the_clocks_of_the_others() -> None:
    rng = random.Random(4)
    begins = [n * 9_000 * US + (rng.randrange(4_000 * US) if rank == 2 else 0) for n in range(20) for rank in range(3)]
    rows = [collective(at, begin, 100 * US, at % 3, at // 3) for at, begin in enumerate(begins)]
    frame = answer("ranks", of_files(run_of("one", kernels=rows))).frame.sort("rank")
    assert frame["clock_offset_ns"].to_list() == [0, 0, None]


@pytest.mark.parametrize(("by", "evidence"), [(2_000 * US, "order"), (942_000 * US, "recorded")])
def test_by_order_alone_no_clock_is_more_than_half_a_step_from_the_recorded_one(by: int, evidence: str) -> None:
    """Both have ten collectives in steps of 10 ms, in which the recording says nothing else."""
    rows = [collective(2 * n + rank, n * 10_000 * US + rank * by, 100 * US, rank, None) for n in range(10)
            for rank in (0, 1)]
    marks = [row for rank in (0, 1) for row in steps(*[10_000 * US] * 10, rank=rank)]
    run = run_of("order", kernels=rows, cycles=marks)
    assert clock_of(run)[:3] == ((by, 0, "order") if evidence == "order" else (0, None, "recorded"))
    numbered = run_of("seq", kernels=[{**row, "seq": row["index"] // 2} for row in rows], cycles=marks)
    assert clock_of(numbered)[:3] == (by, 0, "seq")


def test_recorded_clocks_name_no_straggler_and_no_late_begin_below_a_millisecond() -> None:
    def table(behind: int) -> Table:
        rows = [collective(2 * n + rank, n * 50_000 * US + rank * behind, 5_000 * US, rank, n) for n in range(2)
                for rank in (0, 1)]
        marks = [{**row, "start_ns": row["start_ns"] + rank * behind} for rank in (0, 1)
                 for row in steps(50_000 * US, 50_000 * US, rank=rank)]
        return answer("ranks", run_of("recorded", kernels=rows, cycles=marks))

    near, far = table(900 * US), table(2_500 * US)
    assert near.facts["straggler"] is None and far.facts["straggler"] is None
    assert near.facts["begin"] is None and not any("Ranks begin" in line for line in near.summary)
    assert far.facts["begin"]["spread_ns"] == 2_500 * US and any("Ranks begin" in line for line in far.summary)
    assert near.frame.sort("rank")["behind_ns"].to_list() == [0, None]


def test_kinds_that_interleave_otherwise_on_another_rank_are_matched_by_their_numbers() -> None:
    def two(number: int, rank: int) -> list[dict[str, Any]]:
        at, swap = number * 1_000 * US, rank
        names = ("allreduce", "_allgather_base")
        begins = (at, at + 30 * US)
        return [collective(0, begins[swap ^ which], 100 * US, rank, None, collective=names[which]) for which in (0, 1)]

    rows = [row for number in range(6) for rank in (0, 1) for row in two(number, rank)]
    run = run_of("two streams", kernels=[{**row, "index": at} for at, row in enumerate(rows)])
    assert arrivals_of(run).matching.unmatched == 0 and arrivals_of(run).matching.how == "order within the group"


def test_what_disagrees_in_size_is_matched_with_nothing_and_counted() -> None:
    rows = [collective(n, 1000 * n, 10, n % 2, n // 2) for n in range(8)]
    rows[3]["in_elements"] = rows[3]["out_elements"] = 7
    run = run_of("odd", kernels=rows)
    found = arrivals_of(run)
    assert (found.count, found.matching.unmatched) == (3, 2)
    assert "2 of 8 collectives have no counterpart" in answer("collectives", run).notes[0]


def two_ranks(first: tuple[int, int]) -> Trace:
    """Four collectives of 100 µs of two ranks, before which each records one that takes 100 µs, from these moments."""
    starts = [first, *(((10 + n) * 1_000 * US,) * 2 for n in range(4))]
    rows = [collective(2 * n + rank, begin, 100 * US, rank, n, seq=None)
            for n, pair in enumerate(starts) for rank, begin in enumerate(pair)]
    return run_of("two", kernels=rows)


def test_what_never_overlapped_is_not_one_collective() -> None:
    frame = arrivals_of(two_ranks((0, 500 * US))).frame.sort("start_ns", "member")
    assert frame["instance"].is_null().to_list() == [True, True, *[False] * 8]
    assert frame["wait_ns"].to_list() == [None, None, *[0] * 8]
    assert any("2 collectives are unmatched" in note for note in answer("ranks", two_ranks((0, 500 * US))).notes)


def test_what_overlapped_even_a_little_is_one_collective() -> None:
    frame = arrivals_of(two_ranks((0, 99 * US))).frame.sort("start_ns", "member")
    assert frame["wait_ns"].to_list() == [99 * US, *[0] * 9]


def test_of_several_members_those_that_ran_together_are_one_collective() -> None:
    rows = [collective(4 * n + rank, n * 1_000 * US, 100 * US, rank, n) for n in range(4) for rank in range(4)]
    begins = (0, 10 * US, 300 * US, 20 * US)
    rows += [collective(16 + rank, 9_000 * US + begin, 100 * US, rank, 4) for rank, begin in enumerate(begins)]
    frame = arrivals_of(run_of("three of four", kernels=rows)).frame.filter(pl.col("seq") == 4).sort("member")
    assert frame["wait_ns"].to_list() == [20 * US, 10 * US, None, 0]


def test_recordings_whose_ends_do_not_fit_share_no_collective() -> None:
    rng = random.Random(3)
    rows = [collective(2 * n + rank, rng.randrange(1_000_000 * US), 100 * US, rank, n, seq=None)
            for n in range(20) for rank in range(2)]
    assert arrivals_of(run_of("two jobs", kernels=rows)).count == 0


@given(st.lists(st.lists(st.integers(0, 900), min_size=3, max_size=3), min_size=1, max_size=6))
def test_nobody_waits_longer_than_its_collective_takes(arrivals: list[list[int]]) -> None:
    run = job([[1_000 * US * n + at * US for at in one] for n, one in enumerate(arrivals)])
    frame = arrivals_of(run).frame.drop_nulls("instance")
    assert (frame["wait_ns"] <= frame["dur_ns"]).all()
    last = frame.filter("last")
    sums = frame.group_by("instance").agg(pl.col("wait_ns").sum())
    assert last.join(sums, on="instance").filter(pl.col("caused_ns") != pl.col("wait_ns_right")).is_empty()


def test_the_late_rank_is_named_with_its_share() -> None:
    table = answer("ranks", job(even(20, late=2, by=300 * US)))
    told = table.facts["straggler"]
    assert (told["rank"], told["share"]) == (2, 1.0)
    assert table.frame["rank"][0] == 2 and table.frame["last_count"][0] == 20
    assert "Rank 2 (GPU 2) comes last at 20 of 20 collectives" in told["sentence"] == table.summary[0]


def test_the_waits_a_rank_causes_are_those_of_all_others() -> None:
    run = job([[1_000 * US * n, 1_000 * US * n + 100 * US, 1_000 * US * n + 300 * US] for n in range(10)])
    rows = {row["rank"]: row for row in answer("ranks", run).frame.to_dicts()}
    assert (rows[2]["caused_wait_ns"], rows[2]["lead_ns"]) == (10 * (300 + 200) * US, 200 * US)
    told = answer("ranks", run).facts["straggler"]
    assert told["caused_wait_ns"] == 5_000 * US and "makes the others wait 5.00 ms in all" in told["sentence"]
    assert "200.0 µs behind the second last (median)" in told["sentence"]


def begun_apart(begins: list[int], within: int, clocks: tuple[int, int, int] = (0, 0, 0)) -> Trace:
    """Eight cycles of three ranks, each with two collectives: ranks begin them apart, and the last is late within."""
    rows, marks = [], []
    for cycle in range(8):
        at = 100_000 * US * (cycle + 1)
        for part in range(2):
            came = [at + (begins[rank] if not part else 5_000 * US) + 50 * US * (rank + 1) for rank in range(3)]
            came[2] += within
            for rank, begin in enumerate(came):
                dur = max(came) + 20 * US - begin
                rows.append(collective(len(rows), begin + clocks[rank], dur, rank, len(rows) // 3))
        marks += [{"cycle": cycle, "start_ns": at + begins[rank] + clocks[rank], "dur_ns": 9_000 * US, "rank": rank,
                   "label": f"ProfilerStep#{cycle}", "kind": "step", "source": "recorded"} for rank in range(3)]
    return run_of("apart", kernels=rows, cycles=marks)


@pytest.mark.parametrize("clocks", [(0, 0, 0), (0, 900_000 * US, -30 * US)])
def test_ranks_that_begin_apart_are_told_apart_from_ranks_late_within(clocks: tuple[int, int, int]) -> None:
    table = answer("ranks", begun_apart([0, 1_000 * US, 3_000 * US], 0, clocks))
    told = table.facts["straggler"]
    assert (told["rank"], told["reason"], told["begin_wait_ns"]) == (2, "begins late", 8 * (3_000 + 2_000) * US)
    assert "of it because it begins its cycles after them" in told["sentence"]
    assert table.facts["begin"] == {"spread_ns": 3_000 * US, "first_rank": 0, "last_rank": 2, "cycles": 8}
    assert table.summary[1] == "Ranks begin a cycle up to 3.00 ms apart (median): rank 0 first, rank 2 last."
    assert table.frame.sort("rank")["behind_ns"].to_list() == [0, 1_000 * US, 3_000 * US]


def test_a_rank_late_within_the_cycle_did_not_begin_late() -> None:
    table = answer("ranks", begun_apart([0, 0, 0], 3_000 * US))
    told = table.facts["straggler"]
    assert (told["rank"], told["begin_wait_ns"]) == (2, 0) and "begin" not in told["sentence"]
    assert not any("Ranks begin" in line for line in table.summary)


def test_hardly_ever_is_somebody_named_where_nobody_is_late() -> None:
    """By chance in one job of a hundred; three of forty would be that once in a hundred times."""
    told = [straggler_of(run, arrivals_of(run)) for run in (job(even(30, seed=seed)) for seed in range(40))]
    assert sum(one is not None for one in told) <= 2
    assert answer("ranks", job(even(30, seed=1))).summary[0].startswith("No straggler")


def test_nobody_is_named_for_less_than_clocks_are_known() -> None:
    """The ends differ by ±40 µs at random; one rank is always last, by 15 µs."""
    rng = random.Random(1)
    run = job([[1_000 * US * n + (15 * US if rank == 1 else 0) for rank in range(4)] for n in range(30)])
    frame = run.kernels.collect()
    ends = [dur + rng.randrange(-40 * US, 40 * US) for dur in frame["dur_ns"]]
    blurred = run.with_tables(kernels=frame.with_columns(pl.Series("dur_ns", ends)).lazy())
    assert answer("ranks", run).facts["straggler"]["rank"] == 1
    assert answer("ranks", blurred).facts["straggler"] is None


def test_two_recorded_collectives_do_not_tell_how_well_clocks_are_known() -> None:
    table = answer("ranks", job(even(2, late=1, by=500 * US)))
    assert table.frame["clock_residual_ns"].to_list() == [None] * 4
    assert table.facts["straggler"] is None


def late_job(cause: str) -> Trace:
    """Ranks compute 300 µs before each of ten all-reduces; rank 3 comes 400 µs later for a reason."""
    rows: list[dict[str, Any]] = []
    slices: list[dict[str, Any]] = []
    for number in range(10):
        begin = number * 2_000 * US
        for rank in range(4):
            late = rank == 3
            spent = 700 if late and cause == "kernels" else 300
            at = begin
            rows.append(kernel(len(rows), at, spent * US, "gemm_slow", rank=rank, device=f"GPU {rank}"))
            if late and cause == "copies":
                rows.append({**kernel(len(rows), at + 300 * US, 400 * US, "Memcpy HtoD", rank=rank,
                                      device=f"GPU {rank}"), "kind": "memcpy"})
            at += (700 if late else 300) * US
            end = begin + 800 * US
            rows.append(collective(len(rows), at, end - at, rank, number, correlation=100 * number + rank))
            launch = at - 5 * US if cause in ("host", "input") or not late else begin
            slices.append(host("cudaLaunchKernel", launch, 2 * US, "runtime", rank=rank,
                               correlation=100 * number + rank))
            if late and cause == "input":
                slices.append(host("enumerate(DataLoader)", at - 400 * US, 390 * US, "dataloader", rank=rank))
    return run_of("late", kernels=rows, host=slices)


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        ("kernels", "its own kernels take longer: 700.0 µs before each collective, 300.0 µs on the other ranks"),
        ("copies", "its copies take longer: 400.0 µs before each collective, 0 ns on the other ranks"),
        ("host", "its host launches collectives late: 1.90 ms after the previous one, 1.50 ms on the other ranks; its "
                 "device is idle 400.0 µs longer before each collective than the other ranks'"),
        ("input", "it waits for its input: 390.0 µs before each collective, 0 ns on the other ranks"),
        ("none shown", "its device is idle 400.0 µs longer before each collective than the other ranks', though its "
                       "host had launched the collective"),
    ],
)
def test_the_late_rank_is_said_to_have_done_what_it_did(cause: str, words: str) -> None:
    told = answer("ranks", late_job(cause)).facts["straggler"]
    assert (told["rank"], told["reason"]) == (3, cause)
    assert words in told["sentence"]
    if cause == "kernels":
        assert "gemm_slow: 700.0 µs against 300.0 µs" in told["sentence"]


def test_a_late_rank_whose_host_is_not_recorded_is_not_blamed_for_it() -> None:
    run = late_job("host")
    told = answer("ranks", run.with_tables(host=run.host.filter(pl.col("rank") != 3))).facts["straggler"]
    assert (told["rank"], told["reason"]) == (3, "none shown")
    assert "its host is not recorded, so why is not shown" in told["sentence"]


def test_without_other_records_the_reason_is_not_made_up() -> None:
    told = answer("ranks", job(even(20, late=2, by=300 * US))).facts["straggler"]
    assert told["reason"] == "none shown" and "nothing but collectives" in told["sentence"]


@pytest.mark.parametrize(("several", "clock"), [(False, 0), (True, None)])
def test_ranks_without_collectives_have_the_recorded_clock_or_none(several: bool, clock: int | None) -> None:
    run = run_of("apart", kernels=[kernel(n, 100 * n, 50, rank=n, device=f"GPU {n}") for n in range(3)],
                 cycles=[row for n in range(3) for row in steps(100 * (n + 1), rank=n)])
    table = answer("ranks", of_files(run) if several else run)
    rows = sorted(table.frame.to_dicts(), key=lambda row: row["rank"])
    assert [(row["busy_ns"], row["cycle_ns"]) for row in rows] == [(50, 100), (50, 200), (50, 300)]
    assert {row["wait_ns"] for row in rows} == {None} and {row["clock_offset_ns"] for row in rows} == {clock}


def test_one_rank_of_each_run_is_compared_whatever_its_number() -> None:
    """As in every other view: rank 2's trace against rank 0's."""
    a, b = (run_of(label, kernels=[kernel(0, 0, dur, rank=rank, device=f"GPU {rank}")])
            for label, rank, dur in (("a", 2, 100), ("b", 0, 150)))
    table = answer("ranks", a, b)
    assert table.frame.select("rank", "device", "busy_ns_a", "busy_ns_b").rows() == [(2, "GPU 2", 100, 150)]


def test_ranks_of_two_runs_are_compared_per_cycle() -> None:
    """A holds nine cycles, B four that are alike: no sum differs."""
    a, b = (run_of(kernels=[kernel(number, 100 * number, 10) for number in range(count)], cycles=steps(*[100] * count))
            for count in (9, 4))
    table = answer("ranks", a, b)
    assert table.facts["per"] == "cycle"
    sums = table.frame.select("busy_per_cycle_ns_a", "busy_per_cycle_ns_delta", "busy_ns_delta")
    assert sums.rows() == [(10, 0, -50)]


def test_two_runs_say_who_waits_for_whom_a_cycle() -> None:
    a, b = (late_in(3, late) for late in (10_000, 60_000))
    first, second = answer("ranks", a, b).summary[:2]
    assert first == "GPU 0 waits 0.010 → 0.060 ms a cycle of 1.00 → 1.00 ms for GPU 1 (mean)."
    assert second == "The transfer takes 0.100 → 0.100 ms a call (median)."


def late_in(cycles: int, late_ns: int) -> Trace:
    """A collective per cycle of 1 ms on two devices; GPU 1 comes late, and the transfer takes 100 µs."""
    rows = [
        {"index": 2 * n + at, "start_ns": 1_000_000 * n + 500_000 + late_ns * at,
         "dur_ns": 100_000 + late_ns * (1 - at), "name": "ncclDevKernel_AllReduce_Sum_f32", "kind": "collective",
         "device": f"GPU {at}", "seq": n, "process_group": "0"}
        for n in range(cycles) for at in (0, 1)
    ]
    fill = [{"index": 2 * cycles + 2 * n + at, "start_ns": 1_000_000 * n, "dur_ns": 400_000, "name": "k",
             "kind": "kernel", "device": f"GPU {at}"} for n in range(cycles) for at in (0, 1)]
    return run_of(kernels=[*fill, *rows], cycles=steps(*[1_000_000] * cycles))


def test_each_call_is_shown_on_each_rank() -> None:
    calls = answer("collectives", late_in(3, 60_000)).facts["calls"]
    assert (calls["count"], calls["ranks"]) == (3, 2)
    assert [(one["shortest_ns"], one["last"], one["wait_ns"]) for one in calls["calls"]] == [
        (100_000, "GPU 1", 60_000)] * 3
    assert [(one["name"], one["dur_ns"], one["wait_ns"]) for one in calls["rows"]] == [
        ("GPU 0", [160_000] * 3, 180_000), ("GPU 1", [100_000] * 3, 0)]


def test_of_many_calls_those_with_the_longest_waits_are_there_in_their_order() -> None:
    calls = answer("collectives", late_in(20, 60_000)).facts["calls"]
    assert (calls["count"], len(calls["calls"])) == (20, 16)


def test_groups_that_share_no_rank_have_clocks_each_for_itself() -> None:
    rows = [
        collective(n, 1000 * n + (1 << 30) * (rank > 1), 10, rank, n, group_ranks="0,1" if rank < 2 else "2,3")
        for n in range(5) for rank in range(4)
    ]
    table = answer("ranks", of_files(run_of("sets", kernels=rows)))
    assert "The clocks of rank 2, rank 3 and rank 0 cannot be brought together" in " ".join(table.notes)
    frame = table.frame.sort("rank")
    assert frame["clock_offset_ns"].to_list() == [0.0, 0.0, None, None]
    assert frame["wait_ns"].to_list() == [0] * 4  # within each set it is known
    standing = answer("ranks", run_of("sets", kernels=rows)).frame.sort("rank")
    assert standing["clock_evidence"].to_list() == ["seq", "seq", "recorded", "recorded"]
    assert standing["clock_residual_ns"].to_list() == [0.0, 0.0, None, None]


def test_two_jobs_say_whether_the_late_rank_changed() -> None:
    a, b = job(even(20, late=2, by=300 * US)), job(even(20, late=0, by=900 * US))
    table = answer("ranks", a, b)
    assert "The late rank changed: rank 2 in A, rank 0 in B." in table.summary
    rows = {row["rank"]: row for row in table.frame.to_dicts()}
    assert rows[2]["last_count_delta"] == -20 and rows[0]["caused_wait_ns_delta"] > 0
    (row,) = answer("collectives", a, b).frame.to_dicts()
    assert row["count_a"] == row["count_b"] == 20 and row["wait_ns_delta"] > 0


def test_the_heat_of_a_run_says_who_was_waited_for_when() -> None:
    cycles = [
        {"cycle": n, "start_ns": 5_000 * US * n, "dur_ns": 5_000 * US, "label": "step", "kind": "step", "rank": rank,
         "source": "recorded", "complete": True}
        for rank in range(4) for n in range(4)
    ]
    plain = job(even(20, late=2, by=300 * US))
    run = plain.with_tables(cycles=run_of("marks", cycles=cycles).cycles)
    heat = answer("ranks", run).facts["heat"]
    assert (heat["ranks"], heat["parts"], len(heat["caused_ns"][0])) == (["rank 2"], "cycle", 4)
    assert sum(heat["caused_ns"][0]) == answer("ranks", run).frame["caused_wait_ns"][0]


def behind(run: Trace) -> dict[str, dict[str, tuple[str, ...]]]:
    """The sections behind the first row of the collectives: of each title the rows by their first cell."""
    row = answer("collectives", run).frame.to_dicts()[0]
    return {one.title: {line[0]: line[1:] for line in one.rows} for one in sections(row, (run,), Options())}


def test_before_the_first_recorded_collective_it_is_said_that_there_is_none() -> None:
    run = job([[300 * US, 400 * US, 900 * US, 500 * US]])
    begun = [kernel(10 + rank, 100 * US * rank, 10, rank=rank, device=f"GPU {rank}") for rank in range(4)]
    more = pl.concat([run.kernels, run_of("more", kernels=begun).kernels])
    told = behind(run.with_tables(kernels=more))
    # rank 2 recorded from 200 to 900, the others for 300, 300 and 200 µs
    assert told["No collective of rank 2 is recorded before this one"] == {
        "recorded from": ("700.0 µs before", "300.0 µs before")
    }
    assert "Between the collective before and this one" not in told


def test_of_hosts_that_are_not_recorded_nothing_is_said() -> None:
    run = job([[0, 0, 0, 0], [1_000 * US, 1_100 * US, 1_900 * US, 1_200 * US]])
    told = behind(run)["Between the collective before and this one"]
    assert told == {"in all": ("1.80 ms", "1.00 ms")}
    seen = run_of("seen", host=[host("step", 0, 3_000 * US, rank=2)])
    assert "until the host launched it" in behind(run.with_tables(host=seen.host))[
        "Between the collective before and this one"
    ]


def test_a_rank_that_ran_on_a_device_of_another_number_is_one_row_of_two_runs() -> None:
    runs = [run_of(device, cycles=steps(100_000), kernels=[kernel(0, 0, busy, device=device)])
            for device, busy in (("GPU 0", 400), ("GPU 2", 500))]
    table = answer("ranks", *runs)
    [row] = table.frame.to_dicts()
    assert (row["device"], row["busy_ns_a"], row["busy_ns_b"]) == ("GPU 0", 400, 500)
    assert "The runs used different device numbers: compared B's GPU 2 with A's GPU 0." in table.notes


def test_of_a_rank_that_a_run_does_not_have_nothing_is_known_not_even_zero() -> None:
    def job(*ranks: int) -> Trace:
        return run_of("job", kernels=[kernel(rank, 0, 400, rank=rank, device=f"GPU {rank}") for rank in ranks])

    rows = {row["rank"]: row for row in answer("ranks", job(0, 1), job(0)).frame.to_dicts()}
    assert rows[1]["busy_ns_a"] == 400
    missing = [f"{name}_{side}" for name in ("caused_wait_ns", "last_count") for side in ("b", "delta")]
    assert [rows[1][name] for name in missing] == [None] * 4


def test_of_two_runs_waits_and_transfers_are_per_cycle_as_the_total_is() -> None:
    def job(cycles: int) -> Trace:
        late, kernels = 40 * US, list[dict[str, Any]]()
        for at in range(2 * cycles):
            for rank in (0, 1):
                start = 1_000 * US * at + rank * late
                kernels.append(kernel(len(kernels), start, 100 * US - rank * late, "ncclDevKernel_AllReduce", rank=rank,
                                      device=f"GPU {rank}", seq=at, process_group="0") | {"kind": "collective"})
        return run_of("job", kernels=sorted(kernels, key=lambda row: row["start_ns"]), cycles=[
            one | {"rank": rank} for rank in (0, 1) for one in steps(*[2_000 * US] * cycles)])

    [row] = answer("collectives", job(3), job(6)).frame.to_dicts()
    for side in "ab":
        told = {name: row[f"{name}_{side}"] for name in ("per_cycle_ns", "wait_per_cycle_ns", "transfer_per_cycle_ns")}
        assert told["per_cycle_ns"] == told["wait_per_cycle_ns"] + told["transfer_per_cycle_ns"], told
        assert told["wait_per_cycle_ns"] > 0


def test_per_cycle_a_collective_is_matched_over_the_whole_run_and_not_among_those_in_the_cycles() -> None:
    """The fourth cycle is not whole, and on one GPU its collective begins in the third: from there on the order of
    those in whole cycles is another on each GPU."""
    ends = [200 * US * (number + 1) - 60 * US for number in range(8)]
    rows = []
    for number, end in enumerate(ends):
        early = 120 * US if number == 3 else 0
        for gpu, waits in ((0, 20 * US), (1, 5 * US * number)):
            first = end - 10 * US - waits - (early if gpu == 0 else 0)
            rows.append({**kernel(len(rows), first, end - first, "ncclDevKernel_AllReduce()", device=f"GPU {gpu}"),
                         "kind": "collective"})
            rows.append(kernel(len(rows), 200 * US * number + 5 * US, 20 * US, device=f"GPU {gpu}"))
    cycles = [{**one, "complete": number != 3} for number, one in enumerate(steps(*[200 * US] * 8))]
    run = run_of("two", kernels=rows, cycles=cycles)
    row = answer("collectives", run, run).frame.row(0, named=True)
    each = answer("kernels", run, run).frame.filter(pl.col("kind") == "collective")
    assert row["per_cycle_ns_a"] == pytest.approx(each["per_cycle_ns_a"].sum(), rel=1e-3)
    assert row["count_per_cycle_a"] == pytest.approx(8 / 7) == each["count_per_cycle_a"].max()
