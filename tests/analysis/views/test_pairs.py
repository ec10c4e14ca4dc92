"""The reference comparison, number for number."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded import read_profile, run_of
from scipy import stats

from warplens.analysis.contract.options import Options
from warplens.analysis.contract.view import CannotAnswer
from warplens.analysis.core.processes import ProcessPair, process_pairs
from warplens.analysis.diff.reference import NUMBERS, compare, u_test
from warplens.analysis.query.ask import ask
from warplens.analysis.views.pairs import VIEW
from warplens.loaders import schema
from warplens.loaders.trace import Info, Trace


def samples(mu: list[float | None], beta: list[float] | None = None, function: str = "gemm") -> pl.DataFrame:
    size = len(mu)
    return pl.DataFrame({
        "function": [function] * size, "metric": ["clock"] * size, "device": ["GPU 7"] * size,
        "cycle": range(size), "beta": beta or [1.0] * size, "mu": mu,
    }, schema_overrides={"mu": pl.Float64})


def one(a: pl.DataFrame, b: pl.DataFrame) -> dict[str, float]:
    return compare(a, b).row(0, named=True)


def test_the_published_test_vector() -> None:
    row = one(samples([115500.0] * 7 + [141000.0]), samples([21000.0] * 8))
    assert round(row["z_mu"], 2) == -10.84
    assert round(row["z_log_mu"], 2) == -24.52


def test_a_flat_and_equal_pair_has_no_p_and_a_flat_different_one_has_zero() -> None:
    assert one(samples([5.0] * 4), samples([5.0] * 3))["p_mu"] is None
    assert one(samples([5.0] * 4), samples([6.0] * 3))["p_mu"] == 0.0


def test_a_constant_baseline_scores_zero_however_large_the_change() -> None:
    assert one(samples([1.0] * 4, [1.0] * 4), samples([9.0] * 4, [50.0] * 4))["suspicion"] == 0.0


P_VALUES = ("p_beta", "u_beta", "p_mu", "u_mu")


@pytest.mark.parametrize(("a", "b"), [([1.0, 2.0, 3.0], [9.0]), ([5.0] * 4, [5.0]), ([5.0], [6.0]), ([5.0], [5.0])])
def test_with_one_cycle_on_a_side_all_p_values_are_one_flat_and_equal_or_not(a: list[float], b: list[float]) -> None:
    row = one(samples(a), samples(b))
    assert [row[name] for name in P_VALUES] == [1.0] * 4


def test_samples_of_one_cycle_are_one_cycle_however_many_they_are() -> None:
    several = samples([1.0, 2.0, 3.0, 4.0, 5.0]).with_columns(cycle=pl.lit(7, pl.Int64))
    row = one(several, samples([21.0, 22.0, 23.0, 24.0, 25.0]))
    assert [row[name] for name in P_VALUES] == [1.0] * 4


def test_what_one_side_lacks_is_zero_there() -> None:
    row = one(samples([1.0, 2.0, 3.0]), samples([], []))
    assert (row["mu_b"], row["delta_mu"], row["z_mu"], row["u_mu"]) == (0.0, -2.0, -2.0, 1.0)
    row = one(samples([], []), samples([1.0, 2.0, 3.0]))
    assert (row["mu_a"], row["delta_mu"], row["z_mu"], row["u_mu"]) == (0.0, 2.0, 0.0, 1.0)


def test_a_missing_value_counts_as_zero_in_this_table_only() -> None:
    assert one(samples([None, 4.0]), samples([1.0, 1.0]))["mu_a"] == 2.0


@given(
    st.lists(st.tuples(
        st.lists(st.integers(0, 6) | st.floats(-5, 5), min_size=1, max_size=14),
        st.lists(st.integers(0, 6) | st.floats(-5, 5), min_size=1, max_size=14),
    ), min_size=1, max_size=5)
)
def test_u_test_is_scipys(groups: list[tuple[list[float], list[float]]]) -> None:
    group, in_b, value, want = [], [], [], []
    for i, (a, b) in enumerate(groups):
        group += [i] * (len(a) + len(b))
        in_b += [False] * len(a) + [True] * len(b)
        value += [*a, *b]
        if len({*a, *b}) == 1:  # no difference at all, which newer versions of scipy do not give a number for
            want.append(1.0)
        else:
            want.append(float(stats.mannwhitneyu(a, b, alternative="two-sided", method="auto").pvalue))
    got = u_test(np.array(group), np.array(in_b), np.array(value, dtype=float), len(groups))
    np.testing.assert_allclose(got, want, atol=1e-12)


def test_u_test_is_exact_for_one_short_and_one_long_side() -> None:
    draw = np.random.default_rng(3)
    a, b = draw.normal(size=8), draw.normal(1.5, size=500)
    got = u_test(np.zeros(508, dtype=int), np.arange(508) >= 8, np.r_[a, b], 1)
    np.testing.assert_allclose(got, stats.mannwhitneyu(a, b, method="exact").pvalue, rtol=1e-9)


def test_processes_are_strict_where_both_have_them_and_crossed_where_not() -> None:
    assert told(process_pairs([1, 2, 3], [1, 8, 9], Options())) == [
        (1, 1, True), (2, 8, False), (2, 9, False), (3, 8, False), (3, 9, False)
    ]
    assert told(process_pairs([1, 2], [1, 9], Options(pid_a=2, pid_b=9))) == [(2, 9, False)]
    assert told(process_pairs([1, 2], [1, 2], Options(pid_a=2))) == [(2, 2, True)]


def told(pairs: list[ProcessPair]) -> list[tuple[int | None, int | None, bool]]:
    assert all((one.a, one.b) == (one.pid_a, one.pid_b) for one in pairs)  # outside a job a process goes by its pid
    return [(one.a, one.b, one.strict) for one in pairs]


def test_a_process_nobody_has_is_said() -> None:
    with pytest.raises(CannotAnswer, match="Run B has no process 7; it has 1, 9"):
        process_pairs([7], [1, 9], Options(pid_a=7))


def test_rows_without_a_metric_are_not_in_the_table() -> None:
    row = {"cycle": 1, "pid": 1, "function": "f", "metric": "clock", "device": "GPU 0", "beta": 1.0, "mu": 2.0}
    run = run_of([row, row | {"metric": None, "function": "g"}])
    assert ask(VIEW, (run, run)).frame["function"].to_list() == ["f"]


def kernels(durations: dict[str, list[int]]) -> Trace:
    rows = [{"name": name, "dur_ns": d, "kind": "kernel"} for name, ds in durations.items() for d in ds]
    frame = pl.DataFrame(rows).with_row_index("index")
    return Trace(Info("t", "t", "kernel table"), kernels=schema.conform("kernels", frame.lazy()))


def test_two_kernel_tables_compare_launch_by_launch() -> None:
    table = ask(VIEW, (kernels({"f": [10, 30], "g": [60]}), kernels({"f": [10, 30], "g": [160]})))
    got = {row["function"]: row for row in table.frame.to_dicts()}
    assert got["f"]["metric"] == "latency"
    assert (got["f"]["beta_a"], got["g"]["beta_a"], got["g"]["beta_b"]) == (40.0, 60.0, 80.0)
    assert (got["g"]["mu_a"], got["g"]["mu_b"]) == (60.0, 160.0)
    assert "each launch is a sample" in table.notes[0]


def test_aggregates_compare_by_difference_without_statistics() -> None:
    def run(total: int) -> Trace:
        rows = pl.DataFrame([
            {"name": "f", "total_ns": total, "mean_ns": float(total), "count": 1},
            {"name": "g", "total_ns": 100, "mean_ns": 100.0, "count": 1},
        ])
        return Trace(Info("t", "t", "stats"), kernel_stats=schema.conform("kernel_stats", rows.lazy()))

    table = ask(VIEW, (run(100), run(300)))
    row = table.frame.row(0, named=True)
    assert (row["delta_beta"], row["p_beta"], row["u_mu"]) == (25.0, None, None)
    assert "no statistics" in table.notes[0]


def test_nothing_to_compare_is_said() -> None:
    nothing = Trace(Info("t", "t", "empty"))
    with pytest.raises(CannotAnswer, match="neither launches nor sums"):
        ask(VIEW, (nothing, nothing))


def test_every_number_of_the_references_own_output(data: Path) -> None:
    """To 1e-6 of each; p-values of the U test to 3e-4, for the reference's reader rounds."""
    checked = 0
    for case in sorted((data / "latencyprism").iterdir()):
        runs = tuple(run_of(read_profile(case / side / "result_perf_data.csv")) for side in ("normal", "abnormal"))
        pid_a, pid_b = map(int, (case / "PID").read_text().split())
        table = ask(VIEW, runs, Options(pid_a=pid_a, pid_b=pid_b))
        got = {(r["function"], r["metric"], r["device"]): r for r in table.frame.to_dicts()}
        with (case / "expected_comparison.csv").open() as file:
            expected = list(csv.reader(file))[1:]
        assert len(got) == len(expected)
        for line in expected:
            row = got[tuple(line[:3])]
            for name, text in zip(NUMBERS, line[3:], strict=True):
                if text in ("", "nan"):
                    assert row[name] is None, (case.name, line[:3], name)
                    continue
                want = float(text)
                slack = 3e-4 if name.startswith("u_") else 1e-6 * max(1.0, abs(want))
                assert math.isclose(row[name], want, rel_tol=0, abs_tol=slack), (case.name, line[:3], name)
                checked += 1
    assert checked > 10_000
