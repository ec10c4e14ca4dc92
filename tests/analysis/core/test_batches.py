"""Columns of numbers and texts made batch by batch, held against the columns as they are."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs import kernel, run_of

from warplens.analysis.communication.devices import communication
from warplens.analysis.core.batches import (
    ABSENT,
    TextColumn,
    batches,
    in_one,
    in_order,
    integer_arrays,
    match,
    rows_by_device,
    values_at,
)

SOME = st.none() | st.integers(-3, 3) | st.sampled_from([2**31 - 1, 2**31, -(2**31) - 1, 2**62])


@given(st.lists(SOME, max_size=8), st.booleans())
def test_numbers_are_those_of_the_column_however_wide(values, narrow):
    column = pl.Series("a", values, dtype=pl.Int64)
    found = integer_arrays(column.to_frame().lazy(), *(["a"] if narrow else []))["a"]
    assert found.tolist() == column.fill_null(ABSENT).to_list()


@pytest.mark.parametrize("batched", [True, False])
def test_rows_come_in_order_whether_polars_gives_batches_or_not(batched, monkeypatch):
    if not batched:
        monkeypatch.delattr(pl.LazyFrame, "collect_batches")
    found = list(batches(pl.LazyFrame({"a": range(300_000)})))
    assert batched or len(found) == 1
    assert pl.concat(found)["a"].to_list() == list(range(300_000))


@given(st.lists(st.lists(st.integers(0, 1), max_size=3), max_size=4))
def test_pieces_in_one_are_one_after_the_other(pieces):
    whole = in_one([np.array(piece, dtype=np.int64) for piece in pieces])
    assert whole.tolist() == [value for piece in pieces for value in piece]


def test_one_value_for_all_takes_no_room_and_is_still_as_long_as_asked():
    whole = in_one([np.broadcast_to(np.int64(7), 3), np.broadcast_to(np.int64(7), 2)])
    assert whole.strides == (0,) and len(whole) == 5
    assert in_order(whole, np.array([4, 0])).tolist() == [7, 7]


@given(st.lists(st.integers(-2, 5), max_size=6), st.lists(st.integers(-2, 5), max_size=6), st.booleans())
def test_the_first_row_with_an_id_is_found_whatever_the_width(have, wanted, narrow):
    width = np.int32 if narrow else np.int64
    ranks = (np.broadcast_to(np.int64(ABSENT), len(wanted)), np.broadcast_to(np.int64(ABSENT), len(have)))
    found = match((ranks[0], np.array(wanted, np.int64)), (ranks[1], np.array(have, width)))
    assert found.tolist() == [have.index(one) if one in have else -1 for one in wanted]


def test_a_value_is_null_where_there_is_no_row_and_where_it_was_not_recorded():
    assert values_at(np.array([5, ABSENT]), np.array([0, 1, -1])).to_list() == [5, None, None]


@given(st.lists(st.none() | st.sampled_from(["a", "b", "ä"]), max_size=8))
def test_a_text_column_is_its_column(texts):
    column = pl.Series(texts, dtype=pl.Categorical())
    held = TextColumn.of(column)
    assert held.at(np.arange(len(texts))).to_list() == texts
    assert held.where(lambda text: text < "b").tolist() == [text == "a" for text in texts]
    assert held.mapped(lambda text: 1 if text is None else 2).tolist() == [1 if text is None else 2 for text in texts]


def test_devices_come_by_rank_and_name_those_without_first():
    names = pl.Series(["GPU 1", "GPU 0", None, "GPU 0", "GPU 1"], dtype=pl.Categorical())
    codes = names.to_physical().cast(pl.Int64).fill_null(ABSENT).to_numpy()
    found = rows_by_device(np.array([1, 1, 1, ABSENT, 1]), codes)
    assert [(device, rank, rows.tolist()) for device, rank, rows in found] == [
        ("GPU 0", None, [3]), (None, 1, [2]), ("GPU 0", 1, [1]), ("GPU 1", 1, [0, 4])]


def test_times_near_32_bits_are_added_up_in_64():
    run = run_of(kernels=[kernel(0, 2**31 - 100, 200, kind="collective")])
    assert [device.comm_ns for device in communication(run)] == [200]
