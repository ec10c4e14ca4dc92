"""The triage page: what costs time first, where to look, why devices waited, what fills them, what changed."""

from __future__ import annotations

from pathlib import Path

from runs import Rows, host, kernel, run_of, steps

from warplens.analysis.contract.options import Options
from warplens.analysis.query.ask import ask
from warplens.analysis.table.export import render
from warplens.analysis.table.table import Table, row_words
from warplens.analysis.views import view
from warplens.analysis.views.triage import with_marked
from warplens.loaders.ingest.opening import open_run

MS = 1_000_000


def starved(name: str = "gemm", wait: int = 5 * MS) -> Table:
    return ask(view("triage"), (run_of(**tables(name, wait)),))


def tables(name: str, wait: int) -> dict[str, Rows]:
    kernels, calls, now = [], [], 0
    for number in range(6):
        now += wait
        kernels.append(kernel(number, now, MS, name, correlation=number + 1))
        calls += [host("cudaLaunchKernel", now - 10_000, 2_000, "runtime", correlation=number + 1),
                  host("aten::mm", now - 20_000, 15_000),
                  host("model.py(7): forward", now - 30_000, 30_000, "python")]
        calls.append(host("enumerate(DataLoader)#x", now - wait + MS // 2, wait - MS, "dataloader"))
        now += MS
    return {"kernels": kernels, "host": calls, "cycles": steps(*[wait + MS] * 6)}


def markdown(table: Table) -> str:
    return render(table, "md").decode()


def test_the_page_leads_from_the_finding_to_the_view_that_shows_it() -> None:
    page = markdown(starved())
    first = next(line for line in page.splitlines() if line.startswith("| 1 |"))
    assert "Input-bound: " in first and "DataLoader" in first and "`idle cause=input`" in first
    assert page.index("## Findings") < page.index("## Idle by cause") < page.index("## Top kernels")
    assert "aten::mm ← model.py:7 forward" in page
    assert "Not checked: " in page


def test_recordings_without_anything_timed_have_findings_of_their_own(samples: Path) -> None:
    (snapshot,) = open_run(str(samples / "memory_snapshot.pickle"), use_cache=False)
    (rule,) = ask(view("triage"), (snapshot,)).facts["rules"]
    assert (rule["rule"], rule["view"]) == ("out of memory", "memory")
    assert "out of memory at 5.67 ms" in rule["sentence"]
    counters = run_of(metrics=[
        {"metric": name, "device": "GPU 0", "ts_ns": at * MS, "value": value, "unit": unit}
        for at in range(20) for name, value, unit in (("utilization.gpu", 1.0, "%"), ("memory.used", 1.0, "B"))])
    (rule,) = ask(view("triage"), (counters,)).facts["rules"]
    assert (rule["rule"], rule["view"]) == ("idle", "metrics")


def test_every_view_and_filter_it_sends_to_exists() -> None:
    from warplens.analysis.findings.rules import RULES
    from warplens.analysis.table.filters import Filter

    table, run, answers = starved(), run_of(**tables("gemm", 5 * MS)), dict[str | None, Table]()
    for rule in RULES:
        if rule.view in ("overview", "metrics", "roofline", "sections", "copies", None):  # these need other recordings
            continue
        if rule.view not in answers:
            answers[rule.view] = ask(view(str(rule.view)), (run,))
        shown = answers[rule.view]
        if rule.filter is not None:
            shown.filtered(Filter(rule.filter))
    assert table.frame["look"].drop_nulls().is_in([rule.view for rule in RULES]).all()


def test_a_page_is_read_in_a_minute(samples: Path) -> None:
    pair = tuple(open_run(str(samples / "demo" / f"{side}.json.gz"), use_cache=False)[0]
                 for side in ("normal", "abnormal"))
    one, two = (markdown(ask(view("triage"), runs)) for runs in (pair[:1], pair))
    assert len(one.splitlines()) < 50 and len(two.splitlines()) < 90
    parts = ("## What the +", "## What changed", "## What to look at", "## What may weaken this",
             "## A alone: findings", "## B alone: findings")
    assert sorted(parts, key=two.index) == list(parts) and two.startswith("# normal → abnormal: ")
    assert len(two.splitlines()) <= 80 and two.index("| the cycle |") < 1500
    assert "- A: `normal.json.gz` (kineto" in two and "/normal.json.gz" not in two  # whose folder it is says nothing
    assert "SM clock of GPU 7 fell 1,187 → 210 MHz" in two
    assert "could win" not in one and "| # | finding | look |" in one and "Legend" not in two


def test_kernels_that_look_alike_are_told_apart(samples: Path) -> None:
    run = open_run(str(samples / "demo" / "normal.json.gz"), use_cache=False)[0]
    page = markdown(ask(view("triage"), (run,)))
    lines = page[page.index("## Top kernels"):].splitlines()
    names = [line.split(" | ")[0] for line in lines if line.startswith("| `")]
    assert len(names) == 5 and len(set(names)) == 5


def test_recorded_names_do_nothing_to_the_page() -> None:
    page = markdown(starved("evil|`y`\x1b[31m\n#<i>h"))
    assert "\x1b" not in page and "\n#<" not in page
    rows = [line for line in page.splitlines() if line.startswith("| `") and "6.00 ms" in line]
    assert rows and all(line.replace("\\|", "").count("|") == 6 for line in rows)


def test_marked_rows_and_notes_are_the_last_section() -> None:
    page = markdown(with_marked(starved(), [("kernels", "gemm · total 6.00 ms", "why twice?"), ("idle", "GPU 0", "")]))
    section = page[page.index("## Marked rows"):]
    assert "| kernels | `gemm · total 6.00 ms` | why twice? |" in section
    assert "Marked rows" not in markdown(starved())


def test_a_row_in_words_begins_with_its_name() -> None:
    table = ask(view("kernels"), (run_of(**tables("gemm", 5 * MS)),))
    words = row_words(table.columns, table.window(0, 1)[0])
    assert words.startswith("gemm · ") and "total 6.00 ms" in words


def test_the_rows_are_the_findings_for_scripts() -> None:
    table = starved()
    assert table.frame["rule"][0] == "input" and table.frame["filter"][0] == "cause=input"
    assert table.frame["time_to_win_ns"].drop_nulls().to_list() == [4 * MS]  # what the DataLoader takes of each step
    text = render(table, "text").decode()
    assert "FINDINGS" in text and "IDLE BY CAUSE" in text


def test_what_no_row_of_one_run_has_takes_no_room(samples: Path) -> None:
    table = ask(view("triage"), open_run(str(samples / "kineto.pt.trace.json"), use_cache=False))
    order = {column.name: column.order for column in table.columns}
    assert order["run"] is None and order["finding"] is not None


def test_what_a_finding_would_save_is_what_the_replay_says():
    run = run_of(**tables("gemm", 5 * MS))
    page = ask(view("triage"), (run,))
    saved = dict(page.frame.select("rule", "time_to_win_ns").rows())
    predicted = {row["name"]: row["saved_ns"] for row in ask(view("whatif"), (run,)).frame.to_dicts()
                 if row["kind"] == "idle"}
    assert saved["input"] == predicted["input"] > 3 * MS
    assert saved["busy"] is None
    assert "| would save |" in markdown(page)


def test_a_part_of_a_run_is_not_replayed():
    page = ask(view("triage"), (run_of(**tables("gemm", 5 * MS)),), Options(cycle=2))
    assert page.frame["time_to_win_ns"].null_count() == page.frame.height


def test_the_title_of_a_ticket_says_the_verdict_and_its_cause() -> None:
    runs = tuple(run_of(label, **tables("gemm", wait)) for label, wait in (("a", 5 * MS), ("b", 9 * MS)))
    page = markdown(ask(view("triage"), runs))
    title, _, first = (line for line in page.splitlines()[:5] if line)
    assert title == "# a → b: 67% slower, idle on DataLoader: 4.00 → 8.00 ms"
    assert first == "## What the +4.00 ms are"
    assert "| the cycle | 6.00 ms | 10.00 ms | +4.00 ms |" in page  # with the parts that did not change
