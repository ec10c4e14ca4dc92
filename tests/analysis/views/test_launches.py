"""The launches view: what was recorded, in its order."""

from __future__ import annotations

import pytest

from warplens.analysis.contract.view import CannotAnswer

A = [{"name": "first", "kind": "kernel", "dur_ns": 5}, {"name": "wait", "kind": "sync", "dur_ns": 9},
     {"name": "second", "kind": "memcpy", "dur_ns": 7, "grid": "8,1,1"}]


def test_launches_come_in_recorded_order_without_waits(run_of, asked):
    table = asked("launches", run_of(kernels=A))
    assert table.frame.select("index", "name", "grid").rows() == [(0, "first", None), (2, "second", "8,1,1")]
    assert table.notes == ("1 synchronisations only wait and are left out.",)


def test_of_two_runs_the_first_is_shown_and_the_note_says_so(run_of, asked):
    b = [{"name": "other", "kind": "kernel", "dur_ns": 5}]
    table = asked("launches", run_of("a", kernels=A), run_of("b", kernels=b))
    assert table.frame["name"].to_list() == ["first", "second"]
    assert table.notes[0].startswith("These are the launches of A")


def test_sums_have_no_launches(run_of, asked):
    with pytest.raises(CannotAnswer, match="sums, not launches"):
        asked("launches", run_of(kernel_stats=[{"name": "k", "kind": "kernel", "count": 4, "total_ns": 100}]))
    with pytest.raises(CannotAnswer, match="nothing a device did"):
        asked("launches", run_of(host=[{"name": "op", "kind": "op", "start_ns": 0, "dur_ns": 1}]))
