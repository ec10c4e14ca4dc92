"""The store of summaries: nothing is lost between writers, and what is no store is refused."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
import pytest

from warplens.loaders.errors import Unreadable
from warplens.loaders.ingest import summary_store


def test_runs_are_added_once_and_in_order(tmp_path: Path) -> None:
    file = tmp_path / "history.parquet"
    assert summary_store.read(file).is_empty()
    summary_store.add(file, [("a", "first"), ("b", "second")])
    frame = summary_store.add(file, [("touched", "second"), ("c", "third")])
    assert frame["summary"].to_list() == ["first", "second", "third"] and frame.equals(summary_store.read(file))
    assert {path.name for path in tmp_path.iterdir()} == {"history.parquet", "history.parquet.lock"}


def test_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    file = tmp_path / "history.parquet"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda at: summary_store.add(file, [(str(at), f"run {at}")]), range(40)))
    assert sorted(summary_store.read(file)["summary"]) == sorted(f"run {at}" for at in range(40))


def test_a_store_of_another_version_is_refused_with_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "history.parquet"
    pl.DataFrame({"x": [1]}).write_parquet(file, metadata={"warplens_history": "7"})
    with pytest.raises(Unreadable, match=r"version 7; this warplens reads version 1.*name a new file"):
        summary_store.add(file, [("a", "x")])
    assert pl.read_parquet(file)["x"].to_list() == [1]


@pytest.mark.parametrize("content", [b"", b"PAR1", b"no parquet at all" * 20])
def test_what_is_no_store_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "history.parquet"
    file.write_bytes(content)
    with pytest.raises(Unreadable, match="is not a history store"):
        summary_store.read(file)


def test_another_parquet_file_is_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "table.parquet"
    pl.DataFrame({"x": [1]}).write_parquet(file)
    with pytest.raises(Unreadable, match="no history store"):
        summary_store.add(file, [("a", "x")])


def test_a_damaged_store_is_refused_or_read(tmp_path: Path) -> None:
    file, chance = tmp_path / "history.parquet", random.Random(5)
    summary_store.add(file, [(str(at), f"run {at}") for at in range(5)])
    data, refused = file.read_bytes(), 0
    for _ in range(300):
        changed = bytearray(data)
        for _ in range(chance.choice((1, 2, 8))):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        file.write_bytes(changed)
        try:
            summary_store.read(file)
        except Unreadable:
            refused += 1
    assert refused > 100
