"""What is typed, what comes out, and with which exit status."""

from __future__ import annotations

import argparse
import contextlib
import csv
import errno
import io
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from warplens.cli import arguments
from warplens.cli.main import FINE, NAMES, UNREADABLE, USAGE, main
from warplens.cli.output import format_of, write
from warplens.loaders import converted
from warplens.loaders.ingest import cache
from warplens.tui.session.exporting import new_file

Captured = pytest.CaptureFixture[bytes]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.txt"
    rows = [("gemm", 9000, 0.61, 0.12), ("copy_kernel", 3000, 0.0, 0.7), ("gemm", 11000, 0.55, 0.1)]
    lines = [f"{'Kernel':<50}  {'Latency':>10} {'Tensor':>6} {'DRAM':>6}"]
    lines += [f"{name:<50}| {dur:>10} {tensor:6.2f} {dram:6.2f}" for name, dur, tensor, dram in rows]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_report_of_a_view_as_json(table: Path, capsysbinary: Captured) -> None:
    assert main(["report", str(table), "--view", "kernels", "--format", "json"]) == FINE
    rows = {row["name"]: row for row in json.loads(capsysbinary.readouterr().out)["rows"]}
    assert rows["gemm"]["count"] == 2
    assert rows["gemm"]["total_ns"] == 20000


def test_report_without_a_view_is_the_summary(table: Path, capsysbinary: Captured) -> None:
    assert main(["report", str(table), "--format", "json"]) == FINE
    assert "kernels" in [view["view"] for view in json.loads(capsysbinary.readouterr().out)["views"]]


