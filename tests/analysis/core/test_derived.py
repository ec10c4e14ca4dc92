"""An answer that rests on what was derived is the one that was found out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from polars.testing import assert_frame_equal

from warplens.analysis.core import derived
from warplens.analysis.table.table import ask
from warplens.analysis.table.view import CannotAnswer
from warplens.analysis.views import VIEWS, view
from warplens.loaders.ingest.opening import open_run


def answers(path: str, each_anew: bool = False) -> dict[str, Any]:
    """Every view of a run, opened once for all or anew for each: rows, facts and notes, or why there are none."""
    said: dict[str, Any] = {}
    (run,) = open_run(path)
    for name in (entry.name for entry in VIEWS):
        try:
            table = ask(view(name), open_run(path) if each_anew else (run,), None)
        except CannotAnswer as error:
            said[name] = str(error)
        else:
            said[name] = table.frame, table.all_facts, table.notes, table.summary
    return said


@pytest.mark.parametrize("pattern", ["*.pt.trace.json*", "*.sqlite", "*.xplane.pb", "*.rpd", "ncu_*.csv"])
def test_kept_answers_are_those_that_were_found_out(
    samples: Path, pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(min(samples.rglob(pattern)))
    fresh = answers(path)
    run = open_run(path)[0]
    assert run.derived_store is not None and run.derived_store.read(f"cycles-{derived._code()}") is None
    monkeypatch.setattr(derived, "LEAST_BYTES", 0)
    answers(path)
    assert run.derived_store.read(f"cycles-{derived._code()}") is not None
    for name, again in answers(path, each_anew=True).items():
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
    monkeypatch.setattr(derived, "_code", lambda: "0123456789abcdef")
    assert derived.derived_value(run, "answer", int, lambda: 3) == 3
