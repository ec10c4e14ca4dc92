"""A format that counts how often it is read, and a file of it: what the tests of the cache are written with."""

from __future__ import annotations

from pathlib import Path

import pytest
from counted_reads import Counted

from warplens.loaders import registry


@pytest.fixture
def loader(monkeypatch: pytest.MonkeyPatch) -> Counted:
    """The only installed loader."""
    one = Counted()
    monkeypatch.setattr(registry, "installed", lambda: (one,))
    return one


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file that it claims."""
    path = tmp_path / "run.counted"
    path.write_text("COUNTED one")
    return path
