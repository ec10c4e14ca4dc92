"""The compiled way to decode records: where it is taken, and that it says what the other way says."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from fuzz_kineto import Guarded
from fuzz_nsys import WAYS, fuzz, native
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from warplens.loaders.loader import Job
from warplens.loaders.native.code_cache import Program
from warplens.loaders.nsys import LOADER, arrays, database
from warplens.loaders.nsys.block import Unusual
from warplens.loaders.nsys.database import NsysDatabase
from warplens.loaders.nsys.layout import PAD
from warplens.loaders.nsys.records import Records


def test_both_ways_agree_on_damaged_pages(samples: Path) -> None:
    tries, decoded = fuzz([samples / "nsys.sqlite"], 7, lambda tries: tries >= 1500)
    assert tries == 1500 and decoded > 300


def test_records_that_begin_anywhere_are_decoded_alike_or_not_at_all() -> None:
    chance, guarded, refused = random.Random(3), Guarded(4), 0
    for _ in range(400):
        data = guarded.holding(chance.randbytes(1000), PAD)
        cells = np.array([chance.randrange(-20, 1100) for _ in range(3)], dtype=np.int64)
        ends = np.array([chance.randrange(0, 1100) for _ in range(3)], dtype=np.int64)
        held = np.frombuffer(data, dtype=np.uint8)
        try:
            block = Records(native()).decoded(held, cells, ends, 900, [0, 2], [1])
        except Unusual:
            refused += 1
        else:
            assert block.rows == 3 and all(text is None or len(text) < 900 for text in block.text(1))
            assert (cells >= 0).all() and (cells < ends).all() and (ends <= 1000).all()
    assert refused > 300


def test_the_compiled_way_is_taken_where_it_is_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    prepared, there = list[str](), False
    monkeypatch.setattr(Program, "ready", lambda self: there)
    monkeypatch.setattr(Program, "prepare", lambda self: prepared.append(self.name))
    monkeypatch.setattr(Program, "functions", lambda self: native())
    assert database._decoder(1 << 21) is arrays.decoded and not prepared
    assert database._decoder(1 << 30) is arrays.decoded and prepared == ["decoder"]
    there = True
    assert database._decoder(1 << 10) is arrays.decoded
    assert isinstance(database._decoder(1 << 21).__self__, Records)
    monkeypatch.setattr(Program, "functions", lambda self: None)
    assert database._decoder(1 << 30) is arrays.decoded


def test_a_record_is_read_alike_with_and_without_compiled_code(samples: Path, tmp_path: Path) -> None:
    found = []
    for compiled in (False, True):
        place = tmp_path / str(compiled)
        place.mkdir()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(database, "_LEAST_PAGES", 1)
            patch.setattr(database, "_decoder", lambda size: Records(native()).decoded)
            found.append(LOADER.load(Job(samples / "nsys.sqlite", place, compiled=compiled))[0])
    for table in ("kernels", "host", "metrics"):
        assert_frame_equal(found[0].table(table).collect(), found[1].table(table).collect(), categorical_as_str=True)


WIDTHS = [0, 1, 127, 128, 32767, 32768, 1 << 23, (1 << 31) - 1, 1 << 31, 1 << 47, (1 << 63) - 1]
NUMBERS = st.one_of(st.none(), st.sampled_from(WIDTHS), st.sampled_from([-1 - width for width in WIDTHS]))
TEXTS = st.one_of(st.none(), st.text(max_size=200), st.binary(max_size=5))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(NUMBERS, TEXTS, NUMBERS, st.floats(allow_nan=False) | NUMBERS), min_size=1, max_size=60),
    st.sampled_from([512, 1024, 4096, 65536]),
    st.sampled_from(sorted(WAYS)),
)
def test_any_record_decodes_as_sqlite_decodes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, records: list[tuple[object, ...]], page: int, way: str
) -> None:
    monkeypatch.setattr(database, "_LEAST_PAGES", 1)
    monkeypatch.setattr(database, "_decoder", lambda size: WAYS[way]())
    path = tmp_path / "records.sqlite"
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as connection:
        connection.execute(f"pragma page_size = {page}")
        connection.execute("create table t (a integer, b, c integer, d real)")
        connection.executemany("insert into t values (?, ?, ?, ?)", records * 9)
    connection.close()
    fast, plain = NsysDatabase(path, compiled=True), NsysDatabase(path, fast=False)
    wanted = ("a", "missing", "c"), (), ("d",)
    left, right = fast.read("t", *wanted), plain.read("t", *wanted)
    fast.close()
    plain.close()
    assert left is not None and right is not None
    assert_frame_equal(left, right)
