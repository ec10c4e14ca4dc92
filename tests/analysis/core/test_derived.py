"""An answer that rests on what was derived is the one that was found out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from polars.testing import assert_frame_equal

from warplens.analysis.contract.view import CannotAnswer
from warplens.analysis.core import derived
from warplens.analysis.query.ask import ask
from warplens.analysis.views import VIEWS, view
from warplens.loaders.ingest.opening import open_run


def answers(*paths: str, each_anew: bool = False) -> dict[str, Any]:
    """Every view of a run or two, opened once for all or anew for each: all that is said, or why there is nothing."""
    said: dict[str, Any] = {}
    opened = tuple(open_run(path)[0] for path in paths)
    for one in (view(entry.name) for entry in VIEWS):
        for shape in filter(None, (one, one.other)):
            try:
                table = ask(shape, tuple(open_run(path)[0] for path in paths) if each_anew else opened, None)
            except CannotAnswer as error:
                said[f"{shape.name} {shape.noun}"] = str(error)
            else:
                exported = msgspec.json.decode(msgspec.json.encode(table.all_facts))
                told = exported, table.notes, table.summary, table.picture, table.rows_below, table.page, table.sources
                said[f"{shape.name} {shape.noun}"] = table.frame, *told
    return said


@pytest.mark.parametrize("pattern", [
    "*.pt.trace.json*", "*.sqlite", *(pytest.param(one, marks=pytest.mark.deep) for one in ("*.xplane.pb", "*.rpd")),
    "ncu_*.csv"])
@pytest.mark.parametrize("runs", [1, 2])
def test_kept_answers_are_those_that_were_found_out(
    samples: Path, pattern: str, runs: int, deep: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not deep and (runs, pattern) in ((1, "ncu_*.csv"), (1, "*.pt.trace.json*"), (2, "*.sqlite")):
        pytest.skip("make test-deep; what has cycles, and what has none, is kept alike whatever the format")
    paths = [str(path) for path in sorted(samples.rglob(pattern))[:runs]]
    fresh = answers(*paths)
    run = open_run(paths[0])[0]
    assert run.derived_store is not None and run.derived_store.read(f"cycles-{derived.code_hash()}") is None
    monkeypatch.setattr(derived, "LEAST_BYTES", 0)
    answers(*paths)
    assert run.derived_store.read(f"cycles-{derived.code_hash()}") is not None
    for name, again in answers(*paths, each_anew=True).items():
        if isinstance(again, str):
            assert again == fresh[name]
            continue
        frame, *told = again
        assert_frame_equal(frame, fresh[name][0], categorical_as_str=True)
        assert told == list(fresh[name][1:]), name


def test_what_other_code_found_out_is_not_believed(samples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(derived, "LEAST_BYTES", 0)
    run = open_run(str(next(samples.rglob("*.pt.trace.json*"))))[0]
    assert derived.derived_value(run, "answer", int, lambda: 1) == 1
    assert derived.derived_value(run, "answer", int, lambda: 2) == 1
    monkeypatch.setattr(derived, "code_hash", lambda: "0123456789abcdef")
    assert derived.derived_value(run, "answer", int, lambda: 3) == 3
