"""Kernel tables: every digit and every name comes through, and what is no launch is counted."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warplens.loaders.errors import Unreadable
from warplens.loaders.kernel_table import LOADER, parse
from warplens.loaders.loader import Job
from warplens.loaders.trace import Trace

HEADER = f"{'Kernel':<50}  {'Latency':>10} {'Tensor':>6} {'DRAM':>6}\n"


def write(rows: list[tuple[str, int, float, float]]) -> bytes:
    return (HEADER + "".join(f"{n:<50}| {d:>10} {t:6.2f} {m:6.2f}\n" for n, d, t, m in rows)).encode()


def load(path: Path, tmp: Path) -> Trace:
    return LOADER.load(Job(path, tmp))[0]


names = st.text(st.characters(blacklist_characters="\n\r", blacklist_categories=("Cs",)), max_size=60).map(
    lambda text: text.rstrip(" ")
)
hundredths = st.integers(0, 100).map(lambda n: n / 100)


@given(st.lists(st.tuples(names, st.integers(0, 10**12), hundredths, hundredths)))
def test_what_was_written_is_read(rows: list[tuple[str, int, float, float]]) -> None:
    frame, malformed, undecodable = parse(write(rows))
    got = [(n, d, f"{t:.2f}", f"{m:.2f}") for d, n, t, m in frame.rows()]
    assert got == [(n, d, f"{t:.2f}", f"{m:.2f}") for n, d, t, m in rows]
    assert (malformed, undecodable) == (0, 0)


def test_a_pipe_in_a_name_is_part_of_the_name() -> None:
    frame, _, _ = parse(b"a | b[red]|| 12   0.50   0.25\n")
    assert frame.rows() == [(12, "a | b[red]|", 0.5, 0.25)]


def test_lines_that_are_no_launches_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "k.txt"
    path.write_bytes(
        write([("a", 1, 0, 0)]) + b"\nnonsense\n" + write([("b", 2, 0, 0)]) + b"c | -3 0.00 0.00\nd     | 12"
    )
    trace = load(path, tmp_path)
    assert trace.kernels.select("index", "name", "dur_ns").collect().rows() == [
        (0, "a", 1), (1, "b", 2), (2, "c", None)]
    assert trace.info.warnings == (
        "1 value of the table (Latency) could not be read: ends before it starts",
        "2 of 5 lines are not launches and were left out.")


def test_bytes_that_are_not_utf8_are_replaced_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "k.txt"
    path.write_bytes(write([("\x1b[31m\x00�", 1, 0, 0)]) + b"\xff\xfe x" + b" " * 45 + b"|          7   0.00   1.00\n")
    trace = load(path, tmp_path)
    assert trace.kernels.select("name", "dur_ns", "dram").collect().rows()[1] == ("�� x", 7, 1.0)
    assert trace.info.warnings == ("1 names hold bytes that are not UTF-8; they are shown as �.",)


def test_a_utilisation_that_is_no_number_is_null() -> None:
    frame, malformed, _ = parse(b"a | 12 n/a nan\nb" + b" " * 49 + b"|         12      -    inf\n")
    assert frame.select("tensor", "dram").rows() == [(None, None), (None, None)] and malformed == 0


def test_blocks_and_spilled_parts_keep_the_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "k.txt"
    path.write_bytes(write([(f"kernel_{i % 7}", i, 0, 0) for i in range(500)]))
    monkeypatch.setattr("warplens.loaders.kernel_table.BLOCK_BYTES", 1000)
    monkeypatch.setattr("warplens.loaders.kernel_table.SPILL_ROWS", 100)
    kernels = load(path, tmp_path).kernels.collect()
    assert kernels["index"].to_list() == kernels["dur_ns"].to_list() == list(range(500))
    assert len(list(tmp_path.glob("*.arrow"))) > 2


def test_a_collective_is_told_by_its_name() -> None:
    from warplens.loaders.kernel_table import _kernels

    frame, _, _ = parse(write([("ncclDevKernel_AllReduce", 1, 0, 0), ("gemm", 1, 0, 0)]))
    assert _kernels(frame.lazy()).select("kind").collect().to_series().to_list() == ["collective", "kernel"]


def test_a_header_over_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "k.txt"
    path.write_text(HEADER + "and then prose\n")
    with pytest.raises(Unreadable, match="no line of it is a launch"):
        load(path, tmp_path)


@pytest.mark.parametrize("stem", ["bert_training", "llm_inference", "unet_training"])
def test_the_carried_tables_come_back_digit_for_digit(samples: Path, tmp_path: Path, stem: str) -> None:
    path = samples / f"kernel_table_{stem}.txt"
    kernels = load(path, tmp_path).kernels.with_columns(pl.col("name").cast(pl.String)).collect()
    rows = list(kernels.select("name", "dur_ns", "tensor", "dram").iter_rows())
    assert write(rows) == path.read_bytes()
