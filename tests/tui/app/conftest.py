"""What the tests of the app count."""

from __future__ import annotations

import pytest

from warplens.analysis.core.options import Options
from warplens.analysis.table import table as tables
from warplens.analysis.table.view import Runs, View


@pytest.fixture
def questions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every question that is worked out from now on: its view and the labels of its runs."""
    asked: list[str] = []
    ask = tables.ask

    def noted(view: View, runs: Runs, options: Options | None = None) -> tables.Table:
        asked.append(f"{view.name} {[run.info.label for run in runs]}")
        return ask(view, runs, options)

    monkeypatch.setattr(tables, "ask", noted)
    return asked
