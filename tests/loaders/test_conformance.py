"""Every loader over every sample: exactly one claims each, and what it loads is what the data model says."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import cache
from pathlib import Path

import polars as pl
import pytest

from warplens.loaders import registry, schema
from warplens.loaders.in_place import IN_PLACE
from warplens.loaders.ingest import stream
from warplens.loaders.ingest.call_tree import deferred
from warplens.loaders.ingest.opening import open_run
from warplens.loaders.loader import FormatLoader, Job
from warplens.loaders.recognition import recognised
from warplens.loaders.trace import TABLE_NAMES, Trace

SAMPLES = Path(__file__).resolve().parents[2] / "samples"
BESIDE = ("_agent_info.csv", "sysinfo.csv", "step_trace_time.csv", "memory_record.csv", "profiler_info_1.json")
"""Ends of names of samples that are no input of their own: they are read with the files beside them."""
FILES = sorted(
    path
    for path in SAMPLES.rglob("*")
    if path.is_file() and not path.name.endswith((".py", ".pyc", ".ipynb", "README.md", *BESIDE))
    and (path.suffix != ".parquet" or path.name in ("StringIds.parquet", "operations.parquet"))
    and path.parent.parent.name != "dataset"
)
UNWRITTEN = {"ncu-rep"}
"""Formats that nobody but their vendor can write: their loaders are tried with a stand-in for the vendor's library."""
KINDS = {"kernel", "collective", "memcpy", "memset", "sync"}
SOURCES = {"recorded", "annotation", "anchor", "pattern"}


Load = Callable[[Path], tuple[Trace, ...]]


def named(path: Path) -> str:
    return str(path.relative_to(SAMPLES))


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Load:
    """What its loader makes of a sample: it is loaded for the first test that asks, the tables are asked anew."""

    @cache
    def traces(path: Path) -> tuple[Trace, ...]:
        (loader,) = registry.claims_of(path, stream.head(path))
        return loader.load(Job(path, tmp_path_factory.mktemp("workspace")))

    return traces


@pytest.mark.parametrize("path", FILES, ids=named)
def test_exactly_one_loader_claims_it(path: Path) -> None:
    head = stream.head(path)
    by_bytes = [loader.name for loader in registry.loaders() if loader.sniff(head)]
    by_name = [loader.name for loader in registry.loaders() if loader.recognises(path)]
    assert (by_bytes or by_name) == [loader.name for loader in registry.claims_of(path, head)]
    assert len(by_bytes or by_name) == 1


def test_every_loader_has_a_sample() -> None:
    claimed = {loader.name for path in FILES for loader in registry.claims_of(path, stream.head(path))}
    assert claimed | UNWRITTEN == {loader.name for loader in registry.loaders()}


