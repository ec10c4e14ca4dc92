"""Values no recorder writes, each of which once ended a load or a view in an error of ours."""

from __future__ import annotations

import json
import os
import random
import sqlite3
from pathlib import Path

import pytest

from warplens.cli.main import main
from warplens.loaders.errors import Unreadable
from warplens.loaders.ingest.opening import open_run
from warplens.loaders.kineto import recovery
from warplens.loaders.kineto.document import decode
from warplens.loaders.kineto.info import Tally

VIEWS = ("overview", "cycles", "kernels", "launches", "ops")
SAMPLES = Path(__file__).resolve().parents[2] / "samples"
DIGITS = "1" * 5000
SLICE = '{"ph":"X","cat":"%s","name":%s,"ts":%s,"dur":%s,"pid":1,"tid":1,"args":{"stream":7,"device":0}}'


ANSWERED_OR_REFUSED = {0, 2, 3}


def statuses(path: Path, monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """How the report of every view of it ends; an error of ours is let through. It is read once, for the first."""
    monkeypatch.setenv("WARPLENS_DEBUG", "1")
    return {main(["report", str(path), "--view", view, "--format", "json"]) for view in VIEWS}


@pytest.mark.parametrize("text", [
    '{"x":' + DIGITS + ',"traceEvents":[' + SLICE % ("kernel", '"k"', 1, 1) + "]}",
    '{"traceEvents":[' + SLICE % ("kernel", '"k"', DIGITS, 1) + "," + SLICE % ("kernel", '"k"', 1, 1) + "]}",
    '{"traceEvents":[{"ph":"X" "cat":' + DIGITS + "}," + SLICE % ("kernel", '"k"', 1, 1) + "]}",
    '{"traceEvents":[' + SLICE % ("kernel", "null", 1, 1) + "," + SLICE % ("cpu_op", '"o"', 0, 9) + "]}",
    '{"traceEvents":[' + SLICE % ("cpu_op", '"o"', 1, '"x"') + "," + SLICE % ("kernel", '"k"', 1, "null") + "]}",
    '{"traceEvents":[' + ",".join(SLICE % ("kernel", '"k"', ts, dur) for ts, dur in (
        (9223372036854775, 1), (-9223372036854775, 1), (0, 9223372036854775), (5, "1e300"))) + "]}",
    '{"traceEvents":[' + SLICE % ("user_annotation", '"ProfilerStep#1"', 1, -5) + ","
    + SLICE % ("gpu_memcpy", '"m"', 1, 1) + "]}",
], ids=["header digits", "digits", "broken digits", "no name", "no duration", "end of 64 bits", "negative step"])
def test_a_trace_with_such_a_value_is_answered(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "trace.json"
    path.write_text(text)
    assert statuses(path, monkeypatch) <= ANSWERED_OR_REFUSED


def test_integers_of_many_digits_stay_text() -> None:
    assert decode(f"[{DIGITS}, nan]".encode()) == ([DIGITS, None], True)


@pytest.mark.parametrize("statement", [
    "update StringIds set value = x'fffe00'",
    "update TARGET_INFO_CUDA_DEVICE set cudaId = 'x'",
    "update TARGET_INFO_GPU_METRICS set metricId = 9e999",
    "update GENERIC_EVENT_TYPES set typeId = 'x'",
    "update CUPTI_ACTIVITY_KIND_KERNEL set end = 9223372036854775807 where rowid % 2",
    "update CUPTI_ACTIVITY_KIND_KERNEL set deviceId = 'x', globalPid = null",
])
def test_an_export_with_such_a_value_is_answered(
    statement: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "export.sqlite"
    path.write_bytes((SAMPLES / "nsys.sqlite").read_bytes())
    with sqlite3.connect(path) as connection:
        tables = {name for (name,) in connection.execute("select name from sqlite_master")}
        if (table := statement.split()[1]) not in tables:
            columns = {"TARGET_INFO_CUDA_DEVICE": "pid, cudaId, gpuId",
                       "TARGET_INFO_GPU_METRICS": "typeId, metricId, metricName",
                       "GENERIC_EVENT_TYPES": "typeId, sourceId, data"}[table]
            connection.execute(f"create table {table} ({columns})")
            connection.execute(f"insert into {table} values (1, 1, 'metric')")
            if table == "TARGET_INFO_GPU_METRICS":
                connection.execute("create table GPU_METRICS (timestamp, typeId, metricId, value)")
        connection.execute(statement)
    connection.close()
    assert statuses(path, monkeypatch) <= ANSWERED_OR_REFUSED


REPORT = "Start (ns),Duration (ns),CorrId,Strm,Device,Name\n"


@pytest.mark.parametrize("text", [
    REPORT.replace("Name", '"Name\n"v') + "1,2,3,4,GPU 0,k\n",
    REPORT.replace("CorrId", "(" * 20_000) + "1,2,3,4,GPU 0,k\n",
    REPORT.replace("CorrId", "Name") + "1,2,3,4,GPU 0,k\n",
    REPORT + '1,2,"3,4,GPU 0,k\n5,6,7,8,GPU 0,k\n',
])
def test_a_report_with_such_a_header_is_answered(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.csv"
    path.write_text(text)
    assert statuses(path, monkeypatch) <= ANSWERED_OR_REFUSED


def test_what_a_loader_did_not_expect_is_laid_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr("warplens.loaders.kineto.load.open_document", fail)
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": []}))
    with pytest.raises(Unreadable) as refused:
        open_run(str(path), use_cache=False)
    assert "ZeroDivisionError" in refused.value.reason and "report" not in str(refused.value)


def test_a_view_that_fails_ends_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr("warplens.analysis.query.report.report", fail)
    assert main(["report", str(SAMPLES / "kineto.pt.trace.json"), "--view", "kernels", "--no-cache"]) == 3
    said = capsys.readouterr().err
    assert "ZeroDivisionError" in said and "Traceback" not in said


def test_the_way_around_damage_grows_with_the_text_and_not_with_its_square(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted in bytes looked at, for time depends on the machine."""
    looked, real = 0, recovery.extent

    def counted(data: bytes, start: int, stop: int | None = None) -> int:
        nonlocal looked
        end = real(data, start, stop)
        looked += (end if end >= 0 else len(data) if stop is None else stop) - start
        return end

    monkeypatch.setattr(recovery, "extent", counted)
    event = b'{"ph":"X","name":"k","args":{"never closed":[{,'
    data = b"},".join([event + os.urandom(0)] * 4000)
    recovery.walk(data, 0, True, lambda *_: None, Tally())
    assert looked < 300 * len(data)


def test_noise_between_events_costs_only_itself(tmp_path: Path) -> None:
    noise = bytes(random.Random(1).choices(b'{}[],:"\\ph0', k=20_000))
    good = (SLICE % ("kernel", '"k"', 1, 1)).encode()
    path = tmp_path / "trace.json"
    path.write_bytes(b'{"traceEvents":[' + good + b"," + noise + b"}," + good + b"]}")
    (run,) = open_run(str(path), use_cache=False)
    assert run.kernels.collect().height >= 1
