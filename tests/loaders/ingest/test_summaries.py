"""Summaries of runs: each input is opened once, whether it is a file or the folder of a job."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from warplens.loaders.errors import Unreadable
from warplens.loaders.ingest import spill, summaries
from warplens.loaders.trace import Trace


def _count(run: Trace) -> bytes:
    return str(run.kernels.collect().height).encode()


@pytest.fixture
def job(tmp_path: Path, samples: Path) -> Path:
    """Two ranks, each with a cache entry of its own."""
    words = [sys.executable, str(samples / "make_job.py"), str(tmp_path / "job"), "--ranks", "2", "--steps", "2"]
    subprocess.run(words, check=True, capture_output=True)
    return tmp_path / "job"


def _asked(path: Path, worker: int | None = None) -> bytes | Unreadable:
    ((_, made),) = summaries.summaries({0: str(path)}, "count-1", _count, worker=worker)
    return made


def test_a_job_of_several_entries_is_opened_once_for_each_of_its_states(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = spill.held_directories()
    both = _asked(job)
    with monkeypatch.context() as closed:
        closed.setattr(summaries, "open_run", lambda *words, **named: pytest.fail("opened again"))
        assert _asked(job) == both
    assert spill.held_directories() == before, "each held entry is an open file"
    first, second = sorted(job.iterdir())
    one = _asked(first)
    assert isinstance(both, bytes) and isinstance(one, bytes) and int(both) == 2 * int(one) > 0
    os.unlink(second)
    assert _asked(job) == one, "the folder is another one"


def test_the_runs_of_a_file_are_kept_apart(samples: Path) -> None:
    path = samples / "comparison.csv"
    for worker in (0, 1, 0):
        assert isinstance(_asked(path, worker), bytes)
    refused = _asked(path)
    assert isinstance(refused, Unreadable) and "holds 2 runs" in str(refused)
