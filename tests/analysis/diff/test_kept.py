"""What a diff keeps beside a run is what it would find out again, and nothing else is taken for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from runs import run_of

from warplens.analysis.contract.options import Options
from warplens.analysis.core import derived
from warplens.analysis.diff.prepare import samples as diff_samples
from warplens.analysis.query import ask as tables
from warplens.analysis.query.ask import ask
from warplens.analysis.views import view
from warplens.loaders.ingest.opening import open_run
from warplens.loaders.trace import Trace

VIEWS = ("diff", "overview", "cycles", "triage", "pairs")


def told(path: str, views: tuple[str, ...], options: Options | None, each_anew: bool = True) -> dict[str, Any]:
    """Views of the run beside itself, opened anew for each or once for all."""
    said, opened = {}, (open_run(path)[0], open_run(path)[0])
    for name in views:
        pair = (open_run(path)[0], open_run(path)[0]) if each_anew else opened
        table = ask(view(name), pair, options)
        said[name] = table.frame.to_dicts(), table.facts, table.summary, table.notes
    return said


@pytest.mark.parametrize(("name", "views", "options"), [
    pytest.param("demo/normal.json.gz", VIEWS, None, marks=pytest.mark.deep),
    ("kineto.pt.trace.json", VIEWS, None), ("kineto.pt.trace.json", ("diff", "cycles"), Options(warm_up=False)),
], ids=["demo", "kineto", "kineto without warm-up"])
def test_a_pair_asked_again_is_told_the_same(
    name: str, views: tuple[str, ...], options: Options | None, samples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(samples / name)
    monkeypatch.setattr(tables, "cached_answer", lambda view, runs, options, names, find: find())
    fresh = told(path, views, options, each_anew=False)
    monkeypatch.setattr(derived, "LEAST_BYTES", 0)
    assert told(path, views, options) == fresh

    def never(*_: object, **__: object) -> None:
        raise AssertionError("found out twice")

    if options is not None:
        return
    monkeypatch.setattr(diff_samples, "_in_order", never)
    assert told(path, views, options) == fresh
    monkeypatch.setattr(derived, "LEAST_BYTES", 1 << 40)
    with pytest.raises(AssertionError, match="found out twice"):
        told(path, views, options)


def run_with(rows: list[tuple[str | None, str | None]]) -> Trace:
    """A cycle profile of these functions and devices, in this order in each of two cycles."""
    return run_of(profile=[
        {"cycle": cycle, "cycle_ns": 1_000, "cycle_start_ns": 1_000 * cycle, "pid": 1, "function": function,
         "kind": "kernel", "device": device, "dur_ns": 10, "instances": 1}
        for cycle in range(2) for function, device in rows
    ])


def test_functions_are_told_apart_by_name_and_device_and_either_may_be_missing() -> None:
    places = [("f", "GPU 0"), ("f", "GPU 1"), ("f", None), (None, "GPU 0"), (None, None), ("g", "GPU 0")]
    rows = diff_samples.work_of(run_with(places), Options()).rows
    runs = diff_samples.function_runs(rows)
    assert sorted(runs.select("function", "device").rows(), key=str) == sorted(places, key=str)
    assert runs["length"].to_list() == [2] * len(places)
    assert diff_samples.function_runs(rows.clear()).is_empty()
    mixed = diff_samples.function_runs(rows[::2].vstack(rows[::2]))
    assert mixed["length"].to_list() == [1] * (2 * len(places))
