"""Databases that were cut off: each table is read up to the first page that is gone, and nothing is made up."""

from __future__ import annotations

import gzip
import sqlite3
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from warplens.loaders import registry
from warplens.loaders.errors import Unreadable
from warplens.loaders.ingest import sqlite_file, stream
from warplens.loaders.loader import Job
from warplens.loaders.trace import TABLE_NAMES, Trace

SAMPLES = Path(__file__).resolve().parents[3] / "samples"
PAGE = 4096
ROWS = [(number, number * 7, f"kernel {number} " + "x" * (number % 90)) for number in range(1, 3001)]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tables whose pages alternate, an index, and one small table: trees of two levels, whose roots come first.

    Where a tree gets a third level, the page with its first branches lies behind all their leaves.
    """
    path = tmp_path_factory.mktemp("database") / "whole.db"
    connection = sqlite3.connect(path)
    connection.executescript(
        f"pragma page_size = {PAGE}; create table small (a);"
        "create table one (id integer primary key, dur integer, name);"
        "create table two (id integer primary key, dur integer, name); create index by_name on one (name);"
    )
    for row in ROWS:
        for table in ("one", "two"):
            connection.execute(f"insert into {table} values (?, ?, ?)", row)
    connection.execute("insert into small values (42)")
    connection.commit()
    connection.close()
    return path


def rows(path: Path, table: str) -> list[tuple[object, ...]]:
    connection, found = sqlite_file.connect(path), list[tuple[object, ...]]()
    try:
        for batch in sqlite_file.batches(connection.execute(f"select * from {table}"), 100):
            found += batch
    except sqlite3.DatabaseError:
        pass
    finally:
        connection.close()
    return found


@given(share=st.floats(0.02, 1))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_table_is_read_up_to_the_first_page_that_is_gone(database: Path, tmp_path: Path, share: float) -> None:
    data = database.read_bytes()
    path, size = tmp_path / "cut.db", round(share * len(data))
    path.write_bytes(data[:size])
    (tmp_path / "workspace").mkdir(exist_ok=True)
    found, cut = sqlite_file.whole_pages(path, tmp_path / "workspace")
    assert found.stat().st_size == size // PAGE * PAGE
    pages = len(data) // PAGE
    there = f"truncated: the file holds {size // PAGE:,} of {pages:,} database pages; rows on later pages are lost"
    assert cut == (None if size == len(data) else there)
    one, two = rows(found, "one"), rows(found, "two")
    assert one == ROWS[: len(one)] and two == ROWS[: len(two)], "no row is made up"
    assert len(two) >= (share - 0.05) * 0.8 * len(ROWS) and rows(found, "small") == [(42,)]
    assert path.read_bytes() == data[:size], "the file is as it was"


def test_rows_before_an_error_come_before_it() -> None:
    connection = sqlite3.connect(":memory:")
    last = "case when i <= 250 then i else abs(-1 << 63) end"
    query = f"with n(i) as (select 1 union all select i + 1 from n) select {last} from n"
    sizes = []
    with pytest.raises(sqlite3.Error):
        for batch in sqlite_file.batches(connection.execute(query), 100):
            sizes.append(len(batch))
    assert sizes[:2] == [100, 100] and sizes[2] in (49, 50), "Python's module looks one row ahead"
    assert [len(batch) for batch in sqlite_file.batches(connection.execute(f"{query} limit 200"), 100)] == [100, 100]
    connection.close()


def _load(path: Path, workspace: Path) -> Trace | None:
    """The run, where it can be recognised and read."""
    if not (claims := registry.claims(stream.head(path))):
        return None
    try:
        (trace,) = claims[0].load(Job(path, workspace))
    except Unreadable:
        return None
    return trace


@pytest.mark.parametrize(("name", "packed"), [
    ("nsys.sqlite", False), ("rocm.rpd", True), ("rocpd_results.db", False), ("ascend_pytorch_profiler_1.db", False),
    *(pytest.param(*one, marks=pytest.mark.deep) for one in (
        ("nsys.sqlite", True), ("rocm.rpd", False), ("rocpd_results.db", True), ("ascend_pytorch_profiler_1.db", True),
    )),
])
def test_a_recording_that_was_cut_off_opens_with_the_rows_that_are_there(
    name: str, packed: bool, tmp_path: Path
) -> None:
    data = (SAMPLES / name).read_bytes()
    whole = _load(SAMPLES / name, tmp_path)
    assert whole is not None
    full = {table: whole.table(table).collect().height for table in TABLE_NAMES}
    opened = 0
    for part in range(10, 100, 6):
        (work := tmp_path / f"{part}").mkdir()
        path = work / (f"{name}.gz" if packed else name)
        cut = data[: len(data) * part // 100]
        path.write_bytes(gzip.compress(cut) if packed else cut)
        (work / "tables").mkdir()
        if (trace := _load(path, work / "tables")) is not None:
            opened += 1
            assert any("database pages; rows on later pages are lost" in said for said in trace.info.warnings)
            for table in TABLE_NAMES:
                assert trace.table(table).collect().height <= full[table], table
        assert not [file for file in (work / "tables").iterdir() if file.name in ("whole", "unpacked")]
    assert opened >= 5
