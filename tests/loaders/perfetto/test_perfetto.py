"""Perfetto traces: a made-up run as different writers have it and a real one agree with Kineto's JSON of them."""

from __future__ import annotations

import gzip
import importlib
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl
import pytest

from warplens.loaders import kineto, perfetto
from warplens.loaders.errors import Unreadable
from warplens.loaders.loader import Job
from warplens.loaders.perfetto.slices import Slices
from warplens.loaders.trace import Trace

KERNELS = ["start_ns", "dur_ns", "name", "kind", "device", "stream", "correlation", "op_id", "graph", "grid", "block",
           "registers", "shared_bytes", "bytes", "occupancy"]  # fmt: skip
HOST = ["start_ns", "dur_ns", "name", "kind", "pid", "tid", "correlation", "external_id"]


@pytest.fixture(scope="module")
def make() -> ModuleType:
    return importlib.import_module("make_perfetto")


def load(data: bytes, folder: Path, name: str = "run.pftrace") -> Trace:
    (folder / name).write_bytes(data)
    (trace,) = perfetto.LOADER.load(Job(folder / name, folder))
    return trace


def rows(frame: pl.LazyFrame, columns: list[str]) -> list[tuple[Any, ...]]:
    return sorted(frame.select(columns).collect().rows(), key=str)


def as_json(events: list[dict[str, Any]], folder: Path) -> Trace:
    """The same events through Kineto's reader."""
    written = [{**e, "ph": "X", "ts": e["ts"] / 1000, "dur": e["dur"] / 1000} for e in events]
    path = folder / "run.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": written}))
    (trace,) = kineto.LOADER.load(Job(path, folder))
    return trace


@pytest.mark.parametrize("dialect", ["sdk", "sdk, compressed packets", "metadata"])
def test_both_writers_say_what_the_json_says(dialect: str, make: ModuleType, tmp_path: Path) -> None:
    events = make.run()
    data = make.with_metadata(events) if dialect == "metadata" else make.Sdk(dialect != "sdk").write(events)
    (tmp_path / "json").mkdir()
    expected, found = as_json(events, tmp_path / "json"), load(data, tmp_path)
    assert rows(found.kernels, KERNELS) == rows(expected.kernels, KERNELS)
    assert rows(found.host, HOST) == rows(expected.host, HOST)
    assert rows(found.cycles, ["cycle", "start_ns", "dur_ns"]) == rows(expected.cycles, ["cycle", "start_ns", "dur_ns"])
    assert found.info.warnings == () and found.info.epoch_ns == make.EPOCH + 999_000


def test_samples_are_what_the_script_makes(samples: Path, make: ModuleType, tmp_path: Path) -> None:
    make.main(tmp_path)
    assert (samples / "perfetto.pftrace").read_bytes() == (tmp_path / "perfetto.pftrace").read_bytes()
    packed = "perfetto_metadata.pftrace.gz"  # how it is packed is for each version of Python to say
    assert gzip.decompress((samples / packed).read_bytes()) == gzip.decompress((tmp_path / packed).read_bytes())


def test_what_pytorch_says_of_the_recording(samples: Path, tmp_path: Path) -> None:
    (trace,) = perfetto.LOADER.load(Job(samples / "perfetto_metadata.pftrace.gz", tmp_path))
    assert trace.info.ranks == (3,) and trace.info.facts["world_size"] == 8
    assert [(device.id, device.name) for device in trace.info.devices] == [("GPU 0", "Made-up GPU")]
    assert trace.kernels.select(pl.col("rank").unique()).collect().to_series().to_list() == [3]


