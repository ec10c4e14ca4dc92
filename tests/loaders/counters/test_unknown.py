"""Logs of monitors whose times, devices or series are not what they look like: unknown, counted, never averaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from warplens.analysis.query.ask import ask
from warplens.analysis.views import view
from warplens.loaders.ingest.opening import open_run

JTOP = "time,uptime,CPU1,RAM,EMC,GPU,NVENC,NVDEC,APE,Temp GPU,power cur,jetson_clocks,nvp model\n" + "".join(
    f"2021-06-01 10:00:0{at}.123456,0:10:0{at},5,1024,0,{40 + at},OFF,OFF,150,40.5,5000,ON,MAXN\n" for at in range(5))
DMON = "# gpu   pwr    sm\n# Idx     W     %\n" + "    0    80     5\n    -    90     6\n" * 3
TWICE = 'U{gpu="0"} 10 1760000000000\nU{gpu="0"} 90 1760000000000\nU{gpu="0"} 20 1760000001000\n'
REPEATED = 'U{gpu="0"} 10 1760000000000\nU{gpu="0"} 10 1760000000000\nU{gpu="0"} 20 1760000001000\n'
AT_ZERO = 'U{gpu="0"} 5 0\nU{gpu="0"} 50 1760000001000\n'


def series(tmp_path: Path, name: str, text: str) -> tuple[list[tuple[object, ...]], str]:
    """(metric, device, unit, mean) of each counter, and the warnings."""
    (tmp_path / name).write_text(text)
    runs = open_run(tmp_path / name)
    rows = ask(view("metrics"), runs).frame.select("metric", "device", "unit", "mean").rows()
    return rows, " ".join(runs[0].info.warnings)


@pytest.mark.parametrize("stamp", ["1.76E+09", "1.76413E+12"])
def test_times_that_a_spreadsheet_rounded_are_counted(tmp_path: Path, stamp: str) -> None:
    rows, warnings = series(tmp_path, "c.csv", "timestamp,gpu,util\n" + f"{stamp},0,7\n" * 5)
    assert rows == [("util", "GPU 0", "%", 7.0)]
    assert "5 values of c.csv (timestamp) could not be read: rounded by a spreadsheet" in warnings


def test_a_column_gpu_of_a_board_is_how_busy_it_is(tmp_path: Path) -> None:
    rows, _ = series(tmp_path, "jtop.csv", JTOP)
    assert {device for _, device, _, _ in rows} == {None}
    assert ("GPU", None, "%", 42.0) in rows and ("power cur", None, "W", 5.0) in rows
    assert "uptime" not in {metric for metric, *_ in rows}  # 0:10:02 is no number


def test_an_index_that_is_none_is_no_device(tmp_path: Path) -> None:
    rows, _ = series(tmp_path, "dmon.txt", DMON)
    assert ("pwr", "GPU 0", "W", 80.0) in rows and ("pwr", None, "W", 90.0) in rows


@pytest.mark.parametrize(("text", "mean", "says"), [
    (TWICE, None, "several values at one time"),
    (REPEATED, 15.0, "1 sample is recorded twice; counted once"),
    (AT_ZERO, 50.0, "(time) could not be read: no time (0)"),
])
def test_prometheus_samples_of_one_time(tmp_path: Path, text: str, mean: float | None, says: str) -> None:
    rows, warnings = series(tmp_path, "x.prom", "# TYPE U gauge\n" + text)
    assert [row[3] for row in rows] == [mean] and says in warnings


def test_clocks_in_parentheses_are_numbers(tmp_path: Path) -> None:
    rows, _ = series(tmp_path, "rocm.csv", "timestamp,device,GPU use (%),sclk clock speed:\n" + "".join(
        f"{1760000000 + at},card0,10,(2100Mhz)\n" for at in range(3)))
    assert ("sclk clock speed:", "GPU 0", "MHz", 2100.0) in rows
