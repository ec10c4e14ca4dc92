"""A database that is refused is let go of."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from warplens.loaders.nsys.database import NsysDatabase
from warplens.loaders.recording.database import Database
from warplens.loaders.recording.faults import Faults


class Counted(sqlite3.Connection):
    """A connection that counts how often one was closed."""

    closed = 0

    def close(self) -> None:
        Counted.closed += 1
        super().close()


@pytest.mark.parametrize("opened", [
    lambda path: NsysDatabase(path, Faults()), lambda path: Database(path, Faults())], ids=["nsys", "rocm"])
def test_a_damaged_database_does_not_stay_open(
    opened: Callable[[Path], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "damaged.sqlite"
    path.write_bytes(b"SQLite format 3\0" + bytes(range(100)))
    connect = sqlite3.connect
    monkeypatch.setattr(Counted, "closed", 0)
    monkeypatch.setattr(sqlite3, "connect", lambda *given, **named: connect(*given, factory=Counted, **named))
    with pytest.raises(sqlite3.Error):
        opened(path)
    assert Counted.closed == 1
