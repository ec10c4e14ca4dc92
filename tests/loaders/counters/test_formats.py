"""Every format of counters against a plain reading of the same file."""

from __future__ import annotations

import csv
import importlib.util
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from warplens.loaders import registry
from warplens.loaders.counters import loader as tables
from warplens.loaders.errors import Unreadable
from warplens.loaders.ingest import stream
from warplens.loaders.loader import Job
from warplens.loaders.trace import Trace

Sums = dict[tuple[str, str | None], tuple[int, float]]
"""Counter and device → samples that were measured, and their sum."""


def load(path: Path, tmp_path: Path) -> Trace:
    (loader,) = registry.claims(stream.head(path))
    (trace,) = loader.load(Job(path, tmp_path))
    return trace


def sums(trace: Trace) -> Sums:
    rows = trace.metrics.group_by("metric", "device").agg(pl.col("value").count().alias("n"), pl.col("value").sum())
    return {(str(metric), device and str(device)): (n, total) for metric, device, n, total in rows.collect().rows()}


def about(want: Sums) -> dict[tuple[str, str | None], tuple[int, Any]]:
    """What equals these counts, and these sums but for the order they were added in."""
    return {key: (count, pytest.approx(total)) for key, (count, total) in want.items()}


def tallied(cells: Iterator[tuple[str, str, str, float]]) -> Sums:
    """Of (counter, device, text, factor); what is no number counts as not measured."""
    made: dict[tuple[str, str | None], tuple[int, float]] = defaultdict(lambda: (0, 0.0))
    for name, device, text, factor in cells:
        count, total = made[name, device]
        try:
            made[name, device] = count + 1, total + float(text) * factor
        except ValueError:
            made[name, device] = count, total
    return dict(made)


MIB = 2.0**20


def test_a_query_of_nvidia_smi(samples: Path, tmp_path: Path) -> None:
    path = samples / "counters/nvidia_smi_query.csv"
    factors = {"MiB": MIB}

    def cells() -> Iterator[tuple[str, str, str, float]]:
        for row in csv.DictReader(path.read_text().splitlines(), skipinitialspace=True):
            for heading, text in row.items():
                name, _, unit = heading.partition(" [")
                if name not in ("timestamp", "index", "name", "pstate"):
                    yield name, f"GPU {row['index']}", text.split(" ")[0], factors.get(unit.rstrip("]"), 1.0)

    trace = load(path, tmp_path)
    assert sums(trace) == about(tallied(cells()))
    assert trace.info.devices[1].name == "NVIDIA H100 80GB HBM3"
    assert trace.info.facts["columns_left_out"] == ["pstate"]
    units = dict(trace.metrics.select(pl.col("metric", "unit").cast(pl.String)).unique().collect().rows())
    assert units == {
        "utilization.gpu": "%", "utilization.memory": "%", "memory.total": "B", "memory.used": "B",
        "clocks.current.sm": "MHz", "power.draw": "W", "temperature.gpu": "C", "fan.speed": "%",
    }
    assert trace.metrics.select(pl.col("ts_ns").max()).collect().item() == 29 * 10**9


def test_dmon_of_nvidia_smi(samples: Path, tmp_path: Path) -> None:
    path = samples / "counters/nvidia_smi_dmon.txt"

    def cells() -> Iterator[tuple[str, str, str, float]]:
        names: list[str] = []
        for line in path.read_text().splitlines():
            parts = line.lstrip("#").split()
            if line.startswith("#Date"):
                names = parts
            elif not line.startswith("#"):
                for name, text in zip(names[3:], parts[3:], strict=True):
                    factor = MIB if name == "fb" else 1e6 if name.endswith("pci") else 1.0
                    yield name, f"GPU {parts[2]}", text, factor

    trace = load(path, tmp_path)
    assert sums(trace) == about(tallied(cells()))
    assert trace.info.facts["clock"] == "local" and not trace.info.warnings


