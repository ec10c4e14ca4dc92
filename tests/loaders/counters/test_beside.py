"""Counters beside a trace: on its clock where that can be known, else where somebody says."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from warplens.cli.main import main
from warplens.loaders.ingest.opening import open_run
from warplens.loaders.ingest.sidecar_metrics import with_metrics
from warplens.loaders.trace import Trace

FIRST = 1772460450  # 2026-03-02 14:07:30 UTC
SPAN_S = 60


@pytest.fixture(autouse=True)
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The machine's own zone is no part of these tests."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def folder(tmp_path: Path, **files: str) -> Path:
    """A Kineto trace of a minute from 14:07:30 UTC on, and counters beside it."""
    events = [
        {"ph": "X", "cat": "kernel", "name": f"k{at}", "pid": 0, "tid": 7, "ts": at * 1e6, "dur": 900_000,
         "args": {"device": 0, "stream": 7}}
        for at in range(SPAN_S)
    ]
    (tmp_path / "run.pt.trace.json").write_text(json.dumps({
        "schemaVersion": 1, "baseTimeNanoseconds": FIRST * 10**9, "traceEvents": events,
    }))
    for name, text in files.items():
        (tmp_path / name.replace("_csv", ".csv")).write_text(text)
    return tmp_path


def opened(path: Path, align_s: float | None = None) -> Trace:
    (run,) = open_run(str(path), use_cache=False, align_s=align_s)
    return run


def times(run: Trace) -> list[float]:
    return [value / 1e9 for value in run.metrics.collect()["ts_ns"]]


def query(*moments: str) -> str:
    rows = [f"{moment}, 0, {50 + at} %" for at, moment in enumerate(moments)]
    return "\n".join(["timestamp, index, utilization.gpu [%]", *rows]) + "\n"


def test_absolute_times_are_put_where_they_were(tmp_path: Path) -> None:
    run = opened(folder(tmp_path, log_csv=f"time,watts\n{FIRST + 5}.5,100\n{FIRST + 6},200\n"))
    assert times(run) == [5.5, 6.0]
    assert run.info.warnings == () and run.info.format == "kineto"


def test_a_date_without_a_zone_is_in_the_zone_in_which_it_overlaps(tmp_path: Path) -> None:
    run = opened(folder(tmp_path, smi_csv=query("2026/03/02 15:07:40.000", "2026/03/02 15:07:41.000")))
    assert times(run) == [10.0, 11.0]
    (said,) = run.info.warnings
    assert said == "smi.csv has times without a zone: read as UTC+01:00, where they overlap the trace"


def test_zones_of_half_hours_are_found(tmp_path: Path) -> None:
    run = opened(folder(tmp_path, smi_csv=query("2026/03/02 19:37:40.000", "2026/03/02 19:37:41.000")))
    assert times(run) == [10.0, 11.0] and "UTC+05:30" in run.info.warnings[0]


def test_times_of_day_are_of_the_day_of_the_trace(tmp_path: Path) -> None:
    dmon = "#Time gpu pwr\n#HH:MM:SS Idx W\n14:07:50 0 100\n14:07:51 0 110\n"
    run = opened(folder(tmp_path, dmon_csv=dmon))
    assert times(run) == [20.0, 21.0] and "times of day" in run.info.warnings[0]


def test_what_does_not_overlap_says_how_far_apart_it_is(tmp_path: Path) -> None:
    run = opened(folder(tmp_path, log_csv=f"time,watts\n{FIRST - 3600},100\n{FIRST - 3590},200\n"))
    assert times(run) == [-3600.0, -3590.0]
    assert "was sampled 3,590.0 s before the trace" in run.info.warnings[0]


def test_times_of_their_own_begin_at_zero_and_say_so(tmp_path: Path) -> None:
    run = opened(folder(tmp_path, log_csv="elapsed,watts\n3.5,100\n4.5,200\n"))
    assert times(run) == [0.0, 1.0] and "--align SECONDS" in run.info.warnings[0]


def test_align_says_when_they_begin_whatever_the_clocks_say(tmp_path: Path) -> None:
    path = folder(tmp_path, a_csv=f"time,watts\n{FIRST - 3600},100\n", b_csv=f"time,load\n{FIRST - 3599},1\n")
    assert sorted(times(opened(path, align_s=12.5))) == [12.5, 13.5]


def test_samples_without_times_stay_without(tmp_path: Path) -> None:
    run = opened(folder(tmp_path, smi_csv="utilization.gpu [%], index\n50 %, 0\n"))
    assert run.metrics.collect()["ts_ns"].to_list() == [None]
    assert any("has no times" in said for said in run.info.warnings)


def test_counters_of_two_tools_are_one_run(tmp_path: Path) -> None:
    (tmp_path / "smi.csv").write_text(query("2026/03/02 14:07:30.000"))
    (tmp_path / "host.csv").write_text(f"time,watts\n{FIRST + 2},100\n")
    run = opened(tmp_path)
    assert sorted(zip(times(run), run.metrics.collect()["metric"], strict=True)) == [
        (0.0, "utilization.gpu"), (2.0, "watts")]
    assert run.info.epoch_ns == FIRST * 10**9


def test_the_command_line_aligns_and_refuses_what_has_nothing_beside(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], samples: Path
) -> None:
    path = folder(tmp_path, log_csv="elapsed,watts\n3.5,100\n")
    query = "select ts_ns from metrics"
    assert main(["sql", str(path), query, "--format", "csv", "--no-cache", "--align", "2.5"]) == 0
    assert capsys.readouterr().out.split() == ["ts_ns", "2500000000"]
    assert main(["sql", str(samples / "counters/counters_wide.csv"), query, "--align", "2"]) == 2
    assert "--align shifts counter files that lie next to a trace" in capsys.readouterr().err
    assert main(["sql", str(path), query, "--align", "soon"]) == 2


def test_putting_nothing_beside_changes_nothing(tmp_path: Path) -> None:
    run = opened(folder(tmp_path))
    assert with_metrics(run, []).metrics.collect().is_empty()
