"""AMD's formats when they are damaged or made to harm: what can be read is, the rest is counted, nothing hangs."""

from __future__ import annotations

import gzip
import json
import shutil
import sqlite3
from pathlib import Path

import polars as pl
import pytest
from fuzz_files import fuzz
from fuzz_rocm import FILES, Amd, target

from warplens.loaders import registry, rocm
from warplens.loaders.errors import Cancelled, Unreadable
from warplens.loaders.ingest import stream
from warplens.loaders.ingest.opening import open_run
from warplens.loaders.loader import FormatLoader, Job
from warplens.loaders.trace import Trace

SAMPLES = Path(__file__).resolve().parents[3] / "samples"
KERNELS = "rocprofv3/run_kernel_trace.csv"


def load(loader: FormatLoader, path: Path, workspace: Path) -> Trace:
    (trace,) = loader.load(Job(path, workspace))
    return trace


def edited(tmp_path: Path, name: str, *statements: str) -> Path:
    path = tmp_path / name
    shutil.copy(SAMPLES / name, path)
    with sqlite3.connect(path) as database:
        for statement in statements:
            database.execute(statement)
    database.close()
    return path


def test_changed_bytes_cells_and_numbers_never_get_through(deep: bool) -> None:
    amd, most = target(), 300 if deep else 80
    assert isinstance(amd.loader, Amd)
    assert not fuzz(amd, 18, lambda tries: tries >= most).failures
    told = amd.loader.told
    assert sum(told.values()) == most
    assert {name.split()[0] for name in told} == {
        registry.claims(stream.head(SAMPLES / name))[0].name for name in FILES
        if not name.endswith(("agent_info.csv", "sysinfo.csv"))
    }


def test_text_where_numbers_should_be_is_null_and_counted(tmp_path: Path) -> None:
    path = edited(
        tmp_path, "rocpd_plain.db", "update rocpd_kernel_dispatch set start = 'soon' where id = 1",
        "update rocpd_kernel_dispatch set end = 'later', grid_size_x = 1.5 where id = 2",
        "update rocpd_kernel_dispatch set end = 9223372036854775807 where id = 3",
    )
    run = load(rocm.ROCPD, path, tmp_path)
    kernels = run.kernels.filter(pl.col("kind") != "memcpy").select("dur_ns", "grid").collect()
    assert kernels.height == 12 and kernels["dur_ns"].null_count() == 3
    assert {
        "2 values of rocpd_kernel_dispatch (start, end) could not be read: no number",
        "1 value of rocpd_kernel_dispatch (end) could not be read: out of range",
        "1 of 16 launches carry no time: they are counted, and in no sum",
    } <= set(run.info.warnings)


def test_a_view_that_never_ends_is_not_run(tmp_path: Path) -> None:
    endless = (
        "create view rocpd_kernel_dispatch as with recursive c(x) as (select 1 union all select x + 1 from c) "
        "select x as id, x as start, x as end from c"
    )
    path = edited(tmp_path, "rocpd_results.db", "drop view rocpd_kernel_dispatch", endless)
    assert load(rocm.ROCPD, path, tmp_path).kernels.collect().height == 16


def test_a_view_over_several_tables_is_all_of_them(tmp_path: Path) -> None:
    """Files of two processes that ``rocpd merge`` put together: the same ids in both."""
    with sqlite3.connect(SAMPLES / "rocpd_results.db") as source:
        tables = [row[0] for row in source.execute("select name from sqlite_master where type = 'table'")]
    source.close()
    suffix = tables[0].removeprefix("rocpd_metadata")
    copies = []
    for table in tables:
        other = table.replace(suffix, "_ffff")
        copies += [
            f"create table {other} as select * from {table}", f"drop view {table.removesuffix(suffix)}",
            f"create view {table.removesuffix(suffix)} as select * from `{table}` union all select * from `{other}`",
        ]
    path = edited(tmp_path, "rocpd_results.db", *copies, "update rocpd_info_process_ffff set pid = 99")
    run = load(rocm.ROCPD, path, tmp_path)
    ties = run.kernels.select("pid", "correlation").collect()
    assert ties.height == 32 and ties["correlation"].n_unique() == 32
    assert ties["pid"].value_counts().sort("pid").rows() == [(99, 16), (4242, 16)]