def test_a_panic_of_polars_is_a_sentence(table: Path, capsysbinary: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    def panics(runs: object, arguments: object) -> None:
        raise pl.exceptions.PanicException("called `Result::unwrap()` on an `Err` value")

    monkeypatch.setattr("warplens.cli.report.open_runs", panics)
    monkeypatch.delenv("WARPLENS_DEBUG", raising=False)
    assert main(["report", str(table)]) == UNREADABLE
    assert b"cannot be analysed (PanicException: called `Result" in capsysbinary.readouterr().err


def test_without_a_terminal_the_app_is_the_report(table: Path, capsysbinary: Captured) -> None:
    assert main([str(table)]) == FINE
    assert b"KERNELS" in capsysbinary.readouterr().out


def test_a_terminal_that_cannot_move_its_cursor_gets_the_report(
    table: Path, capsysbinary: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    assert main([str(table)]) == FINE
    assert b"KERNELS" in capsysbinary.readouterr().out


def test_filter_sort_and_top(table: Path, capsysbinary: Captured) -> None:
    words = ["report", str(table), "--view", "launches", "--filter", "gemm", "--sort", "dur_ns", "--top", "1"]
    assert main([*words, "--format", "json"]) == FINE
    made = json.loads(capsysbinary.readouterr().out)
    assert [row["dur_ns"] for row in made["rows"]] == [11000]
    assert made["total_rows"] == 3


def test_the_suffix_of_the_output_chooses_the_format(table: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.csv"
    assert main(["report", str(table), "--view", "kernels", "-o", str(target)]) == FINE
    assert next(csv.reader(io.StringIO(target.read_text())))[0] == "name"


def test_kernel_table_round_trips(table: Path, capsysbinary: Captured) -> None:
    assert main(["report", str(table), "--view", "launches", "--format", "kernel-table"]) == FINE
    assert capsysbinary.readouterr().out.decode() == table.read_text()


def test_convert_writes_the_tables(table: Path, tmp_path: Path) -> None:
    assert main(["convert", str(table), "-o", str(tmp_path / "out")]) == FINE
    assert pl.read_parquet(tmp_path / "out" / "kernels.parquet")["dur_ns"].to_list() == [9000, 3000, 11000]
    assert main(["convert", str(table), "-o", str(table)]) == USAGE and table.is_file()


@pytest.mark.parametrize("name", ["kineto.pt.trace.json", "comparison.csv", "dataset", "nsys.sqlite"])
def test_what_convert_writes_opens_as_the_run_it_was(
    samples: Path, name: str, tmp_path: Path, capsysbinary: Captured
) -> None:
    out = str(tmp_path / "out")
    assert main(["convert", str(samples / name), "-o", out]) == FINE
    capsysbinary.readouterr()
    printed = []
    for run in (str(samples / name), out):
        assert main(["report", run]) == FINE
        printed.append(capsysbinary.readouterr())
    assert printed[0] == printed[1] and b"OVERVIEW" in printed[0].out


def test_damaged_tables_of_convert_are_refused(table: Path, tmp_path: Path, capsysbinary: Captured) -> None:
    out = tmp_path / "out"
    main(["convert", str(table), "-o", str(out)])
    (out / "kernels.parquet").write_bytes(b"PAR1")
    capsysbinary.readouterr()
    assert main(["report", str(out)]) == 3
    assert b"kernels is not what warplens.json lists. Convert again." in capsysbinary.readouterr().err


def test_a_folder_is_one_conversion_and_no_other_files(
    table: Path, samples: Path, tmp_path: Path, capsysbinary: Captured
) -> None:
    out, alone = tmp_path / "out", tmp_path / "alone"
    assert main(["convert", str(samples / "comparison.csv"), "-o", str(out)]) == FINE
    assert main(["convert", str(table), "-o", str(out)]) == FINE == main(["convert", str(table), "-o", str(alone)])
    assert sorted(file.name for file in out.rglob("*")) == sorted(file.name for file in alone.rglob("*"))
    (out / "cycles.parquet").write_bytes(b"not listed")
    assert main(["report", str(out)]) == FINE
    other = tmp_path / "other"
    other.mkdir()
    (other / "kernels.parquet").write_bytes(b"mine")
    capsysbinary.readouterr()
    assert main(["convert", str(table), "-o", str(other)]) == USAGE
    assert b"holds other files; name an empty folder" in capsysbinary.readouterr().err
    assert (other / "kernels.parquet").read_bytes() == b"mine" and len(list(other.iterdir())) == 1


def test_of_conversions_into_one_folder_at_once_the_last_is_whole(
    table: Path, samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: Captured
) -> None:
    out, rename = tmp_path / "out", os.rename

    def late(source: str, target: str) -> None:
        """Another writer has its folder there first."""
        monkeypatch.setattr(converted.os, "rename", rename)
        assert main(["convert", str(samples / "comparison.csv"), "-o", str(out)]) == FINE
        rename(source, target)

    monkeypatch.setattr(converted.os, "rename", late)
    assert main(["convert", str(table), "-o", str(out)]) == FINE
    capsysbinary.readouterr()
    printed = []
    for run in (out, table):
        assert main(["report", str(run), "--view", "launches", "--format", "csv"]) == FINE
        printed.append(capsysbinary.readouterr().out)
    assert printed[0] == printed[1]
    assert [item.name for item in tmp_path.iterdir() if item.name.startswith(".warplens")] == []


@pytest.mark.parametrize("name", ["run.txt", "link.txt", "hard.txt", "x/../run.txt"])
def test_an_output_that_is_the_input_is_refused(table: Path, name: str, tmp_path: Path, capsysbinary: Captured) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "run.txt").write_bytes(table.read_bytes())
    (tmp_path / "link.txt").symlink_to("run.txt")
    (tmp_path / "hard.txt").hardlink_to(tmp_path / "run.txt")
    before = (tmp_path / "run.txt").read_bytes()
    words = ["--view", "kernels", "--format", "csv", "-o", str(tmp_path / name)]
    assert main(["report", str(tmp_path / "run.txt"), *words]) == USAGE
    assert b"is the input; name another output" in capsysbinary.readouterr().err
    assert (tmp_path / "run.txt").read_bytes() == before


def test_sql_over_the_tables(table: Path, capsysbinary: Captured) -> None:
    statement = "select name, count(*) as n from kernels group by name order by n desc"
    assert main(["sql", str(table), statement, "--format", "json"]) == FINE
    assert json.loads(capsysbinary.readouterr().out)["rows"][0] == {"name": "gemm", "n": 2}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["report", "{}", "--view", "kernels", "--filter", "total_ns>many"], b"is a number"),
        (["report", "{}", "--view", "kernels", "--filter", "trend>1"], b"trend is a list"),
        (["report", "{}", "--view", "kernels", "--sort", "nothing"], b"has no column nothing"),
        (["report", "{}", "--view", "kernels", "--format", "kernel-table"], b"one row per launch"),
        (["report", "{}", "--filter", "gemm"], b"--view"),
        (["report", "{}", "--pid", "x"], b"--pid"),
        (["report", "{}", "--view", "kernels", "--pid", "7"], b"has no process 7; it names no processes"),
        (["report", "{}", "--rank", "7"], b"has no rank 7; it names no ranks"),
        (["report", "{}", "--view", "launches", "--device", "GPU 1"], b"has no device GPU 1; it names no devices"),
        (["report", "{}", "--view", "cycles", "--cycle", "99"], b"has no cycle 99; it has"),
        (["report", "{}", "--view", "kernels", "--from", "1ms"], b"without times"),
        (["report", "{}", "--view", "launches", "--run", "b"], b"only one is given"),
        (["diff", "{}", "{}", "--rank", "7"], b"has no rank 7"),
        (["sql", "{}", "select nothing from nowhere"], b"nowhere"),
        (["report", "{}", "{}", "{}", "--view", "idle"], b"two to compare"),
    ],
)
def test_a_wrong_command_is_one_sentence_and_exit_2(
    table: Path, words: list[str], says: bytes, capsysbinary: Captured
) -> None:
    assert main([word.format(table) for word in words]) == USAGE
    said = capsysbinary.readouterr().err
    assert says in said
    assert b"Traceback" not in said


