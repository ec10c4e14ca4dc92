"""A column kept as offsets is the column that was given."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warplens.analysis.table import rows as table_rows
from warplens.analysis.table.rows import Offsets

EDGES = {pl.Int64: (-(1 << 63), (1 << 63) - 1), pl.UInt64: (0, (1 << 64) - 1)}


@given(st.data(), st.sampled_from([pl.Int64, pl.UInt64]))
def test_every_value_comes_back(data: st.DataObject, dtype: type[pl.DataType]) -> None:
    low, high = EDGES[dtype]
    least = data.draw(st.integers(low, high))
    most = min(high, least + data.draw(st.sampled_from([0, 1000, (1 << 32) - 1, 1 << 32, 1 << 63])))
    values = pl.Series("at", data.draw(st.lists(st.integers(least, most), min_size=1, max_size=40)), dtype=dtype)
    ids = pl.Series(data.draw(st.lists(st.integers(0, len(values) - 1), max_size=20)), dtype=pl.UInt32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_rows, "SHIFT", 2)
        kept = Offsets.of(values)
        blocks = [values[at : at + 4] for at in range(0, len(values), 4)]
        fits = all(max(block.to_list()) - min(block.to_list()) < 1 << 32 for block in blocks)
        assert (kept is not None) == fits
        if kept is not None:
            assert kept.whole().equals(values, check_dtypes=True, check_names=True)
            assert kept.gather(ids).equals(values.gather(ids), check_dtypes=True, check_names=True)


@pytest.mark.parametrize(
    "values", [pl.Series([1, None], dtype=pl.Int64), pl.Series([1, 2], dtype=pl.UInt32), pl.Series([], dtype=pl.Int64)]
)
def test_what_it_is_not_for_is_left_alone(values: pl.Series) -> None:
    assert Offsets.of(values) is None
