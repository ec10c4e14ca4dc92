"""Timers in logs of Megatron-LM: means per iteration become sums; what the log does not tell stays unknown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from warplens.loaders.errors import Unreadable
from warplens.loaders.ingest.opening import open_run

LINE = ("{prefix} iteration {number:8d}/    1000 | consumed samples: 10 | elapsed time per iteration (ms): 1300.5 | "
        "lm loss: 1.0 |")
ALL = "times across ranks (ms):\n  backward-compute:\n     rank  0: 700.00\n     rank  1: 1610.50"
MINMAX = "(min, max) time across ranks (ms):\n    backward-compute ...............................: (700.00, 1610.50)"
MOST = "max time across ranks (ms):\n    backward-compute ...............................: 1610.50"


def rows(folder: Path, *parts: str) -> list[dict[str, Any]]:
    (folder / "train.log").write_text("\n".join(parts) + "\n")
    (run,) = open_run(str(folder / "train.log"), use_cache=False)
    return [row for row in run.host_stats.collect().to_dicts() if row["name"] == "backward-compute"]


@pytest.mark.parametrize("prefix", ["", "[2026-01-02 03:04:05]", "7:", "[default7]:"])
def test_a_value_is_the_mean_of_the_iterations_since_the_last_line(tmp_path, prefix: str) -> None:
    lines = [LINE.format(prefix=prefix, number=number) for number in (100, 110, 130)]
    block = "\n".join(f"{prefix if ':' in prefix[-1:] else ''}{line}" for line in ALL.splitlines())
    first, second = rows(tmp_path, lines[0], block, lines[1], block, lines[2], block)
    assert [(row["rank"], row["count"], row["total_ns"]) for row in (first, second)] == [
        (0, 40, 28_000_000_000), (1, 40, 64_420_000_000)]
    assert second["mean_ns"] == pytest.approx(1_610_500_000)


def test_of_the_slowest_and_fastest_rank_the_sums_are_of_the_slowest(tmp_path) -> None:
    lines = [LINE.format(prefix="", number=number) for number in (10, 20)]
    (pair,) = rows(tmp_path, lines[0], MINMAX, lines[1], MINMAX)
    assert (pair["rank"], pair["count"], pair["total_ns"]) == (None, 20, 32_210_000_000)
    assert (pair["min_ns"], pair["max_ns"]) == (700_000_000, 1_610_500_000)
    (most,) = rows(tmp_path, lines[0], MOST, lines[1], MOST)
    assert most["total_ns"] == pair["total_ns"]


def test_how_many_iterations_the_only_value_covers_is_unknown(tmp_path) -> None:
    (row, _) = rows(tmp_path, LINE.format(prefix="", number=10), ALL)
    assert (row["count"], row["total_ns"], row["mean_ns"], row["max_ns"]) == (None, None, None, 700_000_000)


def test_a_value_that_is_no_number_is_counted(tmp_path) -> None:
    (tmp_path / "train.log").write_text(ALL.replace("700.00", "nan") + "\n")
    (run,) = open_run(str(tmp_path / "train.log"), use_cache=False)
    assert any("could not be read" in warning for warning in run.info.warnings)


def test_a_log_without_a_timer_is_refused(tmp_path) -> None:
    with pytest.raises(Unreadable, match="without a timer"):
        rows(tmp_path, "times across ranks (ms):")


def test_a_file_of_viztracer_opens_as_ranges_and_names_its_writer(tmp_path) -> None:
    (tmp_path / "viz.json").write_text(
        '{"traceEvents":[{"ph":"M","pid":7,"tid":7,"name":"process_name","args":{"name":"MainProcess"}},'
        '{"pid":7,"tid":8,"ts":723086509428.0,"dur":788.5,"name":"step (/home/me/train.py:8)","ph":"X","cat":"FEE"}],'
        '"viztracer_metadata":{"version":"1.0.0","overflow":false},"file_info":{"files":{},"functions":{}}}')
    (run,) = open_run(str(tmp_path / "viz.json"), use_cache=False)
    (row,) = run.host.collect().to_dicts()
    assert (run.info.tool, row["name"], row["kind"], row["dur_ns"]) == (
        "VizTracer", "step (/home/me/train.py:8)", "annotation", 788_500)
