"""Every real recording: it opens with what a plain reading of the file counts, or is refused for a true reason.

The table says which reading a file gets; a file that no line of it matches fails, so that new recordings get one. The
readings use nothing of the loaders.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
import sqlite3
from collections import Counter
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from warplens.loaders.errors import Unreadable
from warplens.loaders.ingest.opening import open_run

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "traces"
Counts = dict[str, int]
"""What is counted, by table or by kind of activity: rows, and under ``ns`` the summed time of kernels."""
LONG = 1_000_000
ALIKE = ("rocprof/omniperf/device_filter/MI100/timestamps.csv",)
"""Files that are read with their folder, as another of it is."""
"""Bytes of a packed Kineto file whose two plain readings take seconds."""
COLLECTIVE = ("nccl", "rccl", "cross_device_reduce", "all_reduce", "all_gather", "reduce_scatter", "multimem")


def text(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def lines(path: Path) -> list[list[str]]:
    return [row for row in csv.reader(text(path).decode("utf-8", "replace").splitlines()) if row]


def records(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(text(path).decode("utf-8", "replace").splitlines()))


def kineto(path: Path) -> Counts:
    """Complete events by category."""
    document = json.loads(text(path))
    events = document["traceEvents"] if isinstance(document, dict) else document
    found: Counter[str] = Counter()
    for event in events:
        kind = str(event.get("cat", "")).lower().removeprefix("gpu_")
        if event.get("ph") == "X" and "ts" in event:
            found["kernel"] += kind == "kernel"
            found["copies"] += kind in ("memcpy", "memset")
            found["python"] += kind == "python_function"
            found["ops"] += kind in ("cpu_op", "operator") and not event["name"].startswith("enumerate(DataLoader)")
            found["ns"] += round(float(event.get("dur", 0)) * 1000) if kind == "kernel" else 0
    return dict(found)


def ascend_timeline(path: Path) -> Counts:
    """Slices of the device's lanes, which are called so by their process."""
    events = json.loads(text(path))
    hardware = {event["pid"] for event in events if event.get("name") == "process_name"
                and event["args"]["name"] == "Ascend Hardware"}
    return {"activities": sum(event.get("ph") == "X" and event["pid"] in hardware for event in events)}


def nsys(path: Path) -> Counts:
    connection = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    there = {name for (name,) in connection.execute("select name from sqlite_master")}

    def count(table: str, what: str = "count(*)") -> int:
        return int(connection.execute(f"select {what} from {table}").fetchone()[0] or 0) if table in there else 0

    kernels = "CUPTI_ACTIVITY_KIND_KERNEL"
    found = {"kernel": count(kernels), "ns": count(kernels, "sum(end - start)"), "calls": count(
        "CUPTI_ACTIVITY_KIND_RUNTIME"), "copies": count("CUPTI_ACTIVITY_KIND_MEMCPY") + count(
        "CUPTI_ACTIVITY_KIND_MEMSET")}
    connection.close()
    return found


def rpd(path: Path) -> Counts:
    import tempfile

    with tempfile.NamedTemporaryFile(suffix=".rpd") as plain:
        plain.write(text(path))
        plain.flush()
        connection = sqlite3.connect(plain.name)
        kinds = dict(connection.execute(
            "select string, count(*) from rocpd_op join rocpd_string s on s.id = opType_id group by 1").fetchall())
        (monitored,) = connection.execute("select count(*) from rocpd_monitor").fetchone()
        connection.close()
    copies = sum(count for kind, count in kinds.items() if kind.startswith("Copy"))
    assert monitored
    return {"copies": copies, "kernel": sum(kinds.values()) - copies}


def kernel_csv(path: Path) -> Counts:
    rows = [row for row in records(path) if row["Kind"] == "KERNEL_DISPATCH"]
    return {"kernel": len(rows), "ns": sum(int(row["End_Timestamp"]) - int(row["Start_Timestamp"]) for row in rows)}


def api_csv(path: Path) -> Counts:
    return {"host": sum(bool(re.match(r"\d+$", row[-1]) or re.match(r"\d+$", row[-2])) for row in lines(path)[1:])}


def data_rows(table: str) -> Callable[[Path], Counts]:
    def count(path: Path) -> Counts:
        return {table: len(lines(path)) - 1}

    return count


