"""A Parquet file whose sizes cannot be true is told before anything is reserved for them."""

from __future__ import annotations

import random
from pathlib import Path

import polars as pl
import pytest

from warplens.loaders import parquet_check
from warplens.loaders.parquet_check import Implausible, check

PAGE = b"\x2c\x15"
"""Where the header of a data page says how many values it holds: a struct as field 5, an integer as its field 1."""


def parquet(path: Path, rows: int = 5) -> bytes:
    frame = pl.DataFrame({"id": list(range(rows)), "text": [f"name {row % 3}" for row in range(rows)],
                          "share": [None if row % 2 else row / 3 for row in range(rows)]})
    frame.write_parquet(path, compression="uncompressed")
    return path.read_bytes()


def test_whole_files_are_plausible(samples: Path, tmp_path: Path) -> None:
    files = [*samples.glob("nsys_pqtdir/*.parquet"), *samples.glob("dataset/*/*.parquet")]
    assert len(files) > 40
    for file in files:
        check(file)
    for name, made in {
        "lists": pl.DataFrame({"trend": [[1, 2, 3], [], None]}), "empty": pl.DataFrame(schema={"a": pl.Int64}),
        "long": pl.DataFrame({"text": ["x" * 100_000] * 3}), "many": pl.DataFrame({"n": range(300_000)}),
        "constant": pl.DataFrame({"n": [7] * 900_000}), "structs": pl.DataFrame({"s": [{"a": 1, "b": None}]}),
    }.items():
        made.write_parquet(tmp_path / name)
        check(tmp_path / name)


@pytest.mark.parametrize(("written", "said"), [(1, "a page claims -1 of 5 values"), (12, "a page claims 6 of 5 values"),
                                               (8, "a column ends before its values do")])
def test_a_page_has_no_more_and_no_fewer_values_than_its_rows(written: int, said: str, tmp_path: Path) -> None:
    data = parquet(tmp_path / "table")
    (tmp_path / "table").write_bytes(data.replace(PAGE + bytes((10,)), PAGE + bytes((written,))))
    with pytest.raises(Implausible, match=said):
        check(tmp_path / "table")


@pytest.mark.parametrize(("data", "said"), [
    (b"", "it is empty"), (b"PAR1 and nothing after it", "does not begin and end"),
    (b"PAR1" * 5, "longer than the file"),
    (b"PAR1" + bytes(8) + (4).to_bytes(4, "little") + b"PAR1", "where its columns are is damaged"),
])
def test_what_is_no_parquet_is_said(data: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "table").write_bytes(data)
    with pytest.raises(Implausible, match=said):
        check(tmp_path / "table")


def test_a_footer_that_claims_more_rows_than_bytes_can_hold_is_refused(tmp_path: Path) -> None:
    parquet(tmp_path / "table", 300)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet_check, "_SURE_ROWS", 10)
        patch.setattr(parquet_check, "_ROWS_A_BYTE", 0)
        with pytest.raises(Implausible, match="claims 300 rows"):
            check(tmp_path / "table")


def test_bytes_changed_anywhere_are_told_and_what_passes_does_not_end_the_process(tmp_path: Path, deep: bool) -> None:
    chance, passed, data = random.Random(11), 0, parquet(tmp_path / "table")
    for _ in range(3000 if deep else 700):
        made = bytearray(data)
        for _ in range(chance.choice((1, 2, 9))):
            made[chance.randrange(len(made))] = chance.choice((0, 1, 21, 44, 127, 128, 255))
        (tmp_path / "table").write_bytes(bytes(made))
        try:
            check(tmp_path / "table")
            pl.scan_parquet(tmp_path / "table", glob=False).collect()
        except (Implausible, pl.exceptions.PolarsError, pl.exceptions.PanicException):
            continue
        passed += 1
    assert passed > (100 if deep else 20)


def test_structs_in_structs_without_end_are_no_answer() -> None:
    with pytest.raises(IndexError):
        parquet_check.Compact(b"\x1c" * 5000).struct()
    with pytest.raises(IndexError):
        parquet_check.Compact(b"\x16" + b"\xff" * 50).struct()