@pytest.mark.parametrize("separator", [" ", ", "])
def test_dmon_without_times_has_none(tmp_path: Path, separator: str) -> None:
    path = tmp_path / "dmon.txt"
    rows = [["# gpu", "pwr", "sm"], ["# Idx", "W", "%"], ["0", "200", "-"], ["0", "210", "50"]]
    path.write_text("\n".join(separator.join(row) for row in rows) + "\n")
    trace = load(path, tmp_path)
    assert sums(trace) == about({("pwr", "GPU 0"): (2, 410.0), ("sm", "GPU 0"): (1, 50.0)})
    assert trace.metrics.select(pl.col("ts_ns").null_count()).collect().item() == 4
    assert "-o DT records times" in trace.info.warnings[0]


def test_dmon_of_dcgmi(samples: Path, tmp_path: Path) -> None:
    path = samples / "counters/dcgmi_dmon.txt"
    factors = {"SMACT": 100.0, "FBUSD": MIB}

    def cells() -> Iterator[tuple[str, str, str, float]]:
        names: list[str] = []
        for line in path.read_text().splitlines():
            if line.startswith("#Entity"):
                names = line.split()[1:]
            elif line.startswith("GPU"):
                for name, text in zip(names, line.split()[2:], strict=True):
                    yield name, " ".join(line.split()[:2]), text, factors.get(name, 1.0)

    assert sums(load(path, tmp_path)) == about(tallied(cells()))


def test_dcgmi_with_times_before_each_line(tmp_path: Path) -> None:
    path = tmp_path / "dcgmi.log"
    path.write_text("2026-03-02T14:07:30.5 #Entity   GPUTL\n2026-03-02T14:07:30.5 ID\n"
                    "2026-03-02T14:07:30.5 GPU 0     7\n2026-03-02T14:07:31.5 GPU 0     N/A\n")
    trace = load(path, tmp_path)
    assert trace.metrics.select("ts_ns", "value").collect().rows() == [(0, 7.0), (10**9, None)]
    assert trace.info.warnings == ()


def test_what_the_dcgm_exporter_shows(samples: Path, tmp_path: Path) -> None:
    path = samples / "counters/dcgm_exporter.prom"
    factors = {"DCGM_FI_DEV_FB_USED": MIB, "DCGM_FI_PROF_SM_ACTIVE": 100.0}

    def cells() -> Iterator[tuple[str, str, str, float]]:
        for line in path.read_text().splitlines():
            if found := re.match(r'(\w+)\{gpu="(\d)".*\} (\S+) \d+$', line):
                text = "blank" if found[3] == "9223372036854775794" else found[3]
                yield found[1], f"GPU {found[2]}", text, factors.get(found[1], 1.0)

    trace = load(path, tmp_path)
    assert sums(trace) == about(tallied(cells()))
    assert trace.info.epoch_ns == 1772460450250 * 10**6 and trace.info.warnings == ()
    assert trace.info.devices[0].name == "NVIDIA H100 80GB HBM3"


def test_the_answer_of_a_range_query(samples: Path, tmp_path: Path) -> None:
    path = samples / "counters/prometheus_range.json"

    def cells() -> Iterator[tuple[str, str, str, float]]:
        for one in json.loads(path.read_text())["data"]["result"]:
            name = one["metric"]["__name__"]
            for _, text in one["values"]:
                blank = "" if text == "NaN" else text
                yield name, f"GPU {one['metric']['gpu']}", blank, 100.0 if "ACTIVE" in name else 1.0

    trace = load(path, tmp_path)
    assert sums(trace) == about(tallied(cells()))
    assert trace.metrics.filter(pl.col("value").is_nan()).collect().is_empty()


def test_rocm_smi_in_a_loop(samples: Path, tmp_path: Path) -> None:
    path = samples / "counters/rocm_smi.csv"

    def cells() -> Iterator[tuple[str, str, str, float]]:
        names: list[str] = []
        for row in csv.reader(path.read_text().splitlines()):
            if row and row[0] == "device":
                names = row
            elif row:
                for heading, text in zip(names[1:], row[1:], strict=True):
                    name = heading if heading.endswith("(VRAM%)") else heading.rpartition(" (")[0]
                    yield name, row[0].replace("card", "GPU "), text, 1.0

    assert sums(load(path, tmp_path)) == about(tallied(cells()))


