"""Messages and pipelines: which send meets which receive, what a rank waits for, and what it is worth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from runs import kernel, run_of

from warplens.analysis.communication.arrivals import arrivals_of
from warplens.analysis.contract.options import Options
from warplens.analysis.fleet.reduce import reduce
from warplens.analysis.query.ask import ask
from warplens.analysis.ranks.job_replay import JobReplay, job_replay_of
from warplens.analysis.views import view
from warplens.loaders.ingest.opening import open_run
from warplens.loaders.trace import Trace

US = 1_000
BACK = 100_000 * US  # How far the clock of rank 1 is ahead.


def end(index: int, rank: int, begin: int, finish: int, kind: str, labels: bool = True, **more: Any) -> dict[str, Any]:
    """One end of a message from rank 0 to rank 1, on the clock of its rank."""
    ahead = BACK if rank else 0
    said = {"collective": kind, "process_group": "pp", "group_ranks": "0,1", "src_rank": 0, "dst_rank": 1}
    return {**kernel(index, begin + ahead, finish - begin, "ncclDevKernel_SendRecv", rank=rank, device=f"GPU {rank}"),
            "kind": "collective", **(said if labels else {}), **more}


def together(index: int, at: int) -> list[dict[str, Any]]:
    """An all-reduce of both ranks, which gives them a clock."""
    return [{**kernel(index + rank, at + (BACK if rank else 0), 50 * US, "ncclDevKernel_AllReduce", rank=rank,
                      device=f"GPU {rank}"), "kind": "collective", "collective": "allreduce", "process_group": "dp",
             "group_ranks": "0,1", "seq": index} for rank in (0, 1)]


def job(
    sends: list[tuple[int, int]], receives: list[tuple[int, int]], labels: bool = True, clock: bool = True
) -> Trace:
    """Sends of rank 0 and receives of rank 1, each from and to a time in µs."""
    rows = [end(at, 0, begin * US, finish * US, "send", labels) for at, (begin, finish) in enumerate(sends)]
    rows += [end(100 + at, 1, begin * US, finish * US, "recv", labels) for at, (begin, finish) in enumerate(receives)]
    for number in range(4 if clock else 0):
        rows += together(200 + 2 * number, (10_000 + 200 * number) * US)
    return run_of("job", kernels=rows)


def messages(run: Trace) -> list[tuple[Any, ...]]:
    rows = ask(view("collectives"), (run,), Options()).frame.to_dicts()
    return [(row["pair"], row["count"], row["wait_ns"], row["last_rank"]) for row in rows if row["kind"] == "send→recv"]


def test_the_earlier_side_of_a_message_waits_for_the_later() -> None:
    run = job([(0, 90), (200, 250)], [(60, 90), (210, 250)])
    assert messages(run) == [("0→1", 2, 70 * US, 1)]
    waits = {row["rank"]: row["p2p_wait_ns"] for row in ask(view("ranks"), (run,), Options()).frame.to_dicts()}
    assert waits == {0: 70 * US, 1: 0}


def test_where_counts_differ_the_last_ones_meet() -> None:
    run = job([(0, 90), (200, 250)], [(210, 250)])
    assert messages(run) == [("0→1", 1, 10 * US, 1)]
    assert arrivals_of(run).unpaired == 1


def test_a_send_and_a_receive_that_never_ran_at_once_are_no_message_unless_numbers_say_so() -> None:
    apart = [end(0, 0, 0, 90 * US, "send"), end(1, 1, 500 * US, 600 * US, "recv")]
    assert arrivals_of(run_of("job", kernels=[*apart, *together(4, 0), *together(6, US * 900)])).paired == 0
    numbered = [{**one, "seq": 7} for one in apart]
    assert arrivals_of(run_of("job", kernels=[*numbered, *together(4, 0), *together(6, US * 900)])).paired == 1


def test_without_source_and_target_nothing_is_paired_and_no_clock_is_made() -> None:
    run = job([(0, 90)] * 4, [(60, 90)] * 4, labels=False, clock=False)
    arrivals = arrivals_of(run)
    assert (arrivals.paired, arrivals.unpaired, arrivals.clocks.sets.max()) == (0, 0, -1)
    table = ask(view("ranks"), (run,), Options())
    assert table.facts["pipeline"] is None and table.facts["straggler"] is None
    assert "8 SendRecv kernels without source and target: not paired." in table.notes


def test_ranks_that_no_collective_links_take_their_clock_from_messages() -> None:
    run = job([(at, at + 40) for at in range(0, 500, 100)], [(at, at + 40) for at in range(0, 500, 100)], clock=False)
    assert arrivals_of(run).clocks.offset.tolist() == [0.0, float(BACK)]


@pytest.fixture(scope="module")
def pipeline(samples: Path) -> Trace:
    """Three stages, two data-parallel ranks; stage 1 of data-parallel rank 1 (rank 3) computes 1.6 times as long."""
    (run,) = open_run(str(samples / "operations.parquet"), use_cache=False)
    return run


def test_the_straggler_of_a_pipeline_is_the_rank_that_would_shorten_the_cycle(pipeline: Trace) -> None:
    table = ask(view("ranks"), (pipeline,), Options())
    assert table.facts["straggler"]["rank"] == 3 and table.facts["pipeline"]["stages"] == 3
    assert (table.facts["pipeline"]["messages"], table.facts["pipeline"]["unpaired"]) == (96, 0)
    idle = {one["rank"]: one for one in table.facts["pipeline"]["ranks"]}
    assert idle[0]["warm_up_idle_ns"] == 0 and idle[4]["drain_idle_ns"] == 0
    assert idle[4]["warm_up_idle_ns"] > idle[2]["warm_up_idle_ns"] > 0
    worst = table.facts["slowdown"]["worst"][0]
    assert (worst["rank"], worst["stage"]) == (3, 1) and table.facts["slowdown"]["ratio"] > 1.1


def test_no_rank_saves_more_than_the_cycle_and_a_fast_one_saves_nothing(pipeline: Trace) -> None:
    table = ask(view("whatif"), (pipeline,), Options())
    saved = {row["name"]: row["saved_ns"] for row in table.frame.to_dicts()}
    cycle = table.facts["replay"]["recorded_ns"]
    assert max(saved, key=lambda name: saved[name]) == "rank 3 as fast as the others"
    assert 0.1 * cycle < saved["rank 3 as fast as the others"] < cycle and saved["rank 0 as fast as the others"] == 0


def test_half_of_the_ranks_is_a_job_of_these(pipeline: Trace) -> None:
    """Messages to ranks that nobody recorded are unpaired, and say nothing of the others."""
    some = pl.col("rank") < 4
    half = pipeline.with_tables(kernels=pipeline.kernels.filter(some), cycles=pipeline.cycles.filter(some))
    table = ask(view("ranks"), (half,), Options())
    assert table.facts["pipeline"]["messages"] == 48 and table.facts["pipeline"]["unpaired"] == 48
    assert isinstance(job_replay_of(half, Options()), JobReplay)


def test_the_picture_shows_the_pipeline_that_computes_most(pipeline: Trace) -> None:
    picture = ask(view("ranks"), (pipeline,), Options()).facts["pipeline"]["picture"]
    assert [(line["rank"], line["stage"]) for line in picture["lines"]] == [(1, 0), (3, 1), (5, 2)]
    first, slow, last = (line["cells"] for line in picture["lines"])
    assert first.startswith("FFFF") and last.startswith("W") and {*first, *last} <= set("FBW·")
    assert picture["lines"][1]["bubble"] < picture["lines"][0]["bubble"] and slow.count("B") > first.count("B")


def test_experts_compute_unevenly_between_a_dispatch_and_its_combine() -> None:
    rows: list[dict[str, Any]] = []
    for rank, long in enumerate((100, 300)):
        for number in range(3):
            at = 1_000 * US * number
            rows += [{**kernel(len(rows) + part, at + begin * US, dur * US, name, rank=rank, device=f"GPU {rank}"),
                      "kind": kind} for part, (name, begin, dur, kind) in enumerate((
                          ("deep_ep::intranode::dispatch<8>", 0, 50, "collective"),
                          ("grouped_gemm", 60, long, "kernel"),
                          ("deep_ep::intranode::combine<8>", 400, 50, "collective")))]
    table = ask(view("collectives"), (run_of("experts", kernels=rows),), Options())
    assert table.facts["experts"] == {"dispatches": 6, "combines": 6, "pairs": 3, "spread": 1.5}
    assert {row["kind"] for row in table.frame.to_dicts()} == {"dispatch", "combine"}


def two_stages(micro: int = 4, slow: int = 3) -> Trace:
    """Rank 0 computes 100 µs per micro-batch and sends it to rank 1, which takes ``slow`` times as long."""
    rows, free, number = list[dict[str, Any]](), 0, 0
    for cycle in range(3):
        begin = 10_000 * cycle
        for at in range(micro):
            done = begin + 100 * (at + 1)
            rows.append(kernel(number, (done - 100) * US, 100 * US, "forward", rank=0, device="GPU 0"))
            got = max(done, free) + 10
            rows += [end(number + 1, 0, done * US, got * US, "send", stream=9),
                     end(number + 2, 1, max(free, begin) * US, got * US, "recv", stream=9)]
            rows.append({**kernel(number + 3, got * US + BACK, 100 * slow * US, "forward", rank=1, device="GPU 1")})
            free, number = got + 100 * slow, number + 4
        rows += together(number, free * US)
        number += 2
    marks = [{"cycle": at, "start_ns": 10_000 * at * US + (BACK if rank else 0), "dur_ns": 9_000 * US, "rank": rank,
              "complete": True, "kind": "step", "label": f"step {at}", "source": "recorded"}
             for at in range(3) for rank in (0, 1)]
    return run_of("job", kernels=rows, cycles=marks)


def test_the_critical_path_goes_over_messages_from_rank_to_rank_and_is_as_long_as_the_cycle() -> None:
    replay = job_replay_of(two_stages(), Options())
    assert isinstance(replay, JobReplay)
    assert replay.path[0].begin == 0 and replay.path[-1].end == round(replay.replayed_ns)
    assert all(one.end == other.begin for one, other in zip(replay.path, replay.path[1:], strict=False))
    assert [step.worker for step in replay.path if step.kind == "kernel"] == [0, 1, 1, 1, 1]
    assert {step.kind for step in replay.path} == {"kernel", "message", "collective"}


def test_a_reduced_job_replays_as_its_recordings_do() -> None:
    run = two_stages()
    recorded, reduced = (job_replay_of(one, Options()) for one in (run, reduce(run)))
    assert isinstance(recorded, JobReplay) and isinstance(reduced, JobReplay)
    assert reduced.replayed_ns == pytest.approx(recorded.replayed_ns, rel=0.01)
    assert reduced.saved_ns == pytest.approx(recorded.saved_ns, rel=0.02)
    rows = ask(view("whatif"), (reduce(run),), Options()).frame.to_dicts()
    assert [row["name"] for row in rows if row["kind"] == "rank"] == ["rank 1 as fast as the others",
                                                                    "rank 0 as fast as the others"]
