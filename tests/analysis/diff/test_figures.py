"""Single figures and words of the diff on small runs whose answer is worked out by hand."""

from __future__ import annotations

import re
from typing import Any, cast

import numpy as np
import polars as pl
import pytest
from gates import gate
from made_pairs import convolutions, training
from msgspec.structs import replace
from runs import kernel, run_of, steps
from scipy import stats

from warplens.analysis.contract.options import Options
from warplens.analysis.core.processes import ProcessPair
from warplens.analysis.diff.aggregates import step_sentence
from warplens.analysis.diff.by_cycle import uniform_change
from warplens.analysis.diff.change import _cause, _of_profile
from warplens.analysis.diff.cycle_time import compare_lengths, cycle_time
from warplens.analysis.diff.device_work import DeviceWork, _path
from warplens.analysis.diff.function_change import FunctionChange, fold_into_idle, frame_of, in_order
from warplens.analysis.diff.gate import judged_change
from warplens.analysis.diff.gate_rule import Condition
from warplens.analysis.diff.judge import Shape, form
from warplens.analysis.diff.lead import lead_of
from warplens.analysis.diff.matching import Profile, matches
from warplens.analysis.diff.per_flop import SideBySide
from warplens.analysis.diff.pooled import _compared
from warplens.analysis.diff.prepare.samples import IDLE, Matched, RunSamples, SampleCoverage
from warplens.analysis.diff.reference import _Samples, u_test
from warplens.analysis.diff.same_work import REPORT, alike_functions, flops_of
from warplens.analysis.diff.sentences import cycle_sentence, shape_text
from warplens.analysis.diff.sequence import unit_of
from warplens.analysis.idle.cause_meanings import LABELS
from warplens.analysis.query.ask import ask
from warplens.analysis.views import view
from warplens.analysis.work.attribution import Signature

CALM = 100.0 + np.arange(20) % 3


@pytest.mark.parametrize(("shape", "said"), [
    (Shape("two levels", 13, 44, high_ms=53.0, low_ms=40.8), "13 of 44 cycles take 53.0 ms, the others 40.8 ms"),
    (Shape("every", 6, 24, high_ms=53.0, low_ms=40.8, period=4), "every 4th cycle 53.0 ms, the others 40.8 ms"),
    (Shape("every", 18, 24, high_ms=53.0, low_ms=40.8, period=4), "every 4th cycle 40.8 ms, the others 53.0 ms"),
    (Shape("since", 3, 6, (4, 5, 6), 53.0, 40.8, since=4), "40.8 ms before cycle #4, 53.0 ms since"),
    (Shape("since", 3, 6, (1, 2, 3), 53.0, 40.8, since=4), "53.0 ms before cycle #4, 40.8 ms since"),
    (Shape("first", 3, 24, (1, 2, 3), 53.0, 40.8), "the first three 53.0 ms, the others 40.8 ms, left out"),
    (Shape("outliers", 1, 24, (9,), 53.0, 40.8), ""), (Shape("one level", 0, 24), ""),
])
def test_a_shape_in_words(shape: Shape, said: str) -> None:
    assert shape_text(shape) == said


@pytest.mark.parametrize(("factor", "said"), [(1.1, "+10.0%"), (0.9, "−10.0%"), (2.0, "2.0×"), (0.5, "0.5×")])
def test_a_called_cycle_says_by_how_much(factor: float, said: str) -> None:
    assert f", {said}, 95% CI" in cycle_sentence(compare_lengths(CALM, factor * CALM), REPORT)


def test_the_excess_of_an_outlier_is_over_the_median_of_its_run() -> None:
    odd = CALM.copy()
    odd[8] = 190.0
    (one,) = compare_lengths(CALM, odd).outliers
    assert (one.run, one.cycle, one.ms, one.excess_ms) == ("B", 9, 190.0, 89.0)


def samples(*lengths: float, first: int = 1, ms: list[list[float]] | None = None) -> RunSamples:
    functions = np.array(ms if ms is not None else np.zeros((0, len(lengths))))
    return RunSamples(np.arange(first, first + len(lengths)), np.array(lengths), np.ones(len(lengths), dtype=bool),
                      functions, functions)