def test_loaders_are_described() -> None:
    for loader in registry.loaders():
        assert isinstance(loader, FormatLoader)
        assert loader.title and loader.version >= 1 and all(suffix.startswith(".") for suffix in loader.suffixes)
    names = [loader.name for loader in registry.loaders()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("path", FILES, ids=named)
def test_its_tables_have_the_schema(path: Path, load: Load) -> None:
    traces = load(path)
    (loader,) = registry.claims_of(path, stream.head(path))
    filled = {table for trace in traces for table in TABLE_NAMES if trace.has(table)}
    assert filled and filled <= set(loader.fills), f"{loader.name} says it fills {loader.fills}"
    for trace in traces:
        for table in TABLE_NAMES:
            assert dict(trace.table(table).collect_schema()) == schema.polars_schema(table), table
        assert trace.info.format and trace.info.label and trace.info.source
        assert trace.info.coverage is None or 0 <= trace.info.coverage <= 1


@pytest.mark.parametrize("path", FILES, ids=named)
def test_its_values_are_possible(path: Path, load: Load) -> None:
    for trace in load(path):
        for table in ("kernels", "host", "cycles"):
            spans = trace.table(table).select("start_ns", "dur_ns").collect()
            assert not (spans["dur_ns"] < 0).any() and not (spans["start_ns"] < 0).any()
        kernels = trace.kernels.collect()
        assert kernels["index"].to_list() == list(range(kernels.height))
        assert set(kernels["kind"].cast(pl.String)) <= KINDS
        assert not kernels["name"].null_count()
        for fraction in ("tensor", "dram", "occupancy"):
            assert not ((kernels[fraction] < 0) | (kernels[fraction] > 1.5)).any()
        cycles = trace.cycles.collect()
        assert set(cycles["source"].cast(pl.String)) <= SOURCES
        devices = kernels["device"].drop_nulls().cast(pl.String).unique().to_list()
        assert set(devices) <= {device.id for device in trace.info.devices} | {"Host"}


@pytest.mark.parametrize("path", FILES, ids=named)
def test_opening_keeps_what_the_loader_read(path: Path, load: Load) -> None:
    for opened, direct in zip(open_run(str(path), use_cache=False), load(path), strict=True):
        with_tree = recognised(deferred(direct))
        for table in TABLE_NAMES:
            assert opened.table(table).collect().equals(with_tree.table(table).collect()), table
        assert opened.info.label == direct.info.label
        assert opened.info.warnings == direct.info.warnings


def test_the_layouts_of_nsight_compute_agree(load: Load) -> None:
    columns = ("index", "dur_ns", "name", "kind", "device", "stream", "pid", "grid", "block", "tensor", "dram")
    long, wide, text = (
        load(SAMPLES / name)[0].kernels.select(columns).collect()
        for name in ("ncu_long.csv", "ncu_wide.csv", "ncu_text.txt")
    )
    assert long.equals(wide) and long.equals(text) and long.height == 5


def test_generated_samples_are_what_the_script_makes() -> None:
    spec = importlib.util.spec_from_file_location("make_text", SAMPLES / "make_text.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name, content in module.files().items():
        assert (SAMPLES / name).read_text(encoding="utf-8") == content, name


RECORDINGS = {
    "kernel-table": ("seeds/kernel_table_*.txt",),
    "comparison": ("seeds/strict_comparison_*.md", "latencyprism/*/expected_comparison.csv"),
    "tb-views": ("seeds/tb_profiler_views_*.jsonl", "traces/tb_plugin_golden/*.expected.jsonl"),
    "cycle-profile": ("latencyprism/*/*/result_*_data.csv",),
    "ncu": ("traces/ncu_csv/**/*.csv", "traces/ncu_csv/**/*.txt"),
    "rocprofv3-csv": (
        "traces/rocprof/unified-viewer_*.csv", "traces/rocprof/sdk_docs_new/*_trace*.csv",
        "traces/rocprof/sdk_docs_new/*_stats.csv", "traces/rocprof/sdk_docs_new/counter_collection.csv",
        "traces/rocprof/sdk_docs_new/python_bindings.csv", "traces/rocprof/sdk_docs_new/rocpd-to-csv.csv",
    ),
    "rocprofv3-json": ("traces/rocprof/*_results.json.gz",),
    "rocprof": ("traces/rocprof/kerbowa*.csv",),
    "rocprofiler-compute": tuple(
        f"traces/rocprof/omniperf/*/*/{name}.csv" for name in ("timestamps", "pmc_perf", "SQ_LEVEL_WAVES")
    ),
    "rpd": ("traces/rpd/*",),
    "ascend": ("traces/ascend/**/*kernel_details.csv",),
    "xla": ("traces/**/*.xplane.pb",),
    "perfetto": ("traces/**/*.pftrace",),
    "nvidia-smi": ("traces/gpu_timeseries/*.csv",),
    "prometheus": ("traces/gpu_timeseries/*.prom",),
    **dict.fromkeys(("dcgmi", "amd-smi", "counters-csv", "memory-snapshot"), ()),
}
"""Our text formats → their files among the real recordings; no other file there is one of them."""


def test_recordings_are_claimed_by_their_loader_and_by_no_other(data: Path) -> None:
    homes = {path: name for name, globs in RECORDINGS.items() for pattern in globs for path in data.glob(pattern)}
    others = {"hostile", "cases", "claims"}
    recordings = (path for path in data.rglob("*") if path.is_file() and not others & {*path.parts})
    for path in sorted(recordings):
        head = stream.head(path)
        claimed = [loader.name for loader in registry.loaders() if loader.sniff(head)]
        assert len(claimed) <= 1, path
        assert {name for name in claimed if name in RECORDINGS} == ({homes[path]} if path in homes else set()), path


def test_a_folder_read_where_it_lies_is_known_by_what_its_loader_says() -> None:
    """``IN_PLACE`` repeats, so that nothing need be imported, what those loaders say of themselves."""
    ready = {loader.directory_file: loader for loader in registry.ours() if loader.in_place}
    assert set(ready) == set(IN_PLACE)
    for name, (module, beginning) in IN_PLACE.items():
        assert ready[name] is registry.named(ready[name].name) and ready[name].sniff(beginning)
        assert type(ready[name]).__module__.endswith(f".{module}")


def test_what_is_known_of_loaders_without_importing_them_is_what_they_say() -> None:
    known = registry.DIRECTORY_FILES, set(registry.DIRECTORIES_WITHIN), registry.SAMPLERS
    ours = tuple(registry.ours())
    assert known == (
        {one.directory_file: one.name for one in ours if one.directory_file},
        {one.directory_within for one in ours if one.directory_within},
        {one.name for one in ours if one.is_sidecar},
    )


def test_every_loader_is_found_by_its_name() -> None:
    assert all(registry.named(loader.name) is loader for loader in registry.ours())
    assert registry.named("no such format") is None
