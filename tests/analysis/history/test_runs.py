"""A history of runs: what is compared with what, what is said of it, and what the facts hold."""

from __future__ import annotations

import json

import pytest
from history_runs import KERNELS, stepped, sums
from msgspec import structs

from warplens.analysis.contract.options import Options
from warplens.analysis.contract.view import CannotAnswer
from warplens.analysis.history.gate import gate, percent_of
from warplens.analysis.history.runs import _numbers, history_trace
from warplens.analysis.history.sums import Sum, packed, unpacked_sums
from warplens.analysis.query.ask import ask
from warplens.analysis.query.report import report
from warplens.analysis.table.export import render
from warplens.analysis.table.table import Table
from warplens.analysis.views import answerable, view


def _asked(runs: list) -> Table:
    return ask(view("history"), (history_trace(runs),))


def test_a_step_is_told_with_its_run_its_size_and_its_evidence() -> None:
    table = _asked(stepped(40, "gemm_c", 1.051, 25))
    (step,) = [one for one in table.facts["steps"] if one["kind"] == "kernel"]
    assert (step["name"], step["index"], step["run"], step["runs_after"]) == ("gemm_c", 25, "night-025", 15)
    assert step["change"] == pytest.approx(0.051, abs=0.004)
    said = next(line for line in table.summary if line.startswith("gemm_c"))
    assert said.startswith("gemm_c is 5.") and " slower since run 26 (night-025): 5.0" in said
    assert said.endswith("Seen in 15 runs; chance alone does that less than once in a million such histories.")
    assert {"runs": 40, "alarms": 0.05, "fewest_after": 3}.items() <= table.facts["tested"].items()
    row = next(row for row in table.frame.rows(named=True) if row["name"] == "gemm_c")
    assert row["runs"] == 40 and row["steps"].endswith("@26") and len(row["trend"]) == 40
    assert row["cost_ns"] == pytest.approx(step["after_ns"] - step["before_ns"], abs=1)


def test_the_first_row_is_the_cycle_and_what_stepped_comes_next() -> None:
    frame = _asked(stepped(40, "norm_b", 1.2, 20)).frame
    assert frame["name"].to_list()[:2] == ["cycle", "norm_b"]


def test_a_bad_last_run_is_said_and_is_no_step() -> None:
    table = _asked(stepped(40, "softmax", 1.08, 39))
    assert not table.facts["steps"]
    (one,) = table.facts["unconfirmed"]
    assert (one["name"], one["runs"], one["run"]) == ("softmax", 1, "night-039")
    assert any(line.startswith("softmax was ") and "two more like it, or run the job again" in line
               for line in table.summary)


def test_a_quiet_history_says_what_would_have_shown() -> None:
    (line,) = _asked(stepped(40, "gemm_c", 1.0, 0)).summary
    assert line.startswith("No steps over 40 runs in 8 series.")


@pytest.mark.parametrize(("unit_ns", "steps"), [(1, 1), (1000, 0)])
def test_one_microsecond_is_no_step_where_times_are_whole_microseconds(unit_ns: int, steps: int) -> None:
    def run(number: int):
        before, after = (4_000.0, 3_000.0) if unit_ns == 1000 else (4_001.0, 3_001.0)
        (part,) = sums(number).parts
        kernels = {"tiny": Sum(before if number < 10 else after, 1.0), "steady": Sum(5_000_000.0, 10.0)}
        part = structs.replace(part, cycles=1, sums={"kernel": kernels})
        return structs.replace(sums(number), parts=(part,))

    found = _asked([run(number) for number in range(20)]).facts["steps"]
    assert [one["name"] for one in found if one["kind"] == "kernel"] == ["tiny"] * steps


def test_few_runs_are_shown_and_not_tested() -> None:
    table = _asked(stepped(5, "gemm_c", 1.3, 3))
    assert table.summary == ("5 comparable runs; finding a step takes 8.",) and len(table) == 8