def test_counters_and_memory_are_metrics(samples: Path, tmp_path: Path) -> None:
    (trace,) = perfetto.LOADER.load(Job(samples / "perfetto.pftrace", tmp_path))
    assert rows(trace.metrics, ["metric", "device", "value", "unit"]) == [
        ("memory allocated", "GPU 0", 4096.0, "B"), ("memory reserved", "GPU 0", 8192.0, "B"),
        ("power", "GPU 0", 310.5, "W"), ("power", "GPU 0", 402.0, "W"),
    ]  # fmt: skip
    held = rows(trace.allocations, ["device", "address", "bytes", "pid", "tid"])
    assert held == [("GPU 0", 0x7F1000, 4096, 4711, 4711)]


@pytest.mark.parametrize("name", ["perfetto.pftrace", "perfetto_metadata.pftrace.gz"])
def test_all_arguments_of_an_event_are_read_again(samples: Path, tmp_path: Path, name: str) -> None:
    (trace,) = perfetto.LOADER.load(Job(samples / name, tmp_path))
    row = trace.kernels.filter(pl.col("kind").cast(pl.String) == "collective").collect().row(0, named=True)
    said = perfetto.LOADER.arguments(samples / name, row["offset"], row["name"])
    said = {**said, **json.loads("{" + said["metadata"] + "}")} if "metadata" in said else said
    assert said["Collective name"] == "allreduce" and said["Group size"] == 8 and said["block"] == [256, 1, 1]
    with pytest.raises(ValueError):
        perfetto.LOADER.arguments(samples / name, row["offset"] + 1, row["name"])


def test_a_flow_ties_what_has_no_correlation(make: ModuleType, tmp_path: Path) -> None:
    Fixed = sys.modules["protobuf_writer"].Fixed
    call = [(9, 1), (11, 5), (22, "cuda_runtime"), (23, "cudaLaunchKernel"), (47, Fixed(77))]
    kernel = [(9, 1), (11, 6), (22, "kernel"), (23, "k"), (48, Fixed(77))]
    packets = [
        [(60, [(1, 5), (4, [(1, 10), (2, 11)])])], [(60, [(1, 6), (2, "GPU 2 stream 7")])],
        [(8, 1000), (11, call)], [(8, 1500), (11, [(9, 2), (11, 5)])],
        [(8, 2000), (11, kernel)], [(8, 2600), (11, [(9, 2), (11, 6)])],
    ]  # fmt: skip
    trace = load(make.message([(1, packet) for packet in packets]), tmp_path)
    assert rows(trace.kernels, ["device", "stream", "correlation", "dur_ns"]) == [("GPU 2", 7, 77, 600)]
    assert rows(trace.host, ["pid", "tid", "correlation", "dur_ns"]) == [(10, 11, 77, 500)]


def test_a_real_recording_says_the_same_in_perfetto(data: Path, make: ModuleType, tmp_path: Path) -> None:
    source = next((data / "traces/kineto/tracelens/h100").glob("*.json.gz"))
    events = [
        {**e, "ts": round(e["ts"] * 1000), "dur": round(e["dur"] * 1000), "args": e.get("args", {})}
        for e in json.loads(gzip.decompress(source.read_bytes()))["traceEvents"]
        if e.get("ph") == "X" and e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cpu_op")
    ]
    first = min(event["ts"] for event in events)
    for event in events:
        event["ts"] -= first
    (tmp_path / "json").mkdir()
    expected, found = as_json(events, tmp_path / "json"), load(make.with_metadata(events), tmp_path)
    columns = [column for column in KERNELS if column != "graph"]
    assert rows(found.kernels, columns) == rows(expected.kernels, columns)
    assert found.kernels.collect().height > 100


def test_begins_and_ends_pair_by_time_whatever_their_order_in_the_file() -> None:
    import numpy as np

    slices = Slices()
    #          outer 0-100   inner 10-40   again 40-60   other lane   stray end   never ended
    times = [0, 100, 10, 40, 40, 60, 5, 9, 3, 200]
    lanes = [1, 1, 1, 1, 1, 1, 2, 2, 3, 3]
    begins = [True, False, True, False, True, False, True, False, False, True]
    slices.add(np.array(times), np.array(lanes), np.array(begins))
    durations = slices.durations().tolist()
    assert durations[:4] == [100, 30, 20, 4] and durations[4] < 0
    assert (slices.open, slices.stray) == (1, 1)


