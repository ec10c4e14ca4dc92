"""A run without device work: the summary and the app go to the views that have its answer."""

from __future__ import annotations

import pytest
from runs import host, kernel, run_of, samples

from warplens.analysis.contract.options import Options
from warplens.analysis.query.report import summary, without_device_work
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
