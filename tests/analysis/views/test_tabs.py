"""Which views have a tab: none is hidden that could answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from history_runs import stepped

from warplens.analysis.contract.view import CannotAnswer
from warplens.analysis.history.runs import history_trace
from warplens.analysis.query.ask import ask
from warplens.analysis.views import OF_ONE_RUN, VIEWS, answerable, lacking, view
from warplens.loaders.ingest.opening import open_run
from warplens.loaders.trace import Trace

KEYED = [entry for entry in VIEWS if entry.key and entry.name != "sql"]
RUNS = ["demo/normal.json.gz", "kernel_table_unet_training.txt", "cycle_profile/normal", "nsys_kern_sum.csv",
        "counters/nvidia_smi_query.csv", "memory_snapshot.pickle", "dataset", "tb_views.jsonl"]


@pytest.fixture(params=RUNS)
def run(request: pytest.FixtureRequest, samples: Path) -> Iterator[Trace]:
    yield open_run(str(samples / request.param), use_cache=False)[0]


def test_a_view_without_a_tab_cannot_answer(run: Trace) -> None:
    shown = answerable((run,))
    for entry in KEYED:
        if entry not in shown:
            try:
                assert len(ask(entry.load(), (run,))) < entry.ranks
            except CannotAnswer:
                assert lacking(entry, (run,))


def test_tabs_follow_what_is_open(samples: Path) -> None:
    normal, abnormal = (open_run(str(samples / f"demo/{name}.json.gz"))[0] for name in ("normal", "abnormal"))
    names = {entry.name for entry in answerable((normal,))}
    assert "diff" not in names and {"overview", "launches", "timeline", "sql"} <= names
    assert "diff" in {entry.name for entry in answerable((normal, abnormal))}
    table, = open_run(str(samples / "nsys_kern_sum.csv"))
    assert not {"launches", "timeline", "idle", "ranks", "metrics"} & {entry.name for entry in answerable((table,))}
    assert answerable(()) == VIEWS


def test_a_view_of_one_run_says_so_of_a_history_and_not_that_nothing_was_recorded() -> None:
    history = history_trace(stepped(9, "gemm_c", 1.1, 5))
    assert {entry.name for entry in answerable((history,))} == {"history", "sql"}
    for name in ("kernels", "roofline", "diff"):
        assert lacking(next(entry for entry in VIEWS if entry.name == name), (history,)) == OF_ONE_RUN
    with pytest.raises(CannotAnswer, match=OF_ONE_RUN):
        ask(view("roofline"), (history,))