def test_a_renamed_kernel_is_one_series() -> None:
    old, new = "void gemm<(int)4>(float*)", "void gemm<4>(float*)"
    runs = [sums(number, kernels={**KERNELS, (old if number < 20 else new): 2e6}) for number in range(40)]
    table = _asked(runs)
    assert table.frame.filter(name=old)["runs"].to_list() == [40] and new not in table.frame["name"].to_list()
    assert any("changed only the name" in note for note in table.notes)


def test_runs_of_the_same_name_are_told_apart_by_when_they_were_recorded() -> None:
    nights = [structs.replace(run, label="night") for run in stepped(40, "gemm_c", 1.1, 25)]
    table = _asked(nights)
    assert "since run 26 (night 2026-01-01 00:25)" in table.summary[0]
    assert [run["run"] for run in table.facts["runs"]][:2] == ["night 2026-01-01 00:00", "night 2026-01-01 00:01"]


def test_a_kernel_that_comes_and_goes_is_in_the_runs_that_have_it() -> None:
    runs = [sums(number, kernels=KERNELS | ({"late": 4e5} if number >= 25 else {})) for number in range(40)]
    table = _asked(runs)
    assert table.frame.filter(name="late")["runs"].to_list() == [15]
    assert [step["kind"] for step in table.facts["steps"]] == ["busy", "cycle"]  # which it made longer
    assert len(table.summary) == 1
    assert "New since then: late, 0.4" in table.summary[0]
    assert table.frame.filter(name="late")["trend"][0].null_count() == 25


def test_other_hardware_in_between_is_shown_and_no_step() -> None:
    runs = [sums(n, {"gemm_c": 0.4}, hardware="NVIDIA H100") if 10 <= n < 14 else sums(n) for n in range(40)]
    table = _asked(runs)
    assert not table.facts["steps"] and table.facts["tested"]["runs"] == 36
    assert "Runs 11–14: other hardware: NVIDIA H100. Shown, not tested." in table.notes
    assert table.facts["runs"][10]["not_tested"] == "other hardware: NVIDIA H100"


def test_a_lasting_change_of_hardware_compares_the_new_runs_with_each_other() -> None:
    runs = [sums(n, hardware="NVIDIA A100" if n < 25 else "NVIDIA H100") for n in range(40)]
    facts = _asked(runs).facts
    assert facts["tested"]["runs"] == 15 and [one["not_tested"] is None for one in facts["runs"]] == [False] * 25 + [
        True] * 15


def test_other_work_in_between_is_no_step() -> None:
    runs = [sums(n, ops={"aten::mm": 20.0 if n != 30 else 40.0, "aten::add": 5.0}) for n in range(40)]
    table = _asked(runs)
    assert "Run 31: other work per cycle. Shown, not tested." in table.notes


def test_runs_of_other_shapes_are_set_apart_with_an_example() -> None:
    shapes = {"aten::mm": {"[[2048,1024],[1024,8]]": 4}, "aten::add": {"[[8],[8]]": 1}}
    runs = []
    for run in stepped(14, "gemm_c", 0.5, 9):
        half = run.label >= "night-009"
        own = {**shapes, "aten::mm": {"[[1024,1024],[1024,8]]": 4}} if half else shapes
        runs.append(structs.replace(run, parts=(structs.replace(run.parts[0], shapes=own),)))
    table = _asked(runs)
    assert [one["not_tested"] for one in table.facts["runs"]][8:10] == [
        None, "other shapes: [2048, 1024] → [1024, 1024] in 1 of 2 operators"]
    assert not table.facts["steps"] and gate(table.facts, 5)[0] == "NOT JUDGED"


