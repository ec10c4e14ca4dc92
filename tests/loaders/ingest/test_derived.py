"""What was found out about a trace lasts as long as its tables, is believed only whole, and is no other trace's."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from warplens.loaders import private
from warplens.loaders.ingest import cache, store
from warplens.loaders.ingest.opening import open_run
from warplens.loaders.trace import Info, Trace

FOUND = pl.DataFrame({"answer": [42, None]})


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    """A trace of one launch that was written and read."""
    launches = pl.LazyFrame({"index": [0], "dur_ns": [5], "name": ["gemm"]})
    store.write((Trace(Info("a", "a", "fake"), kernels=launches),), tmp_path)
    return store.read(tmp_path)[0]


def never() -> pl.DataFrame:
    raise AssertionError("it was kept, and is found out anew")


def test_what_was_found_out_once_is_read_again(trace: Trace, tmp_path: Path) -> None:
    assert trace.derived("answer-1", lambda: FOUND).equals(FOUND)
    assert store.read(tmp_path)[0].derived("answer-1", never).equals(FOUND)
    with pytest.raises(AssertionError):
        trace.derived("answer-2", never)


def test_a_part_of_the_trace_has_nothing_of_the_whole(trace: Trace) -> None:
    trace.derived("answer", lambda: FOUND)
    part = trace.with_tables(kernels=trace.kernels.head(0))
    other = FOUND.head(1)
    assert part.derived("answer", lambda: other).equals(other)
    assert trace.derived("answer", never).equals(FOUND)
    assert trace.warn("the same tables").derived("answer", never).equals(FOUND)


@pytest.mark.parametrize("harm", ["cut", "altered"])
def test_a_file_that_cannot_be_believed_is_found_out_anew(trace: Trace, tmp_path: Path, harm: str) -> None:
    trace.derived("answer", lambda: FOUND)
    file = tmp_path / "0" / cache.DERIVED / "answer"
    data = file.read_bytes()
    if harm == "cut":
        file.write_bytes(data[:-9])
    else:
        file.write_bytes(data[:-9] + b"x" + data[-8:])
    new = FOUND.head(1)
    assert trace.derived("answer", lambda: new).equals(new)
    assert trace.derived("answer", never).equals(new)


def test_where_nothing_can_be_written_it_is_found_out_each_time(trace: Trace, tmp_path: Path) -> None:
    (tmp_path / "0" / cache.DERIVED).write_text("in the way")
    assert trace.derived("answer", lambda: FOUND).equals(FOUND)
    assert trace.derived("answer", lambda: FOUND.head(1)).height == 1


def test_a_name_is_no_path(trace: Trace) -> None:
    with pytest.raises(ValueError, match="names no file"):
        trace.derived("../answer", lambda: FOUND)


def test_it_counts_in_the_size_of_the_cache_and_leaves_the_entry_whole(samples: Path) -> None:
    path = str(next(samples.rglob("*.pt.trace.json*")))
    (run,) = open_run(path)
    before = cache.entries()[0].bytes
    run.derived("answer", lambda: FOUND)
    assert cache.entries()[0].bytes > before
    assert open_run(path)[0].derived("answer", never).equals(FOUND)


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> pl.DataFrame:
    """Rows of which a part has a hundred."""
    monkeypatch.setattr(store, "PART_BYTES", 1_600)
    return pl.DataFrame({"row": range(1_050), "dur_ns": [None, 2, 5] * 350})


def test_what_is_large_lies_in_parts_and_is_read_a_slice_at_a_time(
    trace: Trace, tmp_path: Path, many: pl.DataFrame
) -> None:
    assert trace.derived_rows("answer", lambda: many.iter_slices(100)).collect().equals(many)
    assert len(list((tmp_path / "0" / cache.DERIVED).iterdir())) == 12
    again = store.read(tmp_path)[0]
    assert again.derived("answer", never).equals(many)
    assert again.derived_rows("answer", never).slice(95, 200).collect().equals(many.slice(95, 200))


@pytest.mark.parametrize("harm", ["cut", "altered", "gone", "list"])
def test_where_one_part_cannot_be_believed_all_are_found_out_anew(
    trace: Trace, tmp_path: Path, many: pl.DataFrame, harm: str
) -> None:
    trace.derived("answer", lambda: many)
    folder = tmp_path / "0" / cache.DERIVED
    file = folder / ("answer-parts" if harm == "list" else "answer-00003")
    data = file.read_bytes()
    if harm in ("cut", "list"):
        file.write_bytes(data[:-9])
    elif harm == "altered":
        file.write_bytes(data[:-200] + b"x" + data[-199:])
    else:
        file.unlink()
    new = many.head(990)
    assert trace.derived("answer", lambda: new).equals(new)
    assert trace.derived_rows("answer", never).collect().equals(new)


def test_rows_that_cannot_be_kept_are_found_out_each_time(trace: Trace, tmp_path: Path, many: pl.DataFrame) -> None:
    (tmp_path / "0" / cache.DERIVED).write_text("in the way")
    assert trace.derived_rows("answer", lambda: many.iter_slices(100)).collect().equals(many)
    assert trace.derived_rows("answer", lambda: [many.head(1)]).collect().height == 1


def test_parts_are_kept_in_the_order_of_their_numbers(trace: Trace, many: pl.DataFrame) -> None:
    kept = trace.derived_store
    assert kept is not None
    assert kept.write_parts("answer", ((number, many.slice(100 * number, 100)) for number in (7, 0, 3)))
    parts = kept.parts("answer")
    assert parts is not None and [int(part.select("row").collect()["row"][0]) for part in parts] == [0, 300, 700]
    assert kept.parts("answer-2") is None


def test_of_parts_for_which_there_is_no_room_none_is_kept(
    trace: Trace, tmp_path: Path, many: pl.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: Path, data: bytes) -> None:
        if file.name == "answer-00004":
            raise OSError("no space left")
        write(file, data)

    write = private.write
    monkeypatch.setattr(private, "write", full)
    assert trace.derived("answer", lambda: many).equals(many)
    assert not list((tmp_path / "0" / cache.DERIVED).iterdir())