def pair(a: RunSamples, b: RunSamples, rank: int | None = None, functions: pl.DataFrame | None = None) -> Matched:
    none = pl.DataFrame(schema={"function": pl.String, "device": pl.String, "kind": pl.String})
    return Matched(ProcessPair(rank, rank, True, rank), none if functions is None else functions, a, b,
                   SampleCoverage(3, 0), SampleCoverage(3, 0))


def test_the_cycle_of_a_job_is_the_mean_of_its_ranks_where_all_of_them_have_it() -> None:
    a = samples(10.0, 20.0, 30.0), samples(14.0, 24.0, 34.0, 99.0)
    time = cycle_time([pair(one, one, rank) for rank, one in enumerate(a)], True)
    assert (time.cycles_a, time.mean_a_ms) == (3, 22.0)


def test_a_cause_has_its_label_and_the_account_of_a_profile_the_rest_of_the_cycle() -> None:
    two = np.array([1.0, 1.2]), np.array([2.0, 2.2])
    assert _cause((IDLE, "input"), *two, None).name == LABELS["input"]
    assert _cause(("kernel", "input"), *two, None).name == "input"
    functions = pl.DataFrame({"function": ["gemm", "read", "gemm"], "device": ["GPU 0", "Host", "GPU 1"],
                              "kind": ["kernel", "op", "kernel"]})
    side = samples(10.0, 12.0, ms=[[3.0, 4.0], [5.0, 5.0], [7.0, 7.0]])
    owners = _of_profile(pair(side, side, functions=functions), side, "GPU 0").owners
    assert {key: values.tolist() for key, values in owners.items()} == {
        ("kernel", "gemm"): [3.0, 4.0], ("rest", "not recorded"): [7.0, 8.0]}


def test_the_rank_test_is_scipys_and_says_nothing_of_a_side_without_samples() -> None:
    draw = np.random.default_rng(3)
    a, b = draw.normal(0, 1, 12), draw.normal(1, 1, 15)
    value = np.concatenate((a, b, np.full(30, 4.0), a))
    group = np.concatenate((np.zeros(27), np.ones(30), np.full(12, 2))).astype(np.intp)
    in_b = np.concatenate((np.zeros(12), np.ones(15), np.arange(30) % 2, np.zeros(12))).astype(bool)
    p = u_test(group, in_b, value, 3)
    assert p[0] == pytest.approx(stats.mannwhitneyu(a, b, method="asymptotic").pvalue)
    assert p[1] == 1.0 and p[2] == 1.0  # all values equal; none in B


def test_the_test_of_summaries_is_welchs() -> None:
    draw = np.random.default_rng(4)
    a, b = draw.normal(0, 1, 5), draw.normal(1, 3, 9)
    of = _Samples(np.zeros(14, dtype=np.intp), np.arange(14) >= 5, np.concatenate((a, b)), 1)
    (p,) = of.welch((np.array([5.0]), np.array([9.0])))
    assert p == pytest.approx(stats.ttest_ind(a, b, equal_var=False).pvalue)


def test_equal_runs_still_differ_by_the_floor_of_the_larger_mean() -> None:
    assert _compared(np.full(3, 100.0), np.full(3, 200.0)).noise == pytest.approx(0.6)


@pytest.mark.parametrize(("busy_b", "path", "verdict", "word"), [
    (5.0, None, "unchanged", "good"), (10.2, None, "unchanged", "same"), (20.0, None, "unchanged", "look"),
    (20.0, "exposed", "unchanged", "bad"), (5.0, None, "not judged", "unchecked"),
])
def test_the_line_of_a_device_is_good_or_bad_by_its_work(busy_b: float, path: Any, verdict: Any, word: str) -> None:
    cycles = replace(compare_lengths(CALM, CALM), verdict=verdict)
    lead = lead_of(cycles, [DeviceWork("GPU 0", 1, 1, 10.0, busy_b, path=path)], False, False)
    assert lead is not None and lead.lines["GPU"] == word
    changed = verdict == "unchanged" and word != "same"
    assert (lead.caption == "GPU work") is changed and lead.lines["Cycle"] == (
        "unchecked" if verdict == "not judged" else "same")