def test_generated_columns_are_not_computed(tmp_path: Path) -> None:
    path = edited(
        tmp_path, "rocm.rpd", "alter table rocpd_string rename column string to was",
        "alter table rocpd_string add column string text generated always as (hex(zeroblob(400000000))) virtual",
    )
    run = load(rocm.RPD, path, tmp_path)
    assert run.kernels.collect().height == 16


def test_names_of_a_megabyte_are_cut(tmp_path: Path) -> None:
    path = edited(tmp_path, "rocm.rpd", "update rocpd_string set string = printf('%.*c', 3000000, 'x') where id > 3")
    names = load(rocm.RPD, path, tmp_path).kernels.select(pl.col("name").cast(pl.String).str.len_chars().max())
    assert names.collect().item() == 65536


def test_a_database_may_be_stopped(tmp_path: Path) -> None:
    path = edited(tmp_path, "rocm.rpd", (
        "insert into rocpd_op (gpuId, queueId, start, end, description_id, opType_id) with recursive c(x) as "
        "(select 1 union all select x + 1 from c where x < 200000) select 0, 0, x, x + 1, 1, 1 from c"
    ))

    def stop(done: int, total: int, events: int) -> None:
        raise Cancelled

    with pytest.raises(Cancelled):
        rocm.RPD.load(Job(path, tmp_path, stop))


def test_a_compressed_database_is_read(tmp_path: Path) -> None:
    (tmp_path / "run.rpd.gz").write_bytes(gzip.compress((SAMPLES / "rocm.rpd").read_bytes()))
    assert registry.claims(stream.head(tmp_path / "run.rpd.gz")) == (rocm.RPD,)
    run = load(rocm.RPD, tmp_path / "run.rpd.gz", tmp_path)
    assert run.info.label == "run" and run.kernels.collect().height == 16


def test_a_document_that_was_cut_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    whole = (SAMPLES / "rocprofv3_results.json").read_bytes()
    end = whole.index(b'"kernel_dispatch"') + (whole.index(b'"hip_api":') - whole.index(b'"kernel_dispatch"')) // 2
    (tmp_path / "cut.json").write_bytes(whole[:end])
    run = load(rocm.JSON, tmp_path / "cut.json", tmp_path)
    assert run.kernels.collect().height == 5
    assert run.info.coverage is not None and 0 < run.info.coverage < 1
    assert any(warning.startswith("truncated: read ") for warning in run.info.warnings)


def test_records_of_a_document_that_are_none_are_counted(tmp_path: Path) -> None:
    document = json.loads((SAMPLES / "rocprofv3_results.json").read_bytes())
    (process,) = document["rocprofiler-sdk-tool"]
    dispatches = process["buffer_records"]["kernel_dispatch"]
    dispatches[0]["start_timestamp"], dispatches[1], dispatches[2]["end_timestamp"] = "soon", 7, 1e300
    dispatches[3]["dispatch_info"]["kernel_id"] = 4000
    process["agents"][1]["name"] = None
    (tmp_path / "odd.json").write_text(json.dumps(document))
    run = load(rocm.JSON, tmp_path / "odd.json", tmp_path)
    kernels = run.kernels.filter(pl.col("kind") != "memcpy")
    assert kernels.collect().height == 11
    assert "[kernel 4000]" in set(kernels.select(pl.col("name").cast(pl.String)).collect()["name"])
    assert {
        "1 row of kernel_dispatch without a time or a name was left out",
        "1 value of kernel_dispatch (start) could not be read: no number",
        "1 value of kernel_dispatch (end) could not be read: out of range",
    } <= set(run.info.warnings)


