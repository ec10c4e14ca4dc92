"""Rows: what stays on disk gives the same answers as what is in memory, and orders are the ones promised."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from warplens.analysis.contract.column import Column
from warplens.analysis.contract.options import Options
from warplens.analysis.contract.view import Answer, Runs, View
from warplens.analysis.query import ask as table_module
from warplens.analysis.query.ask import ask
from warplens.analysis.table import rows as rows_module
from warplens.analysis.table import sorting
from warplens.analysis.table.filters import _COMPARISONS, BadFilter, Filter
from warplens.analysis.table.rows import Rows, few_runs
from warplens.analysis.table.sorting import narrow, sorted_ids, true_ids
from warplens.analysis.table.table import Table, coverage

NAME, HALF = pl.Categorical(), pl.Float32()
RELAXED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
NAMES = ["gemm_a", "Gemm_B", "zeta", "ncclAllReduce", "", "a very long name indeed"]
COLUMNS = (
    Column("index", "#", "count", "order"),
    Column("start_ns", "start", "ns", "start", role="moment"),
    Column("dur_ns", "duration", "ns", "duration", role="time"),
    Column("name", "kernel", "text", "name", elastic=True, role="name"),
    Column("tensor", "tensor", "fraction", "tensor cores"),
    Column("grid", "grid", "text", "grid"),
    Column("late", "late", "bool", "late"),
)


def frame(rows: int) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "index": range(rows),
            "start_ns": [5_000_000_000 * i for i in range(rows)],
            "dur_ns": [None if i % 11 == 3 else (i * 7919) % 50 for i in range(rows)],
            "name": pl.Series([None if i % 13 == 5 else NAMES[(i * 3 + i // 7) % 6] for i in range(rows)], dtype=NAME),
            "tensor": pl.Series([None if i % 5 == 1 else i * 31 % 17 / 17 - 0.3 for i in range(rows)], dtype=HALF),
            "grid": pl.Series([None] * rows, dtype=NAME),
            "late": [None if i % 3 == 0 else i % 2 == 0 for i in range(rows)],
        }
    )


@pytest.fixture(params=["all rows", "some rows left out"])
def both(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Table, Table]:
    """The same answer in memory by plain sorts, and left on disk in small stretches with packed sorts."""
    frame(1000).write_ipc(tmp_path / "rows.arrow", compression="zstd")
    keep = pl.col("index") % 4 != 1 if request.param != "all rows" else None

    def build(runs: Runs, options: Options) -> Answer:
        return Answer(pl.scan_ipc(tmp_path / "rows.arrow"), recorded=True, keep=keep)

    view = View("launches", COLUMNS, build)
    memory = ask(view, (), Options())
    monkeypatch.setattr(table_module, "ON_DISK", 1)
    for name, size in (("STRETCH", 64), ("SPREAD", 150)):
        monkeypatch.setattr(rows_module, name, size)
    disk = ask(view, (), Options())
    assert disk.rows.on_disk and not memory.rows.on_disk
    monkeypatch.setattr(sorting, "PACKED", 1)
    return memory, disk


def every(table: Table) -> list[tuple[Any, ...]]:
    return [row for start in range(0, len(table), 37) for row in table.window(start, start + 37)]


def test_windows_are_the_same(both: tuple[Table, Table]) -> None:
    memory, disk = both
    assert every(disk) == every(memory) == memory.shown().rows() == disk.shown().rows()
    assert disk.shown().schema == memory.shown().schema
    assert disk.total_rows == memory.total_rows == len(disk)
    assert disk.window(990, 2000) == memory.window(990, 2000)
    assert disk.window(3, 5, ["name", "index"]) == memory.window(3, 5, ["name", "index"])
    assert disk.head(7).window(0, 99) == memory.head(7).window(0, 99) == every(memory)[:7]


@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("column", [column.name for column in COLUMNS])
@pytest.mark.parametrize("condition", [None, "gemm", "dur_ns<5ns"])
def test_sorts_are_the_same_and_stable(
    both: tuple[Table, Table], column: str, descending: bool, condition: str | None
) -> None:
    memory, disk = (table.filtered(Filter(condition) if condition else None) for table in both)
    rows = every(memory)
    at = [c.name for c in COLUMNS].index(column)
    expected = sorted((r for r in rows if r[at] is not None), key=lambda r: r[at], reverse=descending)
    expected += [r for r in rows if r[at] is None]  # sorted() is stable, also in reverse
    assert every(memory.sort(column, descending)) == expected
    assert every(disk.sort(column, descending)) == expected


@pytest.mark.parametrize(
    "text",
    ["gemm", "!gemm", "name=zeta", "name!=zeta", "!name=zeta", "name~^g", "dur_ns>=10ns", "!dur_ns>10", "late=true",
     "tensor>20%", "grid=1,1,1", "gemm dur_ns<30", "no such thing", "tensor~0.0"],
)
def test_filters_are_the_same(both: tuple[Table, Table], text: str) -> None:
    memory, disk = both
    filtered = memory.filtered(Filter(text))
    assert every(disk.filtered(Filter(text))) == every(filtered)
    assert every(disk.sort("dur_ns", True).filtered(Filter(text))) == every(filtered.sort("dur_ns", True))
    assert every(disk.sort("dur_ns", True).filtered(Filter(text)).filtered(None)) == every(memory.sort("dur_ns", True))
    shown = len(filtered)
    assert len(memory.filtered(Filter(text, invert=True))) == len(memory) - shown


def test_a_filter_that_makes_no_sense_is_refused(both: tuple[Table, Table]) -> None:
    for table in both:
        for text in ("name~[", "dur_ns>fast", "index>3ms", '"open'):
            with pytest.raises(BadFilter):
                table.filtered(Filter(text))


def test_search_walks_over_all_matches_both_ways(both: tuple[Table, Table]) -> None:
    for table in both:
        for shown in (table, table.sort("dur_ns", False), table.filtered(Filter("dur_ns<20"))):
            hits = [i for i, row in enumerate(every(shown)) if row[3] and "gemm" in row[3].lower()]
            assert hits
            found, at = [], shown.find("GEMM", 0)
            while at is not None:
                found.append(at)
                at = shown.find("GEMM", at + 1) if at + 1 < len(shown) else None
            assert found == hits
            assert shown.find("GEMM", len(shown) - 1, backwards=True) == hits[-1]
            assert shown.find("GEMM", hits[1] - 1, backwards=True) == hits[0]
            assert shown.find("no such thing", 0) is None


def test_rows_keep_their_identity(both: tuple[Table, Table]) -> None:
    for table in both:
        row = table.row_id(123)
        values = table.window(123, 124)
        moved = table.sort("name", True)
        at = moved.position(row)
        assert at is not None and moved.window(at, at + 1) == values and moved.row_id(at) == row
        gone = table.filtered(Filter("no such thing"))
        assert gone.position(row) is None and len(gone) == 0 and gone.window(0, 10) == []
        assert moved.same_rows(table) and not table.same_rows(table.head(3))


def test_what_the_list_asks_for(both: tuple[Table, Table]) -> None:
    for table in both:
        assert table.widest("name") == len("a very long name indeed") and table.widest("dur_ns") == 0
        table.prepare()
        assert table.threshold(3) == ("dur_ns", float(sorted(row[2] or 0 for row in every(table))[-3]))
        assert table.sort("start_ns", True).main == "start_ns"
        assert table.filtered(Filter("name=zeta")).total("dur_ns") == sum(
            row[2] or 0 for row in every(table) if row[3] == "zeta"
        )


VALUES = {
    pl.Int64: st.integers(-(2**63), 2**63 - 1), pl.Int32: st.integers(-(2**31), 2**31 - 1),
    pl.UInt8: st.integers(0, 255), pl.Float32: st.floats(width=32), pl.Float64: st.floats(),
    pl.Categorical: st.sampled_from(NAMES), pl.String: st.text(max_size=3), pl.Boolean: st.booleans(),
}


@RELAXED
@given(st.data(), st.sampled_from(list(VALUES)), st.booleans())
def test_every_way_to_sort_gives_one_order(data: st.DataObject, dtype: type[pl.DataType], descending: bool) -> None:
    values = pl.Series("v", data.draw(st.lists(st.none() | VALUES[dtype], max_size=40)), dtype=dtype)
    plain = sorted_ids(values, descending).to_list()
    before = sorting.PACKED
    sorting.PACKED = 0
    try:
        packed = sorted_ids(values, descending).to_list()
    finally:
        sorting.PACKED = before
    assert packed == plain
    raw = values.to_list()
    known = [i for i in range(len(raw)) if raw[i] is not None and raw[i] == raw[i]]
    unknown = [i for i in range(len(raw)) if i not in known]
    assert plain == sorted(known, key=lambda i: raw[i], reverse=descending) + unknown


@RELAXED
@given(st.lists(st.none() | st.integers(-5, 2**40)), st.lists(st.none() | st.sampled_from(NAMES)))
def test_narrowing_changes_no_value(numbers: list[int | None], names: list[str | None]) -> None:
    assert narrow(pl.Series(numbers, dtype=pl.Int64)).to_list() == numbers
    assert narrow(pl.Series(names, dtype=pl.Categorical)).to_list() == names


@RELAXED
@given(
    st.lists(st.none() | st.integers(0, 300), max_size=40), st.sampled_from(["=", "!=", ">", ">=", "<", "<="]),
    st.sampled_from([-1.0, 0.0, 0.5, 7.0, 20.25, 254.5, 255.0, 300.0, 301.0, 1e30]),
)
def test_whole_numbers_compare_with_any_number(numbers: list[int | None], op: str, wanted: float) -> None:
    table = Table("launches", (Column("n", "n", "count", "n"),), Rows(pl.DataFrame({"n": numbers}, {"n": pl.Int64})), 0)
    test = _COMPARISONS[op]
    expected = [value for value in numbers if value is not None and test(value, wanted)]
    assert [row[0] for row in every(table.filtered(Filter(f"n{op}{wanted}")))] == expected


@RELAXED
@given(
    st.lists(st.tuples(st.none() | st.integers(-5, 300), st.booleans()), max_size=40), st.booleans(), st.booleans(),
)
def test_the_sum_of_the_rows_shown(rows: list[tuple[int | None, bool]], part: bool, ordered: bool) -> None:
    """However the rows that pass are known: by their numbers where only some belong to the answer, else one by one."""
    frame = pl.DataFrame(rows, {"n": pl.Int64, "belongs": pl.Boolean}, orient="row")
    kept = true_ids(frame["belongs"]) if part else None
    table = Table("launches", (Column("n", "n", "count", "n"),), Rows(frame), 0, row_order=kept, kept=kept)
    some = table.filtered(Filter("n>=20"))
    shown = some.sort("n", True) if ordered else some
    passing = [n for n, belongs in rows if n is not None and n >= 20 and (belongs or not part)]
    assert shown.total("n") == sum(passing) and len(shown) == len(passing)
    assert shown.filtered(None).total("n") == sum(n or 0 for n, belongs in rows if belongs or not part)


@given(st.lists(st.booleans(), max_size=300))
def test_the_numbers_of_the_rows_that_pass(mask: list[bool]) -> None:
    assert true_ids(pl.Series(mask, dtype=pl.Boolean)).to_list() == [i for i, true in enumerate(mask) if true]


def test_what_share_of_the_time_is_shown(both: tuple[Table, Table]) -> None:
    for table in both:
        assert coverage(table, table) == 1.0
        some = table.filtered(Filter("name=zeta"))
        assert coverage(table, some) == pytest.approx(some.total("dur_ns") / sum(row[2] or 0 for row in every(table)))
        assert coverage(table, table.sort("tensor", True)) == 1.0


def test_columns_that_hold_nothing_are_not_listed(both: tuple[Table, Table]) -> None:
    for table in both:
        assert [column.name for column in table.columns if column.order is None] == ["grid"]


def test_an_empty_answer() -> None:
    table = Table("kernels", COLUMNS, Rows(frame(0)), 0)
    assert table.window(0, 10) == [] and table.find("x", 0) is None and table.threshold(3) is None
    assert len(table.sort("name", True).filtered(Filter("x"))) == 0 and table.widest("name") == 0


@RELAXED
@given(passed=st.lists(st.booleans(), min_size=1, max_size=24), picks=st.lists(st.integers(-1, 23), max_size=40))
def test_texts_are_matched_by_runs_of_codes_as_by_looking_each_up(passed: list[bool], picks: list[int]) -> None:
    texts = [f"{number:02}" for number in range(len(passed))]
    values = [None if pick < 0 else texts[pick % len(texts)] for pick in picks] + texts  # all of them occur
    table = Rows(pl.DataFrame({"name": pl.Series(values, dtype=NAME)}))
    mask = table.matching("name", lambda categories: pl.Series(passed[: len(categories)]))
    assert mask.to_list() == [None if value is None else passed[texts.index(value)] for value in values] or (
        not any(passed) and None not in values and not mask.any()
    )
    held = [number for first, last in few_runs(pl.Series(passed)) for number in range(first, last + 1)]
    assert held in ([], [number for number, one in enumerate(passed) if one])


@pytest.mark.parametrize("values", [[None] * 5, [None, "gemm", None, "relu", None]], ids=["nothing", "some"])
def test_texts_that_were_not_recorded_do_not_match_and_do_not_count_as_others(values: list[str | None]) -> None:
    whole = pl.Series("name", ["a", "b", "c", "d", "gemm"], dtype=NAME)
    rows = Rows(pl.DataFrame([whole, pl.Series("module", values, dtype=NAME)]))
    mask = rows.matching("module", lambda texts: texts == "nothing of that name")
    assert mask.to_list() == [None if value is None else False for value in values]
    assert rows.containing("gemm").to_list() == [value == "gemm" for value in values[:4]] + [True]
