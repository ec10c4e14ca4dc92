"""Two runs without cycles: each launch is a sample, and the interval is that of the change of the run's total."""

from __future__ import annotations

import random

import numpy as np
import polars as pl
import pytest
from runs import kernel, run_of, samples, steps
from scipy import stats

from warplens.analysis.contract.options import Options
from warplens.analysis.query.ask import ask
from warplens.analysis.views import view
from warplens.loaders.trace import Trace


def a_run(label: str, durations: list[int], seed: int) -> Trace:
    """Launches of one function between others, in an order that repeats nowhere and is the same in every run."""
    chance, names, rows, now = random.Random(seed), random.Random(0), [], 0
    for number, dur in enumerate(durations):
        for name, length in [("gemm", dur), *((f"other_{chr(0x4e00 + names.randrange(500))}", 40) for _ in range(2))]:
            rows.append(kernel(len(rows), now, length, name))
            now += length + chance.randrange(1, 3_000) + number % 3
    return run_of(label, kernels=rows)


def durations(count: int, mean: int, seed: int) -> list[int]:
    chance = random.Random(seed)
    return [max(1_000, int(chance.gauss(mean, mean / 10))) for _ in range(count)]


def gemm(a: list[int], b: list[int]) -> dict[str, float]:
    table = ask(view("diff"), (a_run("a", a, 1), a_run("b", b, 2)))
    assert any("no common cycles: each launch is a sample" in said for said in table.summary)
    (row,) = (row for row in table.frame.to_dicts() if row["function"] == "gemm")
    return row


def test_with_as_many_launches_the_interval_is_of_their_differences() -> None:
    a, b = durations(30, 900_000, 3), durations(30, 1_200_000, 4)
    row, change = gemm(a, b), (np.array(b) - np.array(a)) / 1e6
    low, high = (end * 30 for end in stats.t.interval(0.95, 29, change.mean(), stats.sem(change)))
    assert row["delta_ms"] == pytest.approx(change.sum())
    assert (row["ci_low_ms"], row["ci_high_ms"]) == pytest.approx((low, high))
    assert row["verdict"] == "slower" and row["sure_ms"] == pytest.approx(low)


def test_with_other_numbers_of_launches_both_spreads_make_the_interval() -> None:
    a, b = durations(30, 900_000, 5), durations(41, 900_000, 6)
    row = gemm(a, b)
    totals = np.array(b) * 41 / 1e6, np.array(a) * 30 / 1e6
    interval = stats.ttest_ind(*totals, equal_var=False).confidence_interval()
    assert row["delta_ms"] == pytest.approx((sum(b) - sum(a)) / 1e6)
    assert (row["ci_low_ms"], row["ci_high_ms"]) == pytest.approx((interval.low, interval.high))
    assert row["verdict"] == "not judged"


def test_a_change_within_its_interval_is_none() -> None:
    row = gemm(durations(30, 900_000, 7), durations(30, 905_000, 8))
    assert row["ci_low_ms"] < 0 < row["ci_high_ms"]
    assert row["verdict"] == "~" and row["sure_ms"] == 0


def test_launches_without_a_duration_count_and_leave_the_figures_to_the_others() -> None:
    a, b = durations(30, 900_000, 3), durations(30, 1_200_000, 4)
    lost = a_run("b", b, 2)
    gemms = pl.col("name") == "gemm"
    some = lost.with_tables(kernels=lost.kernels.with_columns(
        pl.when(~(gemms & (pl.int_range(pl.len()).over("name") < 10))).then("dur_ns").alias("dur_ns")
    ))
    row = next(row for row in ask(view("diff"), (a_run("a", a, 1), some)).frame.to_dicts() if row["function"] == "gemm")
    assert row["launches_b"] == 30 and row["launch_us_b"] == pytest.approx(np.mean(b[10:]) / 1e3)
    assert row["verdict"] == "slower" and row["b_ms"] == pytest.approx(np.mean(b[10:]) * 30 / 1e6)


@pytest.mark.parametrize("first", [True, False])
def test_a_function_whose_launches_have_no_durations_has_no_change(first: bool) -> None:
    whole = a_run("a", durations(30, 900_000, 3), 1)
    none = whole.with_tables(kernels=whole.kernels.with_columns(
        pl.when(pl.col("name") != "gemm").then("dur_ns").alias("dur_ns")
    ))
    table = ask(view("diff"), (none, whole) if first else (whole, none))
    row = next(row for row in table.frame.to_dicts() if row["function"] == "gemm")
    assert (row["launches_a"], row["launches_b"], row["delta_ms"], row["q"]) == (30, 30, None, None)
    assert row["verdict"] == "too few cycles" and row["a_ms" if first else "b_ms"] is None


def test_a_single_cycle_is_not_called_none() -> None:
    one, guessed = (run_of(source, cycles=steps(*lengths, source=source), kernels=[
        kernel(number, 1_000 * number, 400 + number) for number in range(20)
    ]) for source, lengths in (("annotation", (30_000,)), ("pattern", (5_000,) * 4)))
    table = ask(view("diff"), (one, guessed))
    assert any("too few cycles: each launch is a sample" in said for said in table.summary)
    assert any("fewer than two timed cycles" in note for note in table.notes)
    assert "no cycles" not in " ".join((*table.summary, *table.notes))


def test_one_step_on_devices_of_other_numbers_is_compared() -> None:
    def on(device: str) -> Trace:
        return run_of(device, cycles=steps(100_000), kernels=[
            kernel(number, 1_000 * number, 400 + number, device=device, correlation=number) for number in range(20)
        ])

    runs = (on("GPU 0"), on("GPU 2"))
    (row,) = ask(view("diff"), runs).frame.to_dicts()
    assert (row["device"], row["launches_a"], row["launches_b"], row["delta_ms"]) == ("GPU 0", 20, 20, 0)
    for name in ("overview", "cycles", "triage"):
        assert ask(view(name), runs).facts["a"]


def test_a_window_between_two_samples_does_not_say_that_no_readings_were_recorded() -> None:
    clock = samples("gpu_sm_frequency", "GPU 0", (5_000, 1155.0), unit="MHz")
    run = run_of(kernels=[kernel(at, 100 * at, 50) for at in range(80)], metrics=clock)
    said = ask(view("diff"), (run, run), Options(from_ns=0, to_ns=500)).summary
    (cause,) = (one for one in said if one.startswith("Cause"))
    assert cause.endswith("no clock, power or utilisation readings in the window")


def test_runs_whose_launches_have_no_names_are_compared() -> None:
    a, b = (
        one.with_tables(kernels=one.kernels.with_columns(name=pl.lit(None, one.kernels.collect_schema()["name"])))
        for one in (a_run("a", durations(30, 900_000, 3), 1), a_run("b", durations(30, 1_200_000, 4), 2)))
    assert ask(view("diff"), (a, b)).frame["launches_b"].sum() == 90