def test_an_unchanged_cycle_with_a_slow_one_is_worth_a_look() -> None:
    odd = CALM.copy()
    odd[8] = 190.0
    lead = lead_of(compare_lengths(CALM, odd), [], False, False)
    assert lead is not None and lead.lines["Cycle"] == "look"


@pytest.mark.parametrize(("grown", "idle", "path"), [
    (0.0, 0.06, "hidden"), (0.0, 0.04, None), (10.0, 0.06, "exposed"), (60.0, 0.06, None)])
def test_more_work_is_hidden_only_where_the_device_had_time_for_it(grown: float, idle: float, path: str | None) -> None:
    work = DeviceWork("GPU 0", 1, 1, 40.0, 50.0, ci_low_ms=9.0, ci_high_ms=11.0, idle_b=idle)
    assert _path(work, compare_lengths(CALM, CALM + grown)) == path


def test_functions_are_alike_by_the_smaller_number_of_their_launches() -> None:
    a, b = ({(name, "GPU 0", "kernel"): count for name, count in one.items()} for one in (
        {"x": 10.0, "y": 10.0}, {"x": 10.0, "y": 5.0}))
    assert alike_functions(a, b, True).likeness == pytest.approx(0.75)
    assert [alike_functions(a, b, counted).answer for counted in (True, False)] == ["unknown", "yes"]


def test_attention_has_flops_where_its_three_arguments_are_recorded() -> None:
    shape = "[8,256,4,64]"
    of = Signature("aten::_flash_attention_forward", f"[{shape},{shape},{shape}]", None, None, None, False, None)
    assert flops_of(of) == 2 * 8 * 4 * 256 * 256 * 128
    assert flops_of(replace(of, contradicts=True)) is None and flops_of(replace(of, shapes=f"[{shape}]")) is None
    assert flops_of(replace(of, shapes=f"[{shape},{shape},[8,256]]")) is None


def test_functions_of_one_stem_are_paired_by_their_launches_each_once() -> None:
    def some(**counts: float) -> dict[tuple[str, str | None, str | None], Profile]:
        return {(f"triton_poi_{name}", "GPU 0", "kernel"): Profile(count, 9.0) for name, count in counts.items()}

    found = matches(some(_1=2.0, _2=12.0, _3=50.0), some(_5=12.0, _7=2.0, _8=51.0), (None, None), {})
    assert {now: was for (now, _), was in found.names.items()} == {
        "triton_poi__5": "triton_poi__2", "triton_poi__7": "triton_poi__1", "triton_poi__8": "triton_poi__3"}


def test_rows_that_are_not_called_are_in_order_of_their_change() -> None:
    rows = [FunctionChange("a", delta_ms=6.0, sure_ms=5.0), FunctionChange("b", delta_ms=-10.0, sure_ms=0.0),
            FunctionChange("c", delta_ms=1.0, sure_ms=0.5, verdict="faster"),
            FunctionChange("d", delta_ms=0.2, sure_ms=0.1, verdict="slower")]
    assert in_order(frame_of(rows))["function"].to_list() == ["d", "c", "b", "a"]


def test_the_host_side_of_an_idle_cause_is_its_part_where_it_accounts_for_it() -> None:
    def rows(idle: float, *host: float) -> list[FunctionChange]:
        waited = FunctionChange("idle: host sync", "GPU 0", IDLE, "idle", 1, 1, delta_ms=idle, verdict="slower")
        return [waited, *(FunctionChange("cudaDeviceSynchronize", "Host", "runtime", "host", 1, 1, delta_ms=one,
                                         verdict="slower") for one in host)]

    both = rows(4.0, 5.0)
    fold_into_idle(both)
    assert both[1].part_of == "idle: host sync" and both[0].parts == 1
    for others in (rows(3.0, 5.0), rows(4.0, -5.0)):
        fold_into_idle(others)
        assert others[1].part_of is None and not others[0].parts


