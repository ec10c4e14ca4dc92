"""Values and their units, as monitors write them."""

from __future__ import annotations

import polars as pl
import pytest

from warplens.loaders.counters import quantities
from warplens.loaders.recording.faults import Faults


def _numbers(texts: pl.Series, unit: str = "") -> tuple[pl.Series, pl.Series] | None:
    return quantities.CounterCells(Faults(), "table").read(texts, "column", unit)



@pytest.mark.parametrize(("text", "name", "unit"), [
    ("memory.used [MiB]", "memory.used", "MiB"), ("gpu_utilization[%]", "gpu_utilization", "%"),
    ("Temperature (Sensor edge) (C)", "Temperature (Sensor edge)", "C"), ("GPU use (%)", "GPU use", "%"),
    ("Temperature (Sensor edge)", "Temperature (Sensor edge)", ""), ("power_watts", "power_watts", "watts"),
    ("GPU Memory Allocated (VRAM%)", "GPU Memory Allocated (VRAM%)", "%"), ("loss", "loss", ""),
    ("temperature[°C]", "temperature", "°C"), ("[MiB]", "[MiB]", ""),
])
def test_a_heading_is_a_name_and_a_unit(text: str, name: str, unit: str) -> None:
    assert quantities.heading(text) == (name, unit)


@pytest.mark.parametrize(("text", "value", "unit"), [
    ("1410 MHz", 1410.0, "MHz"), ("1.5 GHz", 1500.0, "MHz"), ("1024 MiB", float(1 << 30), "B"),
    ("250 mW", 0.25, "W"), ("2 GB/s", 2e9, "B/s"), ("8 Mb/s", 1e6, "B/s"), ("8 MB/s", 8e6, "B/s"),
    ("65", 65.0, ""), ("-3.5e2", -350.0, ""), ("48 C", 48.0, "C"), ("12 frobs", 12.0, ""),
])
def test_a_value_is_in_its_natural_unit(text: str, value: float, unit: str) -> None:
    found = _numbers(pl.Series([text]))
    assert found is not None
    assert found[0].to_list() == pytest.approx([value]) and found[1].to_list() == [unit]


@pytest.mark.parametrize("blank", [
    "N/A", "[N/A]", "[Not Supported]", "-", "", "nan", "9223372036854775794", "9223372036854775792", "2147483632",
    "140737488355328", "140737488355330.0", "18446744073709551615", "inf",
])
def test_what_could_not_be_read_is_null_and_never_a_number(blank: str) -> None:
    found = _numbers(pl.Series(["1", blank, "3"]), "W")
    assert found is not None
    assert found[0].to_list() == [1.0, None, 3.0]


def test_large_numbers_that_are_none_of_the_blanks_stay() -> None:
    values = ["2147483647", "140737488355327", "140737488355340", "4611686018427387904"]
    found = _numbers(pl.Series(values))
    assert found is not None and found[0].to_list() == [float(value) for value in values]


def test_words_are_no_column_of_numbers() -> None:
    assert _numbers(pl.Series(["P0", "P2", "P8"])) is None
    assert _numbers(pl.Series(["N/A", "N/A"])) is None
    assert _numbers(pl.Series([], dtype=pl.String)) is None


def test_a_column_whose_heading_has_a_unit_may_be_all_blank() -> None:
    found = _numbers(pl.Series(["[N/A]", "[N/A]"]), "%")
    assert found is not None and found[0].to_list() == [None, None]