@pytest.mark.parametrize(
    ("keep", "said"),
    [(0.999, "ends in the middle of a packet"), (0.5, "slices were still open at the end")],
)
def test_a_trace_that_was_cut_off_shows_what_there_is(samples: Path, tmp_path: Path, keep: float, said: str) -> None:
    data = (samples / "perfetto.pftrace").read_bytes()
    trace = load(data[: int(len(data) * keep)], tmp_path)
    assert trace.has("kernels") and said in " ".join(trace.info.warnings)
    assert trace.info.coverage is not None and trace.info.coverage <= 1


def test_a_trace_of_other_things_is_refused_with_what_it_is(make: ModuleType, tmp_path: Path) -> None:
    packets = make.message([(1, [(8, 5), (10, 1), (60, [(1, 4), (2, "a track")])]) for _ in range(3)])
    with pytest.raises(Unreadable, match=r"without track events \(3 packets"):
        load(packets, tmp_path)


def test_only_packets_are_taken_for_packets(samples: Path) -> None:
    sniff = perfetto.LOADER.sniff
    assert sniff((samples / "perfetto.pftrace").read_bytes()[:300])
    assert not any(map(sniff, (b"", b"\n", b"\n\n\n\n", b"\n\x02ab", b"\x0a\x00" * 40, b"{}", bytes(100))))
    assert not sniff((samples / "xla_gpu.xplane.pb").read_bytes())


def test_arguments_as_one_text_an_event_do_not_count_as_names(
    make: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARPLENS_LIMITS", "names=600")
    events = make.run(60)
    assert len({json.dumps(event["args"]) for event in events}) > 600
    assert load(make.with_metadata(events), tmp_path).kernels.collect().height == 4 * 60
    monkeypatch.setenv("WARPLENS_LIMITS", "names=20")
    with pytest.raises(Unreadable, match="different names"):
        load(make.with_metadata(events), tmp_path)


def test_a_list_is_a_grid_where_it_has_up_to_three_numbers(make: ModuleType, tmp_path: Path) -> None:
    shapes = [[7], [7, 8], [9, 8, 7], [1, 2, 3, 4], [7, 8], [0, 0, 0], []]
    events = [{"cat": "kernel", "name": f"k{at}", "ts": 1000 + 10 * at, "dur": 5, "pid": 0, "tid": 7,
               "args": {"grid": shape, "correlation": at + 1}} for at, shape in enumerate(shapes)]
    grids = load(make.Sdk().write(events), tmp_path).kernels.select(pl.col("grid").cast(pl.String)).collect()
    assert grids["grid"].to_list() == ["7", "7,8", "9,8,7", None, "7,8", "0,0,0", None]


def test_a_category_that_nothing_spells_is_none(make: ModuleType, tmp_path: Path) -> None:
    packets = [[(8, 1000), (11, [(9, 1), (11, 5), (3, 9)])], [(8, 1500), (11, [(9, 2), (11, 5)])]]
    trace = load(make.message([(1, packet) for packet in packets]), tmp_path)
    assert trace.kernels.collect().is_empty()


def test_packets_that_no_reader_knows_are_listed(samples: Path, tmp_path: Path) -> None:
    def packet(number: int) -> bytes:
        inside = bytes(((number << 3 | 2) & 127 | 128, number >> 4, 0))  # an empty message of that type
        return bytes((10, len(inside))) + inside

    data = (samples / "perfetto.pftrace").read_bytes()
    trace = load(data + packet(52) * 3 + packet(151) * 2 + packet(35), tmp_path)
    assert [tuple(table) for table in trace.info.facts["tables"]] == [
        ("gpu_counter_event", 3, False), ("packets of type 151", 2, False), ("track_event", 59, True)]