def rocprofv3_json(path: Path) -> Counts:
    found = json.loads(text(path))["rocprofiler-sdk-tool"][0]["buffer_records"]["kernel_dispatch"]
    return {"kernel": len(found), "ns": sum(one["end_timestamp"] - one["start_timestamp"] for one in found)}


def rocprof(path: Path) -> Counts:
    body = [row for row in lines(path) if row[0].isdigit() and len(row) > 16]
    return {"kernel": len(body), "ns": sum(int(row[18]) - int(row[17]) for row in body)}


def ncu(path: Path) -> Counts:
    """Launches: of a page the different numbers, of text the lines with a context."""
    raw = text(path).decode()
    if path.suffix == ".csv":
        return {"kernel": len({row["ID"] for row in records(path)})}
    return {"kernel": len(re.findall(r"(?m)^ +\S.*, Context \d+, Stream \d+", raw))}


def kernel_details(path: Path) -> Counts:
    """What the vendor counts as run by the device, communication among it; also for the timeline beside it."""
    return {"kernel": len(records(path.with_name(path.name.replace("trace_view.json", "kernel_details.csv"))))}


def counters(path: Path) -> Counts:
    """One sample for each number under a header with a unit."""
    header, *rows = lines(path)
    units = [at for at, cell in enumerate(header) if "[" in cell]
    return {"metrics": sum(bool(re.match(r"\s*-?[\d.]+", row[at])) for row in rows for at in units)}


def scrape(path: Path) -> Counts:
    """Samples whose value is no stand-in for a blank."""
    found = re.findall(r"(?m)^\w+\{[^}]*\} +(\S+)", text(path).decode())
    return {"metrics": sum(float(value) < 2**62 for value in found)}


def xplane_twin(path: Path) -> Counts:
    twin = next((DATA / "jax_trace_json").glob(f"{path.name.split('.')[0]}*.json.gz"))
    (run,) = open_run(str(twin), use_cache=False)
    return {"activities": int(run.kernels.select(pl.len()).collect().item())}


def jax_json(path: Path) -> Counts:
    """Slices on the streams of devices."""
    events = json.loads(text(path))["traceEvents"]
    devices = {event["pid"] for event in events if event.get("name") == "process_name"
               and "GPU" in event["args"]["name"]}
    streams = {(event["pid"], event["tid"]) for event in events if event.get("name") == "thread_name"
               and event["args"]["name"].startswith("Stream") and event["pid"] in devices}
    return {"activities": sum(event.get("ph") == "X" and (event["pid"], event.get("tid")) in streams
                              for event in events)}


def tb_views(path: Path) -> Counts:
    """Rows of the tables of operators and kernels, and steps of the overview."""
    found = {}
    for document in map(json.loads, path.read_text().splitlines()):
        data = document.get("data")
        if isinstance(data, list):
            found["operators"] = len(data)
        elif isinstance(data, dict):
            found["kernel_stats"] = len(data["rows"])
        elif "steps" in document:
            found["cycles"] = len(document["steps"]["rows"])
    return found


def nothing(path: Path) -> Counts:
    """It opens, with some row in some table; another test counts what is in it."""
    return {}


