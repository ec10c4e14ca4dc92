"""Recordings of host ranges alone, one lane per worker: a range that takes far longer on one lane is named."""

from __future__ import annotations

from runs import host, run_of

from warplens.analysis.contract.options import Options
from warplens.analysis.overview.sources import uneven_sentence
from warplens.analysis.query.ask import ask
from warplens.analysis.views import view
from warplens.loaders.trace import Trace

MS = 1_000_000


def lanes(*durations: int, name: str = "backward-compute") -> Trace:
    """A lane per duration (ms) with that range four times."""
    return run_of(host=[host(name, 50 * MS * at, dur * MS, "annotation", tid=tid)
                        for tid, dur in enumerate(durations) for at in range(4)])


def test_the_range_of_one_lane_that_takes_longer_is_named() -> None:
    run = lanes(10, 10, 10, 23)
    said = uneven_sentence(run)
    assert said == ("backward-compute takes 2.30× as long on thread 3 of process 1 as on the median of 4 threads: "
                    "92.00 ms, not 40.00 ms.")
    assert said in ask(view("overview"), (run,), Options()).notes


def test_lanes_that_take_about_as_long_or_are_few_say_nothing() -> None:
    assert uneven_sentence(lanes(10, 10, 10, 12)) is None and uneven_sentence(lanes(10, 10, 23)) is None
