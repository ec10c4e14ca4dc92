"""Records of SQLite pages decoded by array operations: what SQLite gives, or left to SQLite."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from warplens.loaders.nsys import database
from warplens.loaders.nsys.database import NsysDatabase
from warplens.loaders.nsys.pages import PAD, Pages, Unusual, decoded
from warplens.loaders.recording.faults import Faults


def test_records_that_begin_anywhere_are_decoded_within_their_page_or_not_at_all() -> None:
    chance, refused = random.Random(3), 0
    for _ in range(400):
        data = np.frombuffer(chance.randbytes(1000) + bytes(PAD), dtype=np.uint8)
        cells = np.array([chance.randrange(0, 1000) for _ in range(3)], dtype=np.int64)
        ends = np.array([chance.randrange(0, 1001) for _ in range(3)], dtype=np.int64)
        try:
            block = decoded(data, cells, ends, 900, [0, 2], [1])
        except (Unusual, IndexError):  # ``Pages`` takes the second for the first
            refused += 1
        else:
            assert block.rows == 3 and all(text is None or len(text) < 900 for text in block.text(1))
            assert (cells < ends).all()
    assert refused > 300


def test_pages_with_changed_bytes_are_decoded_or_left_to_sqlite(samples: Path, tmp_path: Path) -> None:
    """Bytes of whole pages changed as damage would: an answer or Unusual, nothing else."""
    original, chance, done = (samples / "nsys.sqlite").read_bytes(), random.Random(7), [0, 0]
    with sqlite3.connect(samples / "nsys.sqlite") as connection:
        roots = [root for (root,) in connection.execute("select rootpage from sqlite_master where type = 'table'")]
    connection.close()
    for _ in range(600):
        data = bytearray(original)
        for _ in range(chance.choice((1, 2, 5, 40))):
            data[chance.randrange(100, len(data))] = chance.choice((0, 1, 7, 8, 9, 12, 13, 127, 128, 255))
        (tmp_path / "damaged.sqlite").write_bytes(data)
        pages = Pages(tmp_path / "damaged.sqlite")
        try:
            block = pages.block(pages.leaves(chance.choice(roots)), [0, 2], [1])
            assert len(block.rowids) == block.rows
            done[0] += 1
        except Unusual:
            done[1] += 1
        finally:
            pages.close()
    assert done[0] > 100 and done[1] > 50, done


WIDTHS = [0, 1, 127, 128, 32767, 32768, 1 << 23, (1 << 31) - 1, 1 << 31, 1 << 47, (1 << 63) - 1]
NUMBERS = st.one_of(st.none(), st.sampled_from(WIDTHS), st.sampled_from([-1 - width for width in WIDTHS]))
TEXTS = st.one_of(st.none(), st.text(max_size=200), st.binary(max_size=5))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(NUMBERS, TEXTS, NUMBERS, st.floats(allow_nan=False) | NUMBERS), min_size=1, max_size=60),
    st.sampled_from([512, 1024, 4096, 65536]),
)
def test_any_record_decodes_as_sqlite_decodes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, records: list[tuple[object, ...]], page: int
) -> None:
    monkeypatch.setattr(database, "_LEAST_PAGES", 1)
    path = tmp_path / "records.sqlite"
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as connection:
        connection.execute(f"pragma page_size = {page}")
        connection.execute("create table t (a integer, b, c integer, d real)")
        connection.executemany("insert into t values (?, ?, ?, ?)", records * 9)
    connection.close()
    fast, plain = NsysDatabase(path, Faults()), NsysDatabase(path, Faults(), fast=False)
    wanted = ("a", "missing", "c"), (), ("d",)
    left, right = fast.read("t", *wanted), plain.read("t", *wanted)
    fast.close()
    plain.close()
    assert left is not None and right is not None
    assert_frame_equal(left, right)