def test_a_breakdown_without_a_step_has_no_sentence() -> None:
    class Overview:
        window_ns, times = 0, {"Kernel": 5.0}

    assert step_sentence(cast("Any", Overview), cast("Any", Overview)) is None


def test_time_per_flop_is_said_where_both_runs_know_it() -> None:
    both = SideBySide("step", 10.0, 20.0, 1e9, 2e9, 300.0, 600.0, (), (), ())
    assert both.sentence == "one step of each, no verdict: device time 10.0 → 20.0 ms, per GFLOP 300.0 µs → 600.0 µs."
    assert "GFLOP" not in replace(both, us_per_gflop_b=None).sentence


@pytest.mark.parametrize(("low", "high", "result"), [
    (6.0, 9.0, "FAIL"), (4.0, 6.0, "NOT JUDGED"), (-2.0, 5.0, "PASS"), (1.0, 4.0, "PASS"), (None, None, "NOT JUDGED")])
def test_a_limit_is_kept_broken_or_neither(low: float | None, high: float | None, result: str) -> None:
    assert judged_change(low, high, 100.0, 5.0) == result
    assert judged_change(low, high, 100.0, 1.0) == (
        "FAIL" if low and low > 1.0 else "NOT JUDGED" if low is None else "PASS")


def test_some_high_times_are_levels_wherever_they_are_and_first_ones_only_at_the_start() -> None:
    def kind(*high: int, of: int = 24) -> str:
        return form(np.where(np.isin(np.arange(of), high), 150.0, 100.0 + np.arange(of) % 3)).shape.kind

    assert (kind(7, 12, 20), kind(0, 1), kind(7), kind(7, 8)) == ("two levels", "first", "outliers", "outliers")
    assert kind(*range(30, 60), 3, 19, of=60) == "since"  # two of 28 do not fit
    assert kind(*range(30, 60), 3, 8, 13, 19, of=60) == "two levels"


def test_one_factor_of_all_kernels_has_the_spread_of_their_ratios() -> None:
    ratios = [1.29, 1.31] * 6
    rows = [FunctionChange(f"k{at}", "GPU 0", "kernel", launches_a=1.0, launches_b=1.0, launch_us_a=10.0,
                           launch_us_b=10.0 * ratio, a_ms=1.0) for at, ratio in enumerate(ratios)]
    lead = uniform_change(rows)
    assert lead is not None and (lead.factor, lead.spread) == (pytest.approx(1.3), pytest.approx(0.01 / 1.3))
    assert uniform_change(rows[:9]) is None and uniform_change([*rows, replace(rows[0], launch_us_b=9.0)]) is None


def test_the_unit_of_work_is_the_middle_cycle() -> None:
    run = run_of(cycles=steps(*[1_000] * 5), kernels=[kernel(at, 1_000 * at + 100, 50, f"k{at}") for at in range(5)])
    unit = unit_of(run, Options(), "a", "step")
    assert unit is not None and unit.launches["name"].cast(pl.String).to_list() == ["k2"] and unit.marked


def test_idle_time_of_runs_of_other_numbers_of_steps_is_of_one_step() -> None:
    runs = convolutions(["wino"], 1, count=3), convolutions(["wino"], 1, count=1)
    idle = ask(view("diff"), runs).frame.filter(pl.col("kind").cast(pl.String) == "idle")
    assert idle["a_ms"].sum() == pytest.approx(idle["b_ms"].sum(), rel=0.02)


def test_a_failed_gate_names_the_near_end_in_ms_and_percent() -> None:
    a, b = (training(seed, kernel_ms=ms) for seed, ms in ((1, 3.0), (2, 4.5)))
    failed = gate(ask(view("diff"), (a, b)), [Condition("regression", 5)])
    time = ask(view("diff"), (a, b)).facts["cycle_time"]
    share = re.search(r"\(\+([\d.]+)%\)", failed.sentence)
    assert not failed.passed and share is not None
    assert float(share[1]) == pytest.approx(100 * time["mean_low_ms"] / time["compared_a_ms"], abs=0.06)