REFUSED = "refused"
TABLE: tuple[tuple[str, Callable[[Path], Counts] | str], ...] = (
    ("ascend/*/ASCEND_PROFILER_OUTPUT/kernel_details.csv", kernel_details),
    ("ascend/*/ASCEND_PROFILER_OUTPUT/trace_view.json", kernel_details),
    ("ascend/mstt_trace_view.json", ascend_timeline), ("ascend/mstt_kernel_details.csv", kernel_details),
    ("ascend/*/profiler_*.json", "is a part of the ascend recording in its folder"),
    ("ascend/*/ASCEND_PROFILER_OUTPUT/*", "is a part of the ascend recording in its folder"),
    ("gpu_timeseries/*.prom", scrape), ("gpu_timeseries/*.csv", counters),
    ("jax_xplane/*op_stats*", "is not in a trace format"),  # sums of XProf, beside the profile they are made of
    ("jax_trace_json/*", jax_json), ("jax_xplane/*", xplane_twin),
    ("kineto/hta/memory_analysis/*", "is a list of numbers"),
    ("kineto/*", kineto),
    ("malformed/*.xplane.pb", "its messages cannot be read: a text tool replaced bytes"),
    ("malformed/*", nothing),
    ("ncu_csv/*", ncu), ("nsys_sqlite/*", nsys), ("nsys_stats/*", nothing),
    ("rocpd_schema/*", "is a text file, but not a trace format"),
    ("rocprof/kerbowa*", rocprof), ("rocprof/*_results.json.gz", rocprofv3_json),
    ("rocprof/omniperf/*/timestamps.csv", data_rows("kernels")), ("rocprof/omniperf/*/pmc_perf.csv", data_rows(
        "kernels")), ("rocprof/omniperf/*/SQ_LEVEL_WAVES.csv", data_rows("kernels")),
    ("rocprof/omniperf/*/sysinfo.csv", "describes the machine"),
    ("rocprof/omniperf/*", "lists kernels of a rocprofiler-compute workload without times"),
    ("rocprof/*kernel_trace*.csv", kernel_csv),
    ("rocprof/sdk_docs_new/pc_sampling*", "holds program-counter samples"),
    ("rocprof/sdk_docs_new/hip_domain_stats.csv", "names no kernels or calls"),
    ("rocprof/sdk_docs_new/kernel_names.csv", "holds counters of kernels without their times"),
    ("rocprof/sdk_docs_new/hip_api_stats.csv", data_rows("host_stats")),
    ("rocprof/sdk_docs_new/memory_copy_trace.csv", data_rows("kernels")),
    ("rocprof/sdk_docs_new/counter_collection.csv", data_rows("metrics")),
    ("rocprof/sdk_docs_new/*", api_csv),
    ("rpd/*", rpd), ("tracelens_golden/*", "is a text file, but not a trace format"),
    ("tb_plugin_golden/*.jsonl", tb_views), ("tb_plugin_golden/*", kineto),
)
"""Pattern of a path → the plain reading of such a file, or the reason it is refused for. The first that fits counts."""
FILES = sorted(str(path.relative_to(DATA)) for path in DATA.rglob("*") if path.is_file() and path.name != "MANIFEST.tsv"
               ) if DATA.is_dir() else []


def counted(run: Any, wanted: Counts) -> Counts:
    """The same of a Trace."""
    kernels = run.kernels.with_columns(pl.col("kind").cast(pl.String)).select("kind", "dur_ns").collect()
    kinds = run.host.select(pl.col("kind").cast(pl.String)).collect()["kind"]
    work = kernels.filter(pl.col("kind").is_in(["kernel", "collective"]))
    found = {
        "kernel": work.height, "ns": int(work["dur_ns"].sum() or 0), "activities": kernels.height,
        "copies": kernels.filter(pl.col("kind").is_in(["memcpy", "memset"])).height,
        "ops": int((kinds == "op").sum()), "python": int((kinds == "python").sum()),
        "calls": int(kinds.is_in(["runtime", "driver"]).sum()),
    }
    found["metrics"] = int(run.metrics.select(pl.col("value").count()).collect().item())
    return {name: found[name] if name in found else int(run.table(name).select(pl.len()).collect().item())
            for name in wanted}


@pytest.mark.skipif(not FILES, reason="the folder of real recordings is not here")
@pytest.mark.parametrize("name", FILES)
def test_it_opens_with_what_is_in_it_or_is_refused_for_a_true_reason(name: str, deep: bool) -> None:
    long = fnmatch(name, "kineto/*.gz") and (DATA / name).stat().st_size > LONG
    if not deep and (long or name in ALIKE):
        pytest.skip("a shorter one of its kind, or another of its folder, is read: make test-deep reads it, too")
    reading = next((reading for pattern, reading in TABLE if fnmatch(name, pattern)), None)
    assert reading is not None, "no line of the table says how to read this recording"
    if isinstance(reading, str):
        with pytest.raises(Unreadable, match=re.escape(reading)) as refused:
            open_run(str(DATA / name), use_cache=False)
        assert refused.value.advice
        return
    run = open_run(str(DATA / name), use_cache=False)[0]
    wanted = reading(DATA / name)
    found = counted(run, wanted)
    if "ns" in wanted:  # a time in µs with a fraction is rounded once
        assert abs(found.pop("ns") - wanted["ns"]) <= wanted["kernel"]
    assert found == {key: value for key, value in wanted.items() if key != "ns"}