def test_amd_smi(samples: Path, tmp_path: Path) -> None:
    path = samples / "counters/amd_smi_monitor.csv"

    def cells() -> Iterator[tuple[str, str, str, float]]:
        for row in csv.DictReader(path.read_text().splitlines()):
            for name, text in row.items():
                if name not in ("timestamp", "gpu"):
                    yield name, f"GPU {row['gpu']}", text, MIB if name.startswith("vram") else 1.0

    trace = load(path, tmp_path)
    assert sums(trace) == about(tallied(cells()))
    assert trace.info.epoch_ns == 1772460450 * 10**9


def test_a_log_of_somebodys_own(samples: Path, tmp_path: Path) -> None:
    trace = load(samples / "counters/counters_wide.csv", tmp_path)
    rows = list(csv.DictReader((samples / "counters/counters_wide.csv").read_text().splitlines()))
    assert sums(trace) == about({
        ("host_cpu_percent", None): (30, sum(float(row["host_cpu_percent"]) for row in rows)),
        ("loss", None): (30, sum(float(row["loss"]) for row in rows)),
        ("power_w", "GPU 0"): (30, sum(float(row["gpu0_power_w"]) for row in rows)),
        ("power_w", "GPU 1"): (30, sum(float(row["gpu1_power_w"]) for row in rows)),
    })
    assert trace.info.facts["clock"] == "utc"


def test_a_row_a_sample(samples: Path, tmp_path: Path) -> None:
    path = samples / "counters/counters_long.csv"
    cells = ((row["metric"], row["device"], row["value"], MIB if row["unit"] == "MiB" else 1.0)
             for row in csv.DictReader(path.read_text().splitlines(), delimiter=";"))
    assert sums(load(path, tmp_path)) == about(tallied(cells))


def test_a_real_log(data: Path, tmp_path: Path) -> None:
    path = data / "traces/gpu_timeseries/distracted_gpu_usage_log.csv"
    rows = list(csv.DictReader(path.read_text().splitlines(), skipinitialspace=True))
    trace = load(path, tmp_path)
    assert sums(trace) == about({
        (name, "GPU 0"): (len(rows), factor * sum(float(row[heading]) for row in rows))
        for name, heading, factor in (
            ("gpu_utilization", "gpu_utilization[%]", 1.0), ("memory.total", "memory.total[MiB]", MIB),
            ("memory.used", "memory.used[MiB]", MIB), ("memory.free", "memory.free[MiB]", MIB),
            ("temperature", "temperature[°C]", 1.0),
        )
    })
    format = "%Y/%m/%d %H:%M:%S.%f"
    first, last = (datetime.strptime(rows[at]["timestamp"], format) for at in (0, -1))
    span = round((last - first) / timedelta(microseconds=1)) * 1000
    assert trace.metrics.select(pl.col("ts_ns").max()).collect().item() == span


@pytest.mark.parametrize(("text", "names"), [
    ('a{b="1"} 1\na{b="2"} 2\n', {'a{b="1"}', 'a{b="2"}'}),
    ('a{gpu="1",x="y"} 1\na{gpu="2",x="y"} 2\n', {"a"}),
    ('a{gpu="1",m="r"} 1\na{gpu="1",m="w"} 2\n', {'a{m="r"}', 'a{m="w"}'}),
    ('a{x="1"} 3\n\nnot a sample at all here\n', {"a"}),
    ("# TYPE up gauge\nup 1\n", {"up"}),
])
def test_series_that_differ_keep_the_labels_in_which_they_do(tmp_path: Path, text: str, names: set[str]) -> None:
    path = tmp_path / "one.prom"
    path.write_text(text)
    assert {name for name, _ in sums(load(path, tmp_path))} == names


