"""What the tests of the app count."""

from __future__ import annotations

import pytest

from warplens.analysis.contract.options import Options
from warplens.analysis.contract.view import Runs, View
from warplens.analysis.query import ask as tables


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
