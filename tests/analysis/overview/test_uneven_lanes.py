"""Recordings of host ranges alone, one lane per worker: a range that takes far longer on one lane is named."""

from __future__ import annotations

from runs import host, run_of

from warplens.analysis.contract.options import Options
from warplens.analysis.query.ask import ask
from warplens.analysis.views import view
from warplens.loaders.trace import Trace

MS = 1_000_000


def lanes(*durations: int, name: str = "backward-compute") -> Trace:
    """A lane per duration (ms) with that range four times."""
    return run_of(host=[host(name, 50 * MS * at, dur * MS, "annotation", tid=tid)
                        for tid, dur in enumerate(durations) for at in range(4)])


def said(run: Trace) -> str | None:
    """The sentence of the rule, from the overview."""
    rules = ask(view("overview"), (run,), Options()).facts["rules"]
    return next((one["sentence"] for one in rules if one["rule"] == "slow lane"), None)


def test_the_range_of_one_lane_that_takes_longer_is_named() -> None:
    assert said(lanes(10, 10, 10, 23)) == (
        "backward-compute takes 2.30× as long on thread 3 of process 1 as on the median of 4 such threads: 92.00 ms, "
        "not 40.00 ms.")


def test_lanes_that_take_about_as_long_or_are_few_or_half_of_which_are_slow_say_nothing() -> None:
    assert [said(lanes(*times)) for times in ((10, 10, 10, 12), (10, 10, 23), (10, 10, 10, 10, 23, 23))] == [None] * 3


def test_lanes_with_other_ranges_are_not_compared_and_numbers_in_names_do_not_matter() -> None:
    others = lanes(10, 10, 10).host.collect().to_dicts()
    alone = [host("evaluate", 0, 900 * MS, "annotation", tid=9)]
    numbered = [host(f"layer {tid}", 50 * MS * at, dur * MS, "annotation", tid=tid)
                for tid, dur in enumerate((10, 10, 10, 15)) for at in range(4)]
    assert said(run_of(host=[*(host(row["name"], row["start_ns"], row["dur_ns"], "annotation", tid=row["tid"])
                               for row in others), *alone])) is None
    assert str(said(run_of(host=numbered))).startswith("layer # takes 1.50× as long on thread 3")


def test_more_calls_are_said() -> None:
    run = run_of(host=[host("load", 50 * MS * at, 10 * MS, "annotation", tid=tid)
                       for tid, calls in enumerate((4, 4, 4, 8)) for at in range(calls)])
    assert str(said(run)).endswith("80.00 ms, not 40.00 ms in 8 calls, not 4.")
