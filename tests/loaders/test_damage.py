"""Damaged text inputs: whatever happened to a file, it opens with what is left or is refused in a sentence."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warplens.loaders import csv_table, registry
from warplens.loaders.errors import Unreadable
from warplens.loaders.ingest import stream
from warplens.loaders.loader import Job
from warplens.loaders.trace import TABLE_NAMES

SAMPLES = Path(__file__).resolve().parents[2] / "samples"
NAMES = ("ncu_long.csv", "ncu_wide.csv", "ncu_text.txt", "comparison.md", "comparison.csv", "tb_views.jsonl",
         "cycle_profile/normal/result_perf_data.csv", "cycle_profile/normal/result_counters_data.csv",
         "kernel_table_unet_training.txt")  # fmt: skip
STRAY = (b'"', b"\n", b",", b"|", b"{", b"null", b"-1", b"1e999", b"9" * 25, b"\0", b"\xff\xfe", b'"\n"', b"[]", b"")

place = st.integers(0, 2**20)
edits = st.lists(
    st.one_of(
        st.tuples(st.just("cut"), place, st.just(b"")),
        st.tuples(st.just("insert"), place, st.sampled_from(STRAY) | st.binary(max_size=20)),
        st.tuples(st.just("drop"), place, st.binary(max_size=200)),
        st.tuples(st.just("number"), place, st.sampled_from(STRAY)),
    ),
    min_size=1,
    max_size=5,
)


def damaged(data: bytes, how: list[tuple[str, int, bytes]]) -> bytes:
    for kind, where, what in how:
        at = where % (len(data) + 1)
        if kind == "cut":
            data = data[:at]
        elif kind == "insert":
            data = data[:at] + what + data[at:]
        elif kind == "drop":
            data = data[:at] + data[at + len(what) :]
        elif numbers := [found.span() for found in re.finditer(rb"\d+", data)]:
            start, end = numbers[where % len(numbers)]
            data = data[:start] + what + data[end:]
    return data


@settings(max_examples=3 * settings().max_examples)
@given(st.sampled_from(NAMES), edits)
def test_damage_never_gets_through(name: str, how: list[tuple[str, int, bytes]]) -> None:
    (loader,) = registry.claims(stream.head(SAMPLES / name))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / Path(name).name
        path.write_bytes(damaged((SAMPLES / name).read_bytes(), how))
        try:
            traces = loader.load(Job(path, Path(folder)))
        except Unreadable as refused:
            assert str(path) in str(refused) and refused.reason
            return
        for trace in traces:
            tables = {table: trace.table(table).collect() for table in TABLE_NAMES}
            assert tables["kernels"]["index"].to_list() == list(range(tables["kernels"].height))
            assert not any((tables[table]["dur_ns"] < 0).any() for table in ("kernels", "cycles"))


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (b'a,b\n1,"x"y\n"2,3\n4,5\n6\n7,8,9', [("1", "xy"), ("2,3", None), ("4", "5"), ("6", None), ("7", "8")]),
        (b'a,b\r\n1,2\r\n"3', [("1", "2"), ("3", None)]),
        (b'a,b\n"x, y",2\n', [("x, y", "2")]),
    ],
)
def test_a_stray_quote_costs_its_line_only(text: bytes, rows: list[tuple[str | None, ...]]) -> None:
    assert csv_table.read(text).rows() == rows