def test_devices_of_several_hosts_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "two.prom"
    path.write_text('p{gpu="0",Hostname="n1"} 1\np{gpu="0",Hostname="n2"} 2\n')
    assert set(sums(load(path, tmp_path))) == {("p", "n1 GPU 0"), ("p", "n2 GPU 0")}


@pytest.mark.parametrize("text", [
    "timestamp,name\n2026/03/02 14:07:30,x\n",  # nothing to measure
    "start,end,value\n1,2,3\n",  # events
    "time,calls\n3,1\n1,2\n",  # sums
    "name,command,timestamp\nx,python train.py,1772460450\n",
    "a,b\n1,2\n",
])
def test_tables_of_other_things_are_nobodys(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.csv"
    path.write_text(text)
    assert registry.claims(stream.head(path)) == ()


@pytest.mark.parametrize("text", [
    "timestamp, utilization.gpu [%]\n", "timestamp, utilization.gpu [%]\n2026/03/02 14:07:30, [N/A]\n",
    '{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"a"},"values":[[1,"2"]',
    "#Entity GPUTL\n",
    '{"status":"success","data":{"resultType":"matrix","result":[]}}', "# HELP a b\n# TYPE a gauge\n",
    "# gpu pwr\n# Idx W\n",
    "timestamp," + ",".join(f"utilization.gpu{n}" for n in range(9000)) + "\n1" + ",1" * 9000 + "\n",
])
def test_a_file_without_a_sample_is_refused_in_a_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "empty.txt"
    path.write_text(text)
    with pytest.raises(Unreadable) as refused:
        load(path, tmp_path)
    assert refused.value.advice and "\n" not in str(refused.value)


def test_a_process_is_named_by_its_number_and_never_by_its_command(tmp_path: Path) -> None:
    path = tmp_path / "apps.csv"
    path.write_text("timestamp, gpu_uuid, pid, process_name, used_gpu_memory [MiB]\n"
                    "2026/03/02 14:07:30.000, GPU-1, 77, python --token=hunter2, 100 MiB\n")
    trace = load(path, tmp_path)
    assert trace.metrics.select("pid", "value").collect().rows() == [(77, 100 * MIB)]
    assert "hunter2" not in str(trace.info) + str(trace.metrics.collect().to_dicts())


def test_the_samples_are_what_the_script_makes(samples: Path) -> None:
    spec = importlib.util.spec_from_file_location("make_counters", samples / "make_counters.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name, text in module.files().items():
        assert (samples / "counters" / name).read_text(encoding="utf-8") == text, name


def test_headings_that_differ_by_blanks_only_are_columns_of_their_own() -> None:
    read = tables.read(b"timestamp, power [W],  power [W]\n2026/03/02 14:07:30.250, 7 W, 8 W\n", "table")
    assert read is not None and sorted(read.samples["value"].to_list()) == [7.0, 8.0]


def test_a_decimal_comma_in_every_time_is_a_point() -> None:
    rows = [f"2026-03-02T14:07:3{second},123456789+00:00,{power}\n" for second, power in enumerate((7, 8))]
    read = tables.read(("timestamp,power [W]\n" + "".join(rows)).encode(), "table")
    assert read is not None and read.samples["value"].to_list() == [7.0, 8.0]
    assert read.samples["ts_ns"].diff().drop_nulls().to_list() == [10**9]
    assert read.faults.warnings() == []


def test_a_row_with_more_cells_than_headings_gives_no_number() -> None:
    text = b"timestamp,power [W],clocks.sm [MHz]\n2026/03/02 14:07:30,312,45 W,1410\n2026/03/02 14:07:31,300,1410\n"
    read = tables.read(text, "gpu.csv")
    assert read is not None and sorted(read.samples["value"].to_list()) == [300.0, 1410.0]
    assert read.faults.warnings() == ["1 row of gpu.csv with more cells than headings was left out"]