@pytest.mark.parametrize("text", ["", "[]", "7", "[" * 100_000, '[{"buffer_records":{"kernel_dispatch":[{}]}}]'])
def test_a_document_without_records_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "odd.json").write_text(f'{{"rocprofiler-sdk-tool":{text}}}')
    with pytest.raises(Unreadable):
        rocm.JSON.load(Job(tmp_path / "odd.json", tmp_path))


def test_numbers_nobody_can_read_are_null_and_counted(tmp_path: Path) -> None:
    lines = (SAMPLES / KERNELS).read_text().splitlines()
    names, first, *others = lines
    cells = first.split(",")
    odd = {"Start_Timestamp": ("nan", "9" * 25, "-5", ""), "End_Timestamp": ("inf", "0x10"), "VGPR_Count": ("many",)}
    columns = [name.strip('"') for name in names.split(",")]
    made = []
    for column, values in odd.items():
        for value in values:
            row = [*cells]
            row[columns.index(column)] = value
            made.append(",".join(row))
    (tmp_path / "a_kernel_trace.csv").write_text("\n".join([names, *made, *others, '"KERNEL_DISPATCH","Agent']))
    run = load(rocm.CSV, tmp_path / "a_kernel_trace.csv", tmp_path)
    kernels = run.kernels.collect()
    assert kernels.height == 11 + 7 and kernels["dur_ns"].null_count() == 5
    name = "a_kernel_trace.csv"
    assert {
        f"2 values of {name} (Start_Timestamp, End_Timestamp) could not be read: not finite".lower(),
        f"2 values of {name} (End_Timestamp, VGPR_Count) could not be read: no number".lower(),
        f"1 row of {name} without a time or a name was left out",
    } <= {warning.lower() for warning in run.info.warnings}


def test_a_marker_may_hold_lines_and_quotes(tmp_path: Path) -> None:
    text = 'Domain,Function,Process_Id,Thread_Id,Correlation_Id,Start_Timestamp,End_Timestamp\n'
    (tmp_path / "marker.csv").write_text(text + 'MARKER_CORE_API,"two\nlines, ""quoted""",1,1,1,10,20\n')
    run = load(rocm.CSV, tmp_path / "marker.csv", tmp_path)
    assert run.host.select(pl.col("name").cast(pl.String), "kind").collect().rows() == [
        ('two\nlines, "quoted"', "annotation")
    ]


def test_times_whose_columns_have_no_names_are_those_of_the_counters(tmp_path: Path) -> None:
    folder = shutil.copytree(SAMPLES / "rocprofiler_compute", tmp_path / "workload")
    whole = (folder / "timestamps.csv").read_bytes()
    # a line that was cut inside quotes comes in a block of its own
    (folder / "timestamps.csv").write_bytes(b"\0" + whole[: whole.rindex(b'"')])
    run = open_run(str(folder), use_cache=False)[0]
    assert run.kernels.collect().height == 12
    assert "timestamps.csv lists no dispatches: times are taken from the counter pass" in run.info.warnings


def test_blocks_of_a_large_file_go_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block ends in the middle of a file: no row is lost or read twice there."""
    header, *lines = (SAMPLES / KERNELS).read_text().splitlines()
    (tmp_path / "big_kernel_trace.csv.gz").write_bytes(gzip.compress("\n".join([header, *lines * 500]).encode()))
    monkeypatch.setattr(stream, "BLOCK_BYTES", 10_000)
    from warplens.loaders.rocm import csv_files

    with stream.Source(tmp_path / "big_kernel_trace.csv.gz") as source:
        blocks = list(csv_files.frames(source, 10_000))
    assert len(blocks) > 50 and sum(block.height for block in blocks) == 6000
    run = load(rocm.CSV, tmp_path / "big_kernel_trace.csv.gz", tmp_path)
    assert run.info.label == "big" and run.kernels.collect().height + run.info.facts["repeats"] == 6000


def test_a_later_schema_is_refused_by_name(tmp_path: Path) -> None:
    path = edited(tmp_path, "rocpd_plain.db", "alter table rocpd_kernel_dispatch rename column start to start_id")
    with pytest.raises(Unreadable, match="schema version 4"):
        load(rocm.ROCPD, path, tmp_path)
