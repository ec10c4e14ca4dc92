"""SQL over the tables: results are tables like any other, what cannot be run is one sentence, words complete."""

from __future__ import annotations

import pytest

from warplens.analysis.table.filters import Filter
from warplens.analysis.table.sql import BadQuery, query, tables
from warplens.analysis.table.sql_completion import completions

KERNELS = [{"name": "gemm", "kind": "kernel", "dur_ns": 30, "bytes": None},
           {"name": "copy", "kind": "memcpy", "dur_ns": 20, "bytes": 4096}]


def test_a_result_sorts_filters_and_has_the_units_of_its_columns(run_of):
    table = query((run_of(kernels=KERNELS),), "select name, dur_ns, bytes, dur_ns > 25 as long from kernels;")
    assert [(column.name, column.unit, column.role) for column in table.columns] == [
        ("name", "text", "name"), ("dur_ns", "ns", "value"), ("bytes", "bytes", "value"), ("long", "bool", "value")]
    assert table.sort("dur_ns", descending=False).window(0, 2)[0][0] == "copy"
    assert table.filtered(Filter("dur_ns>25ns")).window(0, 9) == [("gemm", 30, None, True)]
    assert table.summary == ("select name, dur_ns, bytes, dur_ns > 25 as long from kernels",)


def test_two_runs_have_tables_of_their_own(run_of):
    runs = run_of("a", kernels=KERNELS), run_of("b", kernels=KERNELS[:1])
    found = query(runs, "select (select count(*) from a_kernels) as a, (select count(*) from b_kernels) as b")
    assert found.window(0, 1) == [(2, 1)]
    with pytest.raises(BadQuery, match=r"kernels \(did you mean a_kernels or b_kernels\?\); there are a_"):
        query(runs, "select * from kernels")


@pytest.mark.parametrize(("statement", "said"), [
    ("select * from kernel", "There is no table kernel (did you mean kernels?); there are kernels, host, "),
    ("select durns from kernels", "There is no column durns (did you mean dur_ns?); kernels has index, start_ns, "),
    ("selec 1", "This is not SQL: expected: an SQL statement, found: selec at character 1."),
    ("", "The query is empty; "), (" ; ", "The query is empty; "),
    ("select 1; select 2", "One statement at a time."),
    ("update kernels set dur_ns = 1", "Only queries are run here: select, with, show tables, explain."),
    ("select sum(name) from kernels", "`sum` operation not supported for dtype `str`."),
    ("select * from read_csv('/no/such/file')", "read_csv reads files: a query reads the tables of the run only, "),
])
def test_what_cannot_be_run_is_one_sentence(run_of, statement, said):
    with pytest.raises(BadQuery) as refused:
        query((run_of(kernels=KERNELS),), statement)
    assert str(refused.value).startswith(said) and "\n" not in str(refused.value)
    assert str(refused.value).endswith(".")


READ = "read_csv('{file}')"
ROADS = (
    "select * from {read}", "from {read}", "with t as (select * from {read}) select * from t",
    "explain select * from {read}", "create table t as select * from {read}",
    "select * from kernels where dur_ns in (select secret from {read})",
    "select * from kernels join {read} on true", "select (select max(secret) from {read}) as s from kernels",
    "select * from READ_CSV('{file}')", "select * from \"read_csv\" ('{file}')", "select * from `read_csv`('{file}')",
    "select * from read_csv /* a /* b */ c */ ('{file}')", "select * from read_csv -- a\n('{file}')",
    "select q'[']', * from {read} where 'a' = 'a'", "select * from '{file}'", "select * from \"{file}\"",
    "select * from read_parquet('{file}')", "select * from read_ipc('{file}')", "select * from read_json('{file}')",
    "select * from read_ndjson('{file}')", "select * from scan_csv('{file}')",
    "select * from read_csv('http://localhost/')",
    "copy kernels to '{file}.copy'",
)


@pytest.mark.parametrize("road", ROADS)
def test_a_query_reads_no_file(run_of, tmp_path, road):
    """By whatever way polars knows: functions in any place and spelling, behind comments, names that are paths."""
    file = tmp_path / "secret.csv"
    file.write_text("secret\nhush-hush\n")
    with pytest.raises(BadQuery) as refused:
        query((run_of(kernels=KERNELS),), road.format(file=file, read=READ.format(file=file)))
    assert "hush-hush" not in str(refused.value) and not file.with_name("secret.csv.copy").exists()


def test_a_query_reads_a_file_where_that_is_allowed(run_of, tmp_path):
    file = tmp_path / "other.csv"
    file.write_text("n\n30\n")
    statement = f"select name from kernels join read_csv('{file}') as other on kernels.dur_ns = other.n"
    assert query((run_of(kernels=KERNELS),), statement, allow_files=True).window(0, 9) == [("gemm",)]


@pytest.mark.parametrize("statement", [
    "select sum(dur_ns) as read_bytes from kernels", "select dur_ns as read_ns, (dur_ns) from kernels",
    "select name from kernels where name like '%read_csv%'", "select name from kernels -- read by nobody",
])
def test_what_only_looks_like_reading_is_run(run_of, statement):
    assert query((run_of(kernels=KERNELS),), statement).columns


def test_every_function_of_polars_that_reads_is_refused_by_its_name(run_of):
    """What polars lists as its table functions, which it does in no public place: those of its own Python names."""
    import polars

    names = [name for name in dir(polars) if name.startswith(("read_", "scan_"))]
    assert {"read_csv", "read_parquet", "scan_ipc"} <= set(names)
    for name in names:
        with pytest.raises(BadQuery, match="reads files"):
            query((run_of(kernels=KERNELS),), f"select * from {name}('x')")


def test_a_result_that_is_cut_says_so(run_of):
    table = query((run_of(kernels=KERNELS),), "select name from kernels", most=1)
    assert len(table) == 1 and table.notes == (
        "The result is cut to its first 1 rows; add a limit or a where.",)
    assert not query((run_of(kernels=KERNELS),), "select name from kernels", most=2).notes


def test_values_that_are_neither_numbers_nor_text_are_shown_as_text(run_of):
    table = query((run_of(kernels=KERNELS),), "select date '2020-01-31' as day, interval '1 day' as span, null as none")
    assert table.window(0, 1) == [("2020-01-31", "1 day, 0:00:00", None)]
    assert {column.unit for column in table.columns} == {"text"}


ONE, TWO = tables(1), tables(2)


@pytest.mark.parametrize(("before", "after", "first"), [
    ("sel", "", ["select"]),
    ("select * from ker", "", ["kernels", "kernel_stats"]),
    ("select * from kernels k join ho", "", ["host", "host_stats"]),
    ("select du", " from kernels", ["dur_ns"]),
    ("select k.dur", " from kernels k join host h", ["dur_ns"]),
    ("select h.de", " from kernels k join host h on k.pid = h.pid", ["depth"]),
    ("select name from kernels wh", "", ["where", "when"]),
    ("select name, quant", "", ["quantile_cont("]),
    ("select * from kernels where name like 'ker", "", []),
    ("select ", "", []),
    ("select DUR", " FROM KERNELS", ["dur_ns"]),
    ("select * from kernels, me", "", ["metrics"]),
])
def test_words_complete_by_where_they_stand(before, after, first):
    begin, words = completions(before, ONE, after)
    assert list(words) == first
    assert not words or words[0].lower().startswith(before[begin:].lower())


def test_of_two_runs_the_tables_of_both_complete():
    assert completions("select * from b_k", TWO)[1] == ("b_kernels", "b_kernel_stats")
