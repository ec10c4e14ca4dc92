"""The call tree of the host table: found in one pass, the same compiled or not, kept or found when asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from warplens.loaders import schema
from warplens.loaders.ingest import call_tree as tree_of
from warplens.loaders.ingest.call_tree import columns
from warplens.loaders.ingest.call_tree.columns import call_tree
from warplens.loaders.ingest.call_tree.sweep import SWEEP
from warplens.loaders.ingest.opening import open_run

calls = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9_000), st.integers(0, 8_000)), min_size=1, max_size=14)


def host(*rows: tuple[int, int, int], kind: str = "op") -> pl.LazyFrame:
    """Slices given by thread, start and length."""
    tid, start, dur = zip(*rows, strict=True)
    frame = pl.DataFrame({"tid": tid, "start_ns": start, "dur_ns": dur, "pid": 1})
    return schema.conform("host", frame.lazy().with_columns(kind=pl.lit(kind)))


def test_a_slice_is_inside_of_the_closest_one_around_it() -> None:
    rows = (1, 0, 100_000), (1, 10_000, 50_000), (1, 20_000, 5_000), (1, 70_000, 10_000), (2, 15_000, 5)
    tree = call_tree(host(*rows))
    assert tree["parent"].to_list() == [None, 0, 1, 0, None]
    assert tree["depth"].to_list() == [0, 1, 2, 1, 0]
    assert tree["self_ns"].to_list() == [40_000, 45_000, 5_000, 10_000, 5]
    assert not tree["crosses"].any()


def test_of_slices_that_cross_the_later_takes_over_and_it_is_said_which() -> None:
    tree = call_tree(host((1, 0, 50_000), (1, 30_000, 50_000), (1, 60_000, 5_000)))
    assert tree["parent"].to_list() == [None, None, 1]
    assert tree["self_ns"].to_list() == [30_000, 45_000, 5_000]
    assert tree["crosses"].to_list() == [False, True, False]


def test_a_microsecond_too_long_is_rounding_and_no_crossing() -> None:
    tree = call_tree(host((1, 0, 50_000), (1, 30_000, 21_000)))
    assert tree["parent"].to_list() == [None, 0] and not tree["crosses"].any()
    assert tree["self_ns"].to_list() == [30_000, 20_000]


@pytest.mark.parametrize("kind", ["sched", "overhead"])
def test_what_was_done_to_a_thread_is_no_call_of_it(kind: str) -> None:
    tree = call_tree(pl.concat([host((1, 0, 50)), host((1, 10, 5), kind=kind), host((1, 11, 2))]))
    assert tree.rows() == [(None, 0, 48, False), (None, None, None, None), (0, 1, 2, False)]


@given(calls)
def test_self_times_of_a_thread_add_up_to_the_time_it_spent_in_slices(rows: list[tuple[int, int, int]]) -> None:
    tree = call_tree(host(*rows)).with_columns(pl.Series("tid", [row[0] for row in rows]))
    for (tid,), mine in tree.group_by("tid"):
        covered = {at for who, start, dur in rows if who == tid for at in range(start, start + dur)}
        within = int(mine["self_ns"].sum())
        # a slice that is cut to the end of its parent may lose a microsecond that nothing else covers
        assert len(covered) - columns.SLACK_NS * len(rows) <= within <= len(covered)


@given(calls)
def test_a_parent_encloses_its_children(rows: list[tuple[int, int, int]]) -> None:
    found = call_tree(host(*rows))["parent"].to_list()
    for child, parent in enumerate(found):
        if parent is not None:
            (who, start, dur), (there, begin, length) = rows[child], rows[parent]
            assert who == there and begin <= start
            assert start + dur <= begin + length + columns.SLACK_NS * len(rows)


hostile = st.one_of(
    st.integers(0, 40), st.integers(0, 9_000), st.integers(-(2**62), 2**62), st.sampled_from([None, 2**63 - 1, -5]))


@given(st.lists(st.tuples(
    st.sampled_from([None, 1, 2]), hostile, hostile, st.sampled_from(["op", "op", "python", "sched", None])
), min_size=1, max_size=24))
def test_whatever_the_times_and_threads_are_every_slice_has_its_row(
    rows: list[tuple[int | None, int | None, int | None, str | None]]
) -> None:
    tid, start, dur, kind = zip(*rows, strict=True)
    types = {"tid": pl.Int64, "start_ns": pl.Int64, "dur_ns": pl.Int64, "kind": pl.String}
    table = schema.conform("host", pl.LazyFrame(
        {"tid": tid, "start_ns": start, "dur_ns": dur, "kind": kind}, schema=types))
    tree = call_tree(table)
    is_call = [None not in row[1:] and row[3] != "sched" for row in rows]
    assert tree["depth"].is_not_null().to_list() == is_call
    for child, parent in enumerate(tree["parent"].to_list()):
        depth = tree["depth"][child] or 0
        assert parent is None or (rows[parent][0] == rows[child][0] and tree["depth"][parent] == depth - 1)


def test_the_compiled_sweep_gives_what_the_plain_one_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    from kept_code import native

    random = np.random.default_rng(3)
    start = np.sort(random.integers(0, 3_000_000, 5_000))
    table = host(*zip(random.integers(0, 3, 5_000).tolist(), start.tolist(),
                      random.integers(0, 90_000, 5_000).tolist(), strict=True))
    plain = call_tree(table, compiled=False)
    code = native(SWEEP)
    monkeypatch.setattr(columns, "WORTH_COMPILING", 0)
    monkeypatch.setattr(type(SWEEP), "load", lambda self: code)
    compiled = call_tree(table)
    assert plain["crosses"].any()
    assert_frame_equal(plain, compiled, check_dtypes=False)


def test_times_near_the_end_of_the_integers_do_not_overflow() -> None:
    tree = call_tree(host((1, 0, 2**62), (1, 2**61, 2**62), (7, -(2**60), 5)))
    assert tree["depth"].to_list() == [0, 1, 0]


def test_depth_and_time_of_its_own_are_told_however_large_they_are() -> None:
    levels, longest = 40_000, 10**10
    tree = call_tree(host(*((1, level, longest - 2 * level) for level in range(levels)), (2, 0, longest)))
    assert tree["depth"].to_list() == [*range(levels), 0]
    assert tree["self_ns"].to_list() == [*[2] * (levels - 1), longest - 2 * (levels - 1), longest]


@pytest.mark.parametrize("rows", [50, 1 << 19])
def test_kept_or_found_when_asked_for_the_tree_is_the_same(
    samples: Path, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree_of, "ROWS", rows)
    path = str(next(samples.rglob("*.pt.trace.json*")))
    (kept,), (deferred,) = open_run(path), open_run(path, use_cache=False)
    wanted = ("parent", "depth", "self_ns", "name")
    assert_frame_equal(call_tree(deferred.host).select(pl.all().cast(pl.Int64)),
                       deferred.host.select(pl.col(tree_of.COLUMNS).cast(pl.Int64)).collect())
    assert_frame_equal(kept.host.select(wanted).head(77).collect(), kept.host.select(wanted).collect().head(77),
                       categorical_as_str=True)
    assert_frame_equal(kept.host.select(wanted).collect(), deferred.host.select(wanted).collect(),
                       categorical_as_str=True)
    assert kept.host.select(pl.col("depth").max()).collect().item() > 0
    (again,) = open_run(path)
    assert again.derived_store is not None and again.derived_store.parts("call-tree") is not None
    assert_frame_equal(again.host.select(wanted).collect(), kept.host.select(wanted).collect(),
                       categorical_as_str=True)
    deep = deferred.host.filter(pl.col("depth") > 0).select("name").collect()
    assert_frame_equal(deep, kept.host.filter(pl.col("depth") > 0).select("name").collect(), categorical_as_str=True)
