"""Damaged text inputs: whatever happened to a file, it opens with what is left or is refused in a sentence."""

from __future__ import annotations

import gzip
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


PACKED = (
    *NAMES, "kineto.pt.trace.json", "memory_snapshot.pickle", "nsys.sqlite", "nsys_api_trace.csv", "nsys_stats.txt",
    "rocm.rpd", "rocpd_results.db", "ascend_pytorch_profiler_1.db", "rocprof_results.csv", "rocprofv3_results.json",
    "perfetto.pftrace", "xla_gpu.xplane.pb", "counters/dcgmi_dmon.txt", "counters/prometheus_range.json",
    "counters/counters_wide.csv", "rocprofv3/run_kernel_trace.csv",
)  # fmt: skip


@pytest.mark.parametrize("name", [name for name in PACKED if "cycle_profile" not in name])
def test_whole_data_behind_a_wrong_checksum_open_in_every_reader(name: str, tmp_path: Path) -> None:
    """The same rows as of the file itself, and a warning."""
    (loader,) = registry.claims(stream.head(SAMPLES / name))
    packed = bytearray(gzip.compress((SAMPLES / name).read_bytes()))
    packed[-6] ^= 1
    path = tmp_path / f"{Path(name).name}.gz"
    path.write_bytes(packed)
    assert registry.claims(stream.head(path)) == (loader,)
    (tmp_path / "plain").mkdir()
    plain = tmp_path / "plain" / Path(name).name
    plain.write_bytes((SAMPLES / name).read_bytes())
    expected, found = loader.load(Job(plain, tmp_path / "plain")), loader.load(Job(path, tmp_path))
    for one, other in zip(expected, found, strict=True):
        assert any("gzip checksum is wrong" in said for said in other.info.warnings), other.info.warnings
        assert not [said for said in one.info.warnings if "checksum" in said]
        for table in TABLE_NAMES:
            assert one.table(table).collect().height == other.table(table).collect().height, table


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (b'a,b\n1,"x"y\n"2,3\n4,5\n6\n7,8,9', [("1", "xy"), ("2,3", None), ("4", "5"), ("6", None)]),
        (b"a,b\n1,2\n3,4, \n5,6,\n7,8,9", [("1", "2"), ("3", "4"), ("5", "6")]),
        (b'a,b\r\n1,2\r\n"3', [("1", "2"), ("3", None)]),
        (b'a,b\n"x, y",2\n', [("x, y", "2")]),
    ],
)
def test_a_stray_quote_costs_its_line_only(text: bytes, rows: list[tuple[str | None, ...]]) -> None:
    assert csv_table.read(text).rows() == rows
