"""A value is read or it is unknown: one function makes every number, and nothing else makes one of a recorded cell."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

import warplens
from warplens.loaders.recording.faults import Faults
from warplens.loaders.recording.values import Clock, Kind, number, numbers, series

ROOT = Path(warplens.__file__).parent
CASTS = re.compile(
    r"cast\(pl\.(?:Int|Float|UInt)\w*, strict=False|schema=\w+, strict=False|\bfloat\(value\)|fill_nan\(0"
    r"|cast\(\{0\} as (?:real|integer)|cast\(\w+ as (?:real|integer)\)")
ALLOWED = {
    "loaders/counters/times.py": "dates, whose parts a pattern has found to be digits",
    "loaders/recording/values.py": "the one function",
    "loaders/kineto/columns.py": "the JSON scanner's own numbers, which the compiled scanner has to give too",
    "loaders/kineto/dialect.py": "the same, of an argument read again",
    "loaders/kineto/table_frames.py": "registers from a scanned Int64 to the table's Int32",
    "loaders/megatron_timers.py": "what the one function has read",
    "loaders/perfetto/annotations.py": "a number in an annotation's text, not finite where it is none",
}


def test_no_reader_makes_numbers_of_its_own() -> None:
    files = {str(path.relative_to(ROOT)): path.read_text() for path in (ROOT / "loaders").rglob("*.py")}
    assert {name for name, text in files.items() if CASTS.search(text)} <= set(ALLOWED)


FILLED = {
    "overview/first_page.py": "length", "idle/scope.py": "absent", "idle/blocking_copies.py": "uncovered",
    "reported/stacks.py": "absent", "views/copies.py": "mean", "views/ops.py": "absent",
    "operators/captured.py": "absent", "operators/tree.py": "depth", "operators/call_paths.py": "text",
    "kernels/sources.py": "weightless", "query/ask.py": "absent", "timeline/lanes.py": "length",
    "timeline/slices.py": "length", "ranks/job_graph.py": "clock", "ranks/beginnings.py": "earlier",
    "cycles/reduced.py": "absent", "cycles/limits.py": "order", "cycles/detection.py": "absent",
    "cycles/paired.py": "absent", "cycles/step_times.py": "length", "cycles/launch_runs.py": "length",
    "cycles/base.py": "length", "cycles/completeness.py": "absent", "cycles/sources.py": "absent",
    "cycles/sourced_cycles.py": "absent", "cycles/profile.py": "known",
    "findings/evidence/below_peak.py": "bound", "work/counters.py": "loss", "work/roofline.py": "undivided",
    "work/compiled.py": "loss", "replay/candidates.py": "length", "communication/collectives.py": "length",
    "communication/devices.py": "absent", "communication/reasons.py": "absent", "communication/by_kind.py": "absent",
    "communication/rank_clocks.py": "rankless", "table/sorting.py": "order", "table/parts.py": "absent",
    "table/sides.py": "absent", "table/table.py": "hidden", "fleet/reduce.py": "absent",
    "diff/reference.py": "reference",
    "diff/function_change.py": "order", "diff/resources.py": "weight", "diff/groups.py": "absent",
    "diff/prepare/swapped.py": "text",
    "core/unknown.py": "words", "core/call_tree.py": "length", "core/captures.py": "key", "core/batches.py": "code",
    "core/callers.py": "order", "core/covered.py": "length", "details/cycle_differences.py": "key",
    "details/row_details.py": "absent", "replay/model.py": "place",
    "replay/host_time.py": "place", "cycles/whole.py": "absent", "measured/rules.py": "text",
    "memory/allocators.py": "text", "memory/peaks.py": "length", "ranks/memory.py": "host",
}
"""Files of the analysis that fill, clip or drop NaN, and why: *absent* rows of a join counted as 0, a *length* that
a slice without an end covers, what only decides an *order*, a *key* or *code* that no value has …"""


def test_only_known_places_of_the_analysis_fill_or_clip() -> None:
    used = re.compile(r"fill_null\((?:0|pl\.lit\(0|\")|fill_nan\(|[\w)\]]\.clip\(")
    files = {str(path.relative_to(ROOT / "analysis")): path.read_text() for path in (ROOT / "analysis").rglob("*.py")}
    filling = {name for name, text in files.items() if used.search(re.sub(r"np\.clip", "", text))}
    assert filling <= set(FILLED), "a figure made of an unknown is unknown: see analysis/core/unknown.py"


@pytest.mark.parametrize(("cell", "kind", "value", "reason"), [
    ("1.62068E+14", "ns", None, "rounded by a spreadsheet: the last digits are gone"),
    ("1.678314002982197E+15", "ns", 1678314002982197, None), ("1,832,561", "ns", 1832561, None),
    ("inf", "real", None, "not finite"), (float("nan"), "real", None, "not finite"), ("abc", "ns", None, "no number"),
    (True, "count", None, "no number"), ("[N/A]", "real", None, None), (None, "ns", None, None),
    ("71,5", "real", None, "no number"), ("1'832'561", "count", 1832561, None),
    ("2.5", "real", 2.5, None), (2**63 - 1, "bytes", None, "out of range"), (2**63 - 1, "id", 2**63 - 1, None),
    ("1e400", "real", None, "not finite"),
])
def test_a_cell_is_a_number_empty_or_wrong(cell: object, kind: str, value: object, reason: str | None) -> None:
    assert number(cell, kind) == (value, reason)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["ns", "real", "id"])
def test_a_column_says_what_its_cells_say(kind: str) -> None:
    cells = ["1", " 7 ", "7.0", "x", "inf", "", "N/A", "1E+20", "-3", "9" * 25, None]
    faults, alone = Faults(), Faults()
    read = numbers(pl.Series("count", cells), kind, faults, "T").to_list()  # type: ignore[arg-type]
    assert read == [number(cell, kind)[0] for cell in cells]  # type: ignore[arg-type]
    assert series("count", cells, kind, alone, "T").to_list() == read  # type: ignore[arg-type]
    assert sorted(alone.warnings()) == sorted(faults.warnings())


def test_wrong_cells_are_one_sentence_per_table_and_reason() -> None:
    faults = Faults()
    numbers(pl.Series("start", ["a", "b", "3"]), "ns", faults, "KERNELS")
    numbers(pl.Series("end", ["c", "inf", "9"]), "ns", faults, "KERNELS")
    assert faults.warnings() == ["3 values of KERNELS (start, end) could not be read: no number",
                                 "1 value of KERNELS (end) could not be read: not finite"]


def test_starts_and_ends_that_are_no_times_leave_the_row() -> None:
    faults = Faults()
    rows = pl.DataFrame({"start": [0, 5, 9, None, 10], "end": [0, 0, 5, 7, 30]})
    timed = Clock(faults).timed(rows, "K")
    assert timed.select("start_ns", "dur_ns").rows() == [(None, None), (5, None), (9, None), (None, None), (10, 20)]
    assert faults.warnings() == ["2 values of K (start, end) could not be read: no time (0)",
                                 "1 value of K (end) could not be read: ends before it starts"]
    since_boot = pl.DataFrame({"start": [0, 10**15], "end": [5, 10**15 + 5]})
    assert Clock(Faults()).timed(since_boot, "K")["start_ns"].to_list() == [None, 10**15]


@pytest.mark.parametrize(("cells", "read"), [
    ([1.62068e14, 1.62069e14, 7.0], [None, None, 7]),
    ([1e15, 1e15 + 50_000], [10**15, 10**15 + 50_000]),  # one round time is chance
    ([1.678314002982197e15] * 3, [1678314002982197] * 3),
    ([162068000000000] * 3, [162068000000000] * 3),  # whole numbers have their digits
])
def test_floats_with_the_digits_that_a_spreadsheet_shows_are_no_times(cells: list[float], read: list[object]) -> None:
    assert series("start", cells, "ns", Faults(), "T").to_list() == read
    assert numbers(pl.Series(cells), "ns", Faults(), "T").to_list() == read


def test_the_least_whole_number_is_out_of_range_as_text_too() -> None:
    faults = Faults()
    assert numbers(pl.Series("end", [str(-(1 << 63)), "5"]), "ns", faults, "T").to_list() == [None, 5]
    assert faults.warnings() == ["1 value of T (end) could not be read: out of range"]


@pytest.mark.parametrize(("kind", "cells", "read", "reason"), [
    ("duration", ["-5", "7", str(10**17)], [None, 7, None], "ends before it starts"),
    ("total", ["-5", str(10**17)], [None, 10**17], "ends before it starts"),
    ("mean", ["-0.5", "9223372036854775807", "2.5"], [None, None, 2.5], "out of range"),
    ("share", ["0.5", "1.5", "11", "-1"], [0.5, 1.5, None, None], "out of range"),
    ("count", ["-1", "3"], [None, 3], "out of range"),
])
def test_what_a_quantity_cannot_be_is_unknown(kind: Kind, cells: list[str], read: list[object], reason: str) -> None:
    faults = Faults()
    assert numbers(pl.Series("x", cells), kind, faults, "T").to_list() == read
    assert [number(cell, kind)[0] for cell in cells] == read
    assert reason in str(faults.warnings()) and {reason} <= {number(cell, kind)[1] for cell in cells}