@pytest.mark.parametrize(
    ("words", "says"),
    [(["--top", "-1"], b"--top: -1 is not a number of rows; give 0 or more"),
     (["--columns", "0"], b"--columns: 0 is not a number of columns from 1 to 10,000"),
     (["--columns", "99999999"], b"--columns: 99999999 is not a number of columns from 1 to 10,000"),
     (["--name-width", "0"], b"--name-width: 0 is not a whole number of at least 1"),
     (["--cycle", "1:2"], b"--cycle: 1:2 is not a whole number"), (["--rank", "x"], b"--rank: x is not a whole number"),
     (["--from", "soon"], b"--from: soon is not a time; give nanoseconds or a unit: 1.5ms")],
)
def test_a_wrong_number_is_told_in_the_users_words(
    table: Path, words: list[str], says: bytes, capsysbinary: Captured
) -> None:
    assert main(["report", str(table), *words]) == USAGE
    assert says in capsysbinary.readouterr().err


def test_the_second_of_two_runs_can_be_shown(table: Path, tmp_path: Path, capsysbinary: Captured) -> None:
    other = tmp_path / "other.txt"
    other.write_text(table.read_text().replace("gemm", "conv"))
    assert main(["report", str(table), str(other), "--view", "launches", "--run", "b", "--format", "json"]) == FINE
    made = json.loads(capsysbinary.readouterr().out)
    assert {row["name"] for row in made["rows"]} == {"conv", "copy_kernel"}
    assert [source["label"] for source in made["sources"]] == ["other"]


def test_what_answers_is_imported_once_and_only_beside_a_large_file(monkeypatch: pytest.MonkeyPatch) -> None:
    imported: list[str] = []
    monkeypatch.setattr(threading.Thread, "start", threading.Thread.run)
    monkeypatch.setattr(arguments, "import_module", lambda name: imported.append(name) or sys.modules[name])
    told: list[tuple[int, int, int]] = []
    update = arguments.importing_ahead(lambda *progress: told.append(progress), "kernels")
    small, large = [(0, 1000, 7), (1000, 1000, 7)], [(10, 1 << 30, 8), (20, 1 << 30, 9)]
    for progress in small:
        update(*progress)
    assert not imported
    for progress in large:
        update(*progress)
    assert imported.count("warplens.analysis.query.report") == 1 and told == small + large


