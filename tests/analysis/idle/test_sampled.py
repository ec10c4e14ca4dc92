"""CPU samples count in the gap that they were taken in: from its begin, and before its end."""

from __future__ import annotations

import polars as pl
from runs import kernel, run_of

from warplens.analysis.idle.sampled import sampled_sentences, sampled_while_idle


def samples(*moments: int, rank: int | None = None) -> list[dict[str, object]]:
    return [{"start_ns": at, "pid": 1, "tid": 1, "function": f"at{at}", "stack": f"at{at} (app)", "state": "Running",
             "call": None, "rank": rank} for at in moments]


def gaps(*spans: tuple[int, int], rank: int | None = None) -> pl.LazyFrame:
    rows = [("GPU 0", rank, start, dur) for start, dur in spans]
    return pl.LazyFrame(rows, schema={"device": pl.String, "rank": pl.Int64, "start_ns": pl.Int64, "dur_ns": pl.Int64},
                        orient="row")


def test_a_sample_is_in_a_gap_from_its_begin_to_before_its_end() -> None:
    run = run_of(kernels=[kernel(0, 0, 10)], call_chains=samples(9, 10, 15, 20, 29, 30, 35, 39, 40))
    (one,) = sampled_while_idle(run, gaps((10, 10), (30, 10)))
    assert one["device"] == "GPU 0" and one["rank"] is None
    assert sorted(one["functions"]) == ["at10", "at15", "at30", "at35", "at39"] and one["samples"] == 5
    assert sampled_sentences([one])[0].startswith("While GPU 0 was idle the CPU ran at10 (20%)")


def test_a_rank_has_its_own_samples_and_those_without_a_rank() -> None:
    run = run_of(kernels=[kernel(0, 0, 10)], call_chains=[*samples(11), *samples(12, rank=1), *samples(13, rank=2)])
    (one,) = sampled_while_idle(run, gaps((10, 10), rank=1))
    assert sorted(one["functions"]) == ["at11", "at12"]


def test_without_samples_nothing_is_said() -> None:
    assert sampled_while_idle(run_of(kernels=[kernel(0, 0, 10)]), gaps((10, 10))) == []
    outside = sampled_while_idle(run_of(kernels=[kernel(0, 0, 10)], call_chains=samples(5)), gaps((10, 10)))
    assert [one["samples"] for one in outside] == [0] and sampled_sentences(outside) == ()