def test_a_dozen_newer_runs_of_other_work_are_no_new_baseline() -> None:
    runs = [sums(n, ops={"aten::mm": 20.0 if n < 16 else 40.0, "aten::add": 5.0}) for n in range(28)]
    facts = _asked(runs).facts
    assert facts["tested"]["runs"] == 16 and [one["not_tested"] for one in facts["runs"]] == [None] * 16 + [
        "other work per cycle"] * 12
    assert gate(facts, 5) == ("NOT JUDGED", "NOT JUDGED: the last run (night-027) is set apart: other work per cycle")
    facts = _asked([*runs, *(sums(n, ops={"aten::mm": 40.0, "aten::add": 5.0}) for n in range(28, 32))]).facts
    assert [one["not_tested"] is None for one in facts["runs"]] == [False] * 16 + [True] * 16  # as many, and newer


def test_variants_of_an_operator_that_take_turns_are_one_series() -> None:
    ops = {"aten::cat": 4.0}
    turns = ("flat_copy", "tiled_copy")
    runs = [sums(n, kernels=KERNELS | {turns[n % 2]: 2e6 * (1.2 if n >= 20 else 1)}, ops=ops) for n in range(40)]
    table = _asked(runs)
    assert {step["name"] for step in table.facts["steps"]} == {"cycle", "busy"}
    assert [table.frame.filter(name=name)["runs"].to_list() for name in turns] == [[20], [20]]


def test_what_needs_no_names_is_tested_whatever_the_kernels_are_called() -> None:
    runs = [sums(n, kernels={f"{name}_{n}_{name}": ns * (1.1 if n >= 20 else 1) for name, ns in KERNELS.items()})
            for n in range(40)]
    facts = _asked(runs).facts
    assert {(step["kind"], step["index"]) for step in facts["steps"]} >= {("cycle", 20), ("busy", 20)}


def test_a_drift_of_one_percent_a_night_is_found() -> None:
    facts = _asked([sums(n, {"gemm_c": 1 + 0.01 * n}) for n in range(14)]).facts
    (drift,) = [one for one in facts["drifts"] if one["name"] == "gemm_c"]
    assert drift["per_run"] == pytest.approx(0.01, rel=0.15) and gate(facts, 5)[0] == "FAIL"


def test_another_model_in_between_does_not_hide_what_moved() -> None:
    runs = stepped(40, "gemm_c", 1.1, 25)
    runs[30] = sums(30, kernels={"conv": 9e8, "gemm_c": 7e8})
    table = _asked(runs)
    rows = {row["name"]: row for row in table.frame.rows(named=True)}
    assert rows["gemm_c"]["trend"][30] is None and rows["gemm_c"]["mean_ns"] < 6e6 and rows["gemm_c"]["runs"] == 40
    assert rows["conv"]["trend"][30] > 8e8 and table.frame["name"].to_list()[-1] == "conv"


def test_runs_without_cycles_among_others_are_not_compared_with_them() -> None:
    runs = [sums(n, cycle_kind="recording" if n in (3, 4) else "step") for n in range(40)]
    table = _asked(runs)
    assert "Runs 4–5: no cycles. Shown, not tested." in table.notes
    assert table.facts["tested"]["runs"] == 38


def test_a_run_with_cycles_among_recordings_says_what_the_others_lack() -> None:
    table = _asked([sums(n, cycle_kind="step" if n == 3 else "recording") for n in range(40)])
    assert "Run 4: it has cycles, the runs compared have none. Shown, not tested." in table.notes


def test_a_recording_is_no_history(demo: object = None) -> None:
    from warplens.loaders.trace import Info, Trace

    with pytest.raises(CannotAnswer, match="three runs or more"):
        ask(view("history"), (Trace(Info("x", "x", "kineto")),))


def test_an_empty_history_has_an_answer() -> None:
    assert len(_asked([])) == 0


def test_only_a_history_offers_the_view() -> None:
    assert "history" in {entry.name for entry in answerable((history_trace(stepped(10, "gemm_a", 1, 0)),))}


def test_sums_are_what_they_were_when_they_were_kept() -> None:
    one = sums(3)
    assert unpacked_sums(packed(one)) == one


