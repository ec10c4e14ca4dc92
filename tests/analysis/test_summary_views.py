"""A run without device work: the summary and the app go to the views that have its answer."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from runs import host, kernel, run_of, samples, steps

from warplens.analysis.contract.options import Options
from warplens.analysis.contract.view import CannotAnswer
from warplens.analysis.query.answering import without_device_work
from warplens.analysis.query.ask import ask
from warplens.analysis.query.report import summary
from warplens.analysis.views import view
from warplens.loaders.trace import Trace

CLOCK = samples("sm_clock", "GPU 0", (0, 1.0), unit="MHz")


@pytest.mark.parametrize(("run", "views"), [
    (run_of(host=[host("range", 0, 10, "annotation")]), ("ranges",)),
    (run_of(host=[host("hipMalloc", 0, 10, "runtime")], metrics=CLOCK), ("calls", "metrics")),
    (run_of(metrics=CLOCK), ("metrics",)),
])
def test_the_summary_is_of_what_was_recorded(run: Trace, views: tuple[str, ...]) -> None:
    assert without_device_work((run,)) == views
    assert tuple(table.view for table in summary((run,), Options())) == views
    assert all(len(table) for table in summary((run,), Options()))


@pytest.mark.parametrize("run", [
    run_of(kernels=[kernel(0, 0, 10)], metrics=CLOCK), run_of(host=[host("aten::mm", 0, 10)], metrics=CLOCK),
])
def test_device_work_and_operators_keep_the_overview(run: Trace) -> None:
    assert without_device_work((run,)) == ()
    assert summary((run,), Options())[0].view == "overview"


@pytest.mark.parametrize(("hosts", "listed"), [
    ([host("aten::mm", 0, 10)], "ops"), ([host("range", 0, 10, "annotation")], "ranges"), ([], "kernels"),
])
def test_steps_without_a_device_are_followed_by_what_the_host_did(hosts: list[dict[str, Any]], listed: str) -> None:
    """It was a list of kernels that had none."""
    tables = summary((run_of(host=hosts, cycles=steps(20)),), Options())
    assert [table.view for table in tables] == ["overview", "cycles", listed]


def test_what_no_device_did_is_not_called_nothing() -> None:
    run = run_of(host=[host("aten::mm", 0, 10), host("aten::relu", 20, 30), host("aten::mm", 60, 15)])
    table = ask(view("ops"), (run,), Options())
    assert table.frame.select(pl.col("name").cast(pl.String), "calls", "host_self_ns", "device_self_ns").rows() == [
        ("aten::relu", 1, 30, None), ("aten::mm", 2, 25, None)]
    assert table.summary == ("2 operators · 3 calls · 55 ns on the host",)
    found = ask(view("overview"), (run,), Options())
    sentence = "Top operator: aten::relu, 54.5% of the operators' host time (30 ns in 1 call)."
    assert sentence in found.facts["findings"]
    both = run_of(host=[host("aten::mm", 0, 10)], kernels=[kernel(0, 5, 10)])
    assert "Top operator" not in str(ask(view("overview"), (both,), Options()).facts["findings"])


@pytest.mark.parametrize("name", ["overview", "cycles", "diff"])
def test_of_two_runs_without_a_common_question_each_is_said_with_the_view_that_shows_it(name: str) -> None:
    """It named A alone, as if B were empty too."""
    runs = run_of(metrics=CLOCK), run_of(kernels=[kernel(0, 0, 10)])
    for pair, said in (
        (runs, "A holds counters; B holds device activities: --run a --view metrics and --run b --view overview"),
        (runs[::-1], "A holds device activities; B holds counters: --run a --view overview and --run b --view metrics"),
    ):
        with pytest.raises(CannotAnswer, match=said):
            ask(view(name), pair, Options())
    with pytest.raises(CannotAnswer, match=r"^(?!.*--run)"):
        ask(view(name), (runs[0], runs[0]), Options())
