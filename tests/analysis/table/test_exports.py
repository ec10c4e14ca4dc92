"""What a person or a script carries away says the same as the table, in every format."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import polars as pl
import pytest
from msgspec.structs import replace

from warplens.analysis.contract.column import Column
from warplens.analysis.table.export import WrongFormat, render
from warplens.analysis.table.export.kernel_table import without_namespaces
from warplens.analysis.table.export.markdown import code, escape
from warplens.analysis.table.filters import BadFilter, Filter, unknown_column
from warplens.analysis.table.rows import Rows
from warplens.analysis.table.table import Source, Table

COLUMNS = (
    Column("name", "kernel", "text", "name as recorded", order=0, elastic=True, role="name"),
    Column("dur_ns", "time", "ns", "duration"),
    Column("tensor", "tensor", "fraction", "tensor-core utilisation", bar="tensor"),
    Column("dram", "DRAM", "fraction", "DRAM throughput", bar="dram"),
)


def table(*rows: tuple[str, int, float | None, float | None], view: str = "launches") -> Table:
    frame = pl.DataFrame(
        list(rows), orient="row",
        schema={"name": pl.Categorical, "dur_ns": pl.Int64, "tensor": pl.Float32, "dram": pl.Float32},
    )
    return Table(
        view, COLUMNS, Rows(frame), frame.height, notes=("one note",),
        sources=(Source("run", "run.json", "kineto", 10, ("read 83%, the file is truncated",)),),
    )


def test_json_carries_raw_numbers_and_null_for_what_was_not_measured() -> None:
    made = json.loads(render(table(("gemm", 1500, 0.5, None)), "json"))
    assert made["rows"] == [{"name": "gemm", "dur_ns": 1500, "tensor": 0.5, "dram": None}]
    assert made["columns"][1] == {"name": "dur_ns", "unit": "ns"}
    assert made["total_rows"] == 1
    assert made["notes"] == ["one note", "read 83%, the file is truncated"]


def test_json_has_no_nan() -> None:
    made = json.loads(render(table(("gemm", 1, float("nan"), float("inf"))), "json"))
    assert made["rows"][0]["tensor"] is None
    assert made["rows"][0]["dram"] is None


def test_several_views_are_one_json_document() -> None:
    made = json.loads(render([table(("a", 1, None, None)), table(("b", 2, None, None))], "json"))
    assert [view["rows"][0]["name"] for view in made["views"]] == ["a", "b"]


def test_a_ticket_names_files_as_typed_here_and_not_a_thousand_mangled_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = table(*((f"kernel_{'x' * 200}_{number}", 1, None, None) for number in range(24)))
    path = str(tmp_path / "runs" / "a.json")
    asked = replace(made, sources=(Source("run", path, "kineto", 10),), command=f"warplens report {path}")
    text = render(asked, "md").decode()
    assert "`runs/a.json`" in text and "`warplens report runs/a.json`" in text and str(tmp_path) not in text
    assert text.count("x" * 200) == 20 and "- 4 more: with `--format json`" in text


@pytest.mark.parametrize("name", ["=cmd()", "+1", "-x", "@sum", "\tx"])
def test_csv_disarms_formulas(name: str) -> None:
    (_, row) = csv.reader(io.StringIO(render(table((name, 1, 0.5, None)), "csv").decode()))
    assert row[0] == "'" + name
    assert row[3] == ""


@pytest.mark.parametrize("end", ["\r", "\n", "\r\n"])
def test_a_line_end_in_a_name_begins_no_row_of_csv(end: str) -> None:
    made = render(table((f"x{end}=cmd()", 1, 0.5, None)), "csv").decode()
    assert made == f'name,dur_ns,tensor,dram\n"x{end}=cmd()",1,0.5,\n'


def test_parquet_is_the_rows_in_the_order_shown() -> None:
    shown = table(("a", 1, None, None), ("b", 9, None, None)).sort("dur_ns", True)
    assert pl.read_parquet(io.BytesIO(render(shown, "parquet")))["dur_ns"].to_list() == [9, 1]


def test_kernel_table_prints_the_seeds_layout() -> None:
    made = render(table(("void at::native::<unnamed>::add<float>(int)", 7456, 0.01, 0.0)), "kernel-table").decode()
    assert made.splitlines() == [
        "Kernel                                                 Latency Tensor   DRAM",
        "add                                               |       7456   0.01   0.00",
    ]


def test_kernel_table_is_of_launches_only() -> None:
    stats = Table("kernels", COLUMNS[:1], Rows(pl.DataFrame({"name": ["a"]})), 1)
    with pytest.raises(WrongFormat, match="launches"):
        render(stats, "kernel-table")


@pytest.mark.parametrize(
    ("raw", "short"),
    [
        ("void cutlass::Kernel<cutlass_80_tensorop>(Params)", "Kernel"),
        ("void (anonymous namespace)::softmax_warp_forward<float, 8>(float*)", "softmax_warp_forward"),
        ("ampere_sgemm_128x64_tn", "ampere_sgemm_128x64_tn"),
        ("<odd>", "<odd>"),
    ],
)
def test_short_names_are_what_is_left_without_templates(raw: str, short: str) -> None:
    assert without_namespaces(raw) == short


def test_markdown_says_the_state_it_was_made_in() -> None:
    both = table(("gemm", 1_500_000, 0.5, None), ("copy", 10, None, None))
    shown = both.sort("dur_ns", True).filtered(Filter("gemm"))
    made = render(shown, "md").decode()
    assert "sorted by time ↓ · filter gemm · 1 of 2 rows" in made
    assert "| `gemm` | 1.50 ms | 50% |" in made
    assert "copy" not in made
    assert "⚠ read 83%, the file is truncated" in made


def test_markdown_names_cannot_act() -> None:
    made = render(table(("a|b`c\n[x](y)<script>", 1, None, None)), "md").decode()
    assert "| ``a\\|b`c␊[x](y)<script>`` |" in made
    assert escape("[a](b) <i>") == "\\[a\\](b) \\<i\\>"
    assert code("`") == "`` ` ``" and code("") == ""


def test_text_has_no_control_byte() -> None:
    made = render(table(("\x1b[31mred\x07\x9b2J\u202e", 1, None, None)), "text").decode()
    assert not any((ord(char) < 32 and char != "\n") or 0x7F <= ord(char) < 0xA0 or char == "\u202e" for char in made)


def test_a_comparison_with_no_such_column_says_it_was_looked_for_as_text() -> None:
    columns = (Column("total_ns", "total", "ns", "time"),)
    assert unknown_column("nope>5", columns) == "Unknown column 'nope'. Columns: total_ns. Searched for nope>5 as text."
    assert unknown_column("total_ns>5 gemm", columns) is None


@pytest.mark.parametrize(
    ("text", "passed"),
    [("family=gemm", "b gemm"), ("family=G", "b gemm"), ("family=copy", "memcpy gemm"),
     ("family!=g", "nccl memcpy gemm relu -"), ("!family=g", "nccl memcpy gemm relu op -"), ("family=a", ""),
     ("family=o", "-")],
)
def test_a_filter_takes_families_by_name_and_letter(text: str, passed: str) -> None:
    columns = (*COLUMNS, Column("kind", "kind", "text", "what it is"))
    frame = pl.DataFrame({
        "name": pl.Series(["b gemm", "nccl", "memcpy gemm", "relu", "op", None], dtype=pl.Categorical),
        "kind": pl.Series(["kernel", "collective", "memcpy", "kernel", "op", "kernel"], dtype=pl.Categorical),
    })
    rows = Rows(frame, named=("name",))
    assert " ".join(frame["name"].filter(Filter(text).mask(rows, columns)).fill_null("-")) == passed
    assert unknown_column(text, columns) is None
    assert "Unknown column 'family'" in str(unknown_column(text, COLUMNS))
    for wrong in ("family=foo", "family~g"):
        with pytest.raises(BadFilter, match="gemm \\(g\\), conv"):
            Filter(wrong).mask(rows, columns)


def test_the_histogram_of_a_ticket_passes_over_empty_bins() -> None:
    from warplens.analysis.table.export.markdown import histogram_text

    lines = histogram_text({"edges_ns": [0, 1e6, 2e6, 3e6, 4e6], "a": [3, 0, 0, 1], "b": []}, width=3)
    assert [line.split()[-1] for line in lines] == ["3", "⋮", "1"]