@pytest.mark.parametrize("form", ["text", "md", "json", "csv", "parquet", "svg"])
def test_every_export_takes_it(form: str) -> None:
    table = report("history", (history_trace(stepped(40, "gemm_c", 1.05, 25)),), Options())
    assert render(table, form)


def test_json_of_a_history_has_its_facts() -> None:
    table = report("history", (history_trace(stepped(40, "gemm_c", 1.05, 25)),), Options())
    made = json.loads(render(table, "json"))
    assert [run["index"] for run in made["facts"]["runs"]] == list(range(40)) and made["facts"]["steps"]


def test_the_other_shape_lists_the_runs() -> None:
    runs = stepped(40, "softmax", 1.3, 39)
    table = report("history", (history_trace(runs),), Options(), tree=True)
    assert table.frame["run"].to_list()[:2] == ["night-000", "night-001"] and len(table) == 40
    assert table.columns[0].header == "#" and table.frame["number"].to_list() == list(range(1, 41))
    assert table.frame["off"].to_list()[-1] >= 1 and sum(table.frame["off"].to_list()[:-1]) == 0


def test_the_details_of_a_step_have_its_interval_in_percent() -> None:
    trace = history_trace(stepped(40, "gemm_c", 1.05, 25))
    one = view("history")
    row = next(row for row in ask(one, (trace,)).frame.rows(named=True) if row["name"] == "gemm_c")
    (step,) = (section for section in one.details(row, (trace,), Options()) if section.title == "Step at run 26")
    low, high = dict(step.rows)["95% CI"].split(" … ")
    assert "it came with" not in dict(step.rows)
    assert 4.0 < float(low.strip("+%")) < 5.0 < float(high.strip("+%")) < 6.5


@pytest.mark.parametrize(("at", "said"), [
    (39, "% slower in the last run. One run does not tell a step from a bad run: two more like it, or"),
    (38, "% slower in the last two runs. Two runs do not tell a step from a bad run: one more like them, or"),
])
def test_what_is_not_confirmed_says_how_many_runs_more_it_takes(at: int, said: str) -> None:
    (line,) = (line for line in _asked(stepped(40, "softmax", 1.08, at)).summary if line.startswith("softmax was"))
    assert said in line


def test_runs_are_named_by_their_spans() -> None:
    assert [_numbers(one) for one in ([4], [4, 5, 6, 9], [1, 3, 5])] == ["Run 4", "Runs 4–6 and 9", "Runs 1, 3 and 5"]
    assert _numbers(range(1, 31, 2)) == "Runs 1, 3, 5, 7, 9, 11, 13, 15 and 7 more"


def test_rows_have_details() -> None:
    trace = history_trace(stepped(40, "gemm_c", 1.05, 25))
    one = view("history")
    for shape in (one, one.other):
        for row in ask(shape, (trace,)).frame.rows(named=True):
            assert shape.details(row, (trace,), Options())


@pytest.mark.parametrize(("text", "reason"), [
    ("step", "give step:PCT"), ("step:x", "give step:PCT"), ("step:-1", "give step:PCT"), ("step:1.9", "below 2%"),
    ("cycle:5", "give step:PCT"), ("step:nan", "give step:PCT"), ("step:inf", "give step:PCT"),
])
def test_a_gate_that_cannot_be_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        percent_of(text)


@pytest.mark.parametrize(("at", "factor", "percent", "passed"), [
    (37, 1.05, 3.0, False), (35, 1.05, 3.0, False), (34, 1.05, 3.0, True), (38, 1.05, 3.0, True),
    (36, 0.95, 3.0, True), (36, 1.05, 20.0, True),
])
def test_the_gate_counts_steps_three_to_five_runs_old(at: int, factor: float, percent: float, passed: bool) -> None:
    result, sentence = gate(_asked(stepped(40, "gemm_c", factor, at)).facts, percent)
    assert (result == "PASS") is passed and sentence.startswith("PASS: " if passed else "FAIL: kernel gemm_c +")
