"""What one late rank costs a job per cycle, from the recordings and from the dataset reduced from them."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_job import reduce_here, write_job

from warplens.analysis.contract.options import Options
from warplens.analysis.query.ask import ask
from warplens.analysis.replay.job import Job, job_of
from warplens.analysis.views import view
from warplens.loaders.ingest.opening import open_run


def job(path: Path) -> Job:
    found = job_of(open_run(str(path), use_cache=False)[0], Options())
    assert found is not None
    return found


def test_the_first_page_of_a_job_names_the_rank_that_the_others_wait_for(tmp_path: Path) -> None:
    told = {}
    for late in (2, None):
        run = open_run(str(write_job(tmp_path / f"late-{late}", late=late)), use_cache=False)[0]
        told[late] = [one for one in ask(view("overview"), (run,)).facts["rules"] if one["rule"] == "straggler"]
    assert told[2][0]["sentence"].startswith("Straggler: rank 2") and not told[None]


def test_a_late_rank_is_named_with_its_cost_and_the_reduced_dataset_says_the_same(tmp_path: Path) -> None:
    late = job(write_job(tmp_path / "late", late=2))
    even = job(write_job(tmp_path / "even", late=None))
    assert late.straggler == "rank 2" and late.straggler_ns is not None and even.straggler is None
    assert late.cycle_ns is not None and even.cycle_ns is not None
    assert late.straggler_ns == pytest.approx(late.cycle_ns - even.cycle_ns, rel=0.25)
    assert even.balance_ns < late.balance_ns and "Rank 2, as fast as the others, saves" in late.sentence()
    reduced = job(reduce_here(tmp_path / "late", tmp_path / "fleet"))
    assert reduced.straggler == "rank 2" and reduced.straggler_ns == pytest.approx(late.straggler_ns, rel=0.01)
    assert reduced.replayed and not late.replayed
    assert 0 < reduced.hidden_ns <= late.hidden_ns  # the dataset's is replayed, the recordings' here a bound