def test_a_time_may_have_a_unit() -> None:
    from warplens.analysis.core.units import nanoseconds

    assert [nanoseconds(text) for text in ("1500", "1.5ms", "20us", "2 s", "0.25µs", "1700000000000000001")] == [
        1500, 1_500_000, 20_000, 2_000_000_000, 250, 1700000000000000001
    ]
    for text in ("", "-1", "1e3", "5m", "99999999999999999999s", "nan"):
        with pytest.raises(ValueError):
            nanoseconds(text)


def test_an_unreadable_input_is_exit_3(tmp_path: Path, capsysbinary: Captured) -> None:
    assert main(["report", str(tmp_path / "missing.json"), "--view", "kernels"]) == UNREADABLE
    assert b"missing.json" in capsysbinary.readouterr().err


@pytest.mark.parametrize("words", [[], *([name] for name in NAMES[1:])], ids=" ".join)
def test_every_command_explains_itself(words: list[str], capsysbinary: Captured) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([*words, "--help"])
    assert stopped.value.code == FINE
    assert capsysbinary.readouterr().out.startswith(b"usage: warplens")


def test_an_unknown_option_is_exit_2() -> None:
    assert main(["report", "x", "--no-such"]) == USAGE


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["rport", "{}"], "no command and no file rport. Nearest: report."),
        (["report", "{}", "--view", "kernel"], "--view: no kernel. Nearest: kernels."),
        (["report", "{}", "--view", "kernels", "--sort", "totl_ns"],
         "kernels has no column totl_ns. Nearest: total_ns."),
        (["report", "{}", "--view", "kernels", "--filter", "totl_ns>1"],
         "Unknown column 'totl_ns'. Nearest: total_ns. Searched for totl_ns>1 as text."),
        (["report", "{}", "--veiw", "kernels"], "no argument --veiw. Nearest: --view."),
        (["diff", "{}", "{}", "--fail-on", "regresion"],
         "--fail-on regresion: give regression[:PCT], gpu:PCT, kernel:PCT, outliers, cause, as regression:5"),
    ],
)
def test_what_is_misspelt_is_answered_by_the_nearest_in_one_line(
    table: Path, words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([word.format(table) for word in words]) == USAGE
    assert capsys.readouterr().err == f"warplens: {says}\n"


@pytest.mark.parametrize(
    ("view", "filter", "says"),
    [("memory", "share>5%", "holds no memory records"), ("collectives", "family=gemm", "so no collectives")],
)
def test_a_view_that_has_no_rows_takes_filters(
    table: Path, view: str, filter: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(table), "--view", view, "--filter", filter]) == 0
    assert says in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "status", "error"),
    [
        (["report", "/nowhere/x.json", "--format", "json"], UNREADABLE,
         {"kind": "unreadable", "message": "/nowhere/x.json: no such file or directory.",
          "hint": "Check the name; `warplens` alone lists what is here."}),
        (["report", "{}", "--view", "kernel", "--format=json"], USAGE,
         {"kind": "usage", "message": "--view: no kernel", "hint": "Nearest: kernels."}),
    ],
)
def test_an_error_is_an_object_where_json_was_asked_for(
    table: Path, words: list[str], status: int, error: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([word.format(table) for word in words]) == status
    assert json.loads(capsys.readouterr().err) == {"error": error}


def test_json_begins_with_its_schema(table: Path, capsysbinary: Captured) -> None:
    for words in (["--view", "kernels"], []):
        assert main(["report", str(table), *words, "--format", "json"]) == FINE
        assert capsysbinary.readouterr().out.startswith(b'{"schema":1,"view')


@pytest.mark.parametrize("command", ["formats", "views", "doctor", "cache"])
def test_lists(command: str, capsysbinary: Captured) -> None:
    assert main([command]) == FINE
    assert capsysbinary.readouterr().out


def test_a_column_without_a_value_is_left_out_of_what_people_read(table: Path, capsysbinary: Captured) -> None:
    assert main(["report", str(table), "--view", "kernels", "--format", "md"]) == FINE
    made = capsysbinary.readouterr().out.decode()
    assert "| tensor |" in made
    assert "| device |" not in made
    assert main(["report", str(table), "--view", "kernels", "--format", "json"]) == FINE
    assert "device" in json.loads(capsysbinary.readouterr().out)["rows"][0]


def redirected(where: str, words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """The command in a shell that redirects its streams so."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
    return subprocess.run(
        ["bash", "-c", f'set -o pipefail; "$0" -m warplens "$@" {where}', sys.executable, *words],
        capture_output=True, text=True, env=environment, cwd=folder,
    )


STREAMS = ("<&- >&- 2>&-", "2>/dev/full", "| true", *(
    pytest.param(one, marks=pytest.mark.deep) for one in (">&-", "2>&-", "<&-", "2> >(true)")))


@pytest.mark.parametrize("where", STREAMS)
def test_a_stream_nobody_takes_changes_no_result(where: str, table: Path, tmp_path: Path) -> None:
    done = redirected(where, ["report", str(table), "--view", "kernels", "-o", "kernels.csv"], tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == ("wrote kernels.csv\n" if "2>" not in where else "")
    assert (tmp_path / "kernels.csv").read_text().startswith("name,")


@pytest.mark.parametrize("words", [
    ["diff", "{}", "{}"], ["--help"],
    *(pytest.param(words, marks=pytest.mark.deep) for words in (
        ["report", "{}"], ["{}"], ["sql", "{}", "select 1"], ["doctor"], ["convert", "{}", "-o", "tables"])),
], ids=" ".join)
def test_a_closed_output_is_no_failure(
    words: list[str], table: Path, tmp_path: Path, capsysbinary: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [word.format(table) for word in words]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert redirected(">&-", words, tmp_path).returncode == 0
    without_errors = redirected("2>&-", words, tmp_path)
    assert (without_errors.returncode, without_errors.stderr) == (0, "")
    with contextlib.suppress(SystemExit):  # of the parser, after its help
        assert main(words) == FINE
    whole = capsysbinary.readouterr().out.decode()
    assert len(without_errors.stdout.splitlines()) == len(whole.splitlines()) > 0


def test_a_file_that_cannot_be_written_to_its_end_is_not_left_behind(tmp_path: Path) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"name\n"
        raise OSError(errno.ENOSPC, "No space left on device")

    there = tmp_path / "there.csv"
    there.write_text("mine")
    for file, left in ((tmp_path / "new.csv", False), (there, True)):
        with pytest.raises(OSError):
            write(pieces(), argparse.Namespace(output=str(file)))
        assert file.exists() == left
    with pytest.raises(OSError):
        new_file(tmp_path / "app.csv", pieces())
    assert [path.name for path in tmp_path.glob("*.csv")] == ["there.csv"]


def test_an_output_without_room_is_an_error_in_one_line(table: Path, tmp_path: Path) -> None:
    done = redirected(">/dev/full", ["report", str(table), "--view", "kernels"], tmp_path)
    assert (done.returncode, done.stderr) == (USAGE, "warplens: output: No space left on device.\n")


def test_what_was_printed_before_an_interruption_is_there() -> None:
    program = (
        "import sys\nfrom warplens.cli import main as cli\nfrom warplens.__main__ import program\n"
        "def stop(_):\n    print('before')\n    raise KeyboardInterrupt\n"
        "cli.command_of = lambda name: cli.Command(name, 'x', lambda parser: None, stop)\n"
        "sys.argv = ['warplens', 'views']\nprogram()"
    )
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (130, "before\n", "warplens: stopped\n")


def test_names_are_given_as_a_list_of_that_width_shows_them(table: Path, capsysbinary: Captured) -> None:
    assert main(["report", str(table), "--view", "kernels", "--name-width", "12", "--format", "json"]) == FINE
    made = json.loads(capsysbinary.readouterr().out)
    assert [column["name"] for column in made["columns"]][-1] == "shown"
    assert all(0 < len(row["shown"]) <= 12 for row in made["rows"])


def test_the_legend_of_a_ticket_explains_only_columns_that_are_there(table: Path, capsysbinary: Captured) -> None:
    assert main(["report", str(table), "--view", "kernels", "--format", "md"]) == FINE
    text = capsysbinary.readouterr().out.decode()
    header = next(line for line in text.splitlines() if line.startswith("| "))
    shown = [cell.strip() for cell in header.strip("|").split("|")]
    explained = re.findall(r"^- \*\*(.+?)\*\*:", text, re.MULTILINE)
    assert explained and set(explained) == set(shown)


def test_operators_as_a_tree(tmp_path: Path, capsysbinary: Captured) -> None:
    path = tmp_path / "trace.json"
    events = [
        {"ph": "X", "cat": "python_function", "name": "nn.Module: Net_0", "pid": 1, "tid": 1, "ts": 0, "dur": 90},
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 10, "dur": 50},
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 20, "dur": 5,
         "args": {"correlation": 7}},
        {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 40, "dur": 30,
         "args": {"correlation": 7, "device": 0, "stream": 7}},
    ]
    path.write_text(json.dumps({"traceEvents": events}))
    asked = ["report", str(path), "--view", "ops", "--tree", "--no-cache", "--format", "json"]
    assert main(asked) == FINE
    rows = json.loads(capsysbinary.readouterr().out)["rows"]
    assert [(row["tree"], row["kind"], row["device_total_ns"]) for row in rows] == [
        ("Net_0", "module", 30_000), ("  aten::mm", "operator", 30_000), ("    gemm", "kernel", 30_000)]


def test_a_view_that_is_no_tree_says_which_is(table: Path, capsysbinary: Captured) -> None:
    assert main(["report", str(table), "--view", "kernels", "--tree"]) == USAGE
    assert b"ops and stacks are" in capsysbinary.readouterr().err
    assert main(["report", str(table), "--tree"]) == USAGE


@pytest.mark.parametrize("words", [
    ["--view", "kernels", "--format", "folded"], ["--view", "stacks", "--flame", "device"],
    ["--view", "ops", "--flame", "samples", "--format", "svg"],
])
def test_a_flame_graph_of_what_has_none_is_refused(table: Path, words: list[str], capsysbinary: Captured) -> None:
    assert main(["report", str(table), *words]) == USAGE
    assert b"flame graphs need --view ops (--flame device or idle)" in capsysbinary.readouterr().err


@pytest.mark.parametrize("words", [[], ["-o", "x.txt"], ["-o", "x.json"], ["--format", "md"]])
def test_a_flame_graph_in_a_format_that_has_none_is_refused(
    table: Path, words: list[str], capsysbinary: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["report", str(table), "--view", "ops", "--flame", "device", *words]) == USAGE
    assert b"but svg, folded or speedscope" in capsysbinary.readouterr().err
    assert [one.name for one in tmp_path.iterdir()] == [table.name]


@pytest.mark.parametrize(("output", "format"), [
    ("a.folded.txt", "folded"), ("a.b.folded", "folded"), ("a.speedscope.json", "speedscope"), ("a.b.json", "json"),
    (".svg", "text"), ("a.txt", "text"), ("b/a.x.svg", "svg"),
])
def test_the_file_name_gives_the_format(output: str, format: str) -> None:
    assert format_of(argparse.Namespace(format=None, output=output), ()) == format


@pytest.mark.parametrize("words", [[], ["--view", "kernels"]])
def test_a_change_that_no_view_would_replay_is_refused(table: Path, words: list[str], capsysbinary: Captured) -> None:
    assert main(["report", str(table), "--change", "kernel:gemm=0.5", *words]) == USAGE
    assert b"--change needs --view whatif" in capsysbinary.readouterr().err


def test_the_summary_gives_the_mean_cycle_exactly(capsysbinary: Captured) -> None:
    assert main(["demo"]) == FINE
    text = capsysbinary.readouterr().out.decode()
    assert "mean in µs: 750,054.29 → 785,001.80, +4.66% (not a significance test)" in text
    assert text.count("cannot tell (mean 751 → 790 ms, 95% CI −30 to +106 ms, median 751 → 754 ms)") == 2
    assert "Cannot tell: 751 → 790 ms a cycle, mean +38.4 ms (95% CI −30 to +106 ms)." in text  # the first page


@pytest.fixture
def long_table(tmp_path: Path) -> Path:
    path = tmp_path / "long.txt"
    lines = [f"{'Kernel':<50}  {'Latency':>10} {'Tensor':>6} {'DRAM':>6}"]
    names = [f"kernel_{'x' * 30}_{number:03}" for number in range(180)]
    lines += [f"{name:<50}| {9000 - number:>10}   0.50   0.10" for number, name in enumerate(names)]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("form", ["text", "md"])
def test_of_a_long_list_the_beginning_is_printed(long_table: Path, form: str, capsysbinary: Captured) -> None:
    def names(*more: str) -> list[str]:
        assert main(["report", str(long_table), "--view", "launches", "--format", form, *more]) == FINE
        out = capsysbinary.readouterr().out
        assert more or len(out) < 25_000
        assert (b"--top 0 prints all rows" in out) is (not more)
        return re.findall(r"kernel_x*_(\d+)", out.decode())

    first = [f"{number:03}" for number in range(180)]
    assert sorted(set(names())) == first[:50]
    assert sorted(set(names("--top", "0"))) == first
    assert sorted(set(names("--top", "70"))) == first[:70]


def test_what_stays_short_is_printed_as_it_is(table: Path, capsysbinary: Captured) -> None:
    assert main(["report", str(table), "--view", "launches"]) == FINE
    assert b"--top" not in capsysbinary.readouterr().out


def test_long_rows_leave_room_for_fewer_of_them(
    long_table: Path, capsysbinary: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warplens.cli.output.MOST_BYTES", 2_000)
    assert main(["report", str(long_table), "--view", "launches"]) == FINE
    out = capsysbinary.readouterr().out
    assert len(out) < 2_100 and b"kernel_" in out and b"of 180 rows" in out


def test_files_and_data_have_all_rows(long_table: Path, tmp_path: Path, capsysbinary: Captured) -> None:
    for form in ("json", "csv"):
        assert main(["report", str(long_table), "--view", "launches", "--format", form]) == FINE
        assert len(set(re.findall(rb"kernel_x*_\d+", capsysbinary.readouterr().out))) == 180
    out = tmp_path / "out.md"
    assert main(["report", str(long_table), "--view", "launches", "-o", str(out)]) == FINE
    assert len(set(re.findall(rb"kernel_x*_\d+", out.read_bytes()))) == 180


def test_an_interrupt_while_modules_are_imported_ends_the_command_without_a_traceback() -> None:
    program = "import os, _signal, warplens.__main__ as it\nos.kill(os.getpid(), _signal.SIGINT)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "warplens: stopped\n")


@pytest.mark.parametrize("wanted, left", [("0", None), ("-1", None), ("all", None), ("2", "2"), ("99999", "at most")])
def test_polars_gets_a_number_of_threads_that_it_can_start(
    monkeypatch: pytest.MonkeyPatch, wanted: str, left: str | None
) -> None:
    monkeypatch.setenv("POLARS_MAX_THREADS", wanted)
    main(["cache", "path"])
    most = str(4 * (os.cpu_count() or 1))
    assert os.environ.get("POLARS_MAX_THREADS") == (most if left == "at most" else left)


def test_a_cache_that_cannot_be_cleared_says_so(
    table: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: Captured
) -> None:
    assert main(["report", str(table), "--view", "kernels"]) == FINE
    monkeypatch.setattr(cache.spill, "OWN", os.O_DIRECTORY)  # with O_CREAT an error
    assert main(["cache", "clear"]) == USAGE
    assert f"warplens: {cache.path()}: ".encode() in capsysbinary.readouterr().err
