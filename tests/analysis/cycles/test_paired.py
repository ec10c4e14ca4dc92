"""Two runs side by side in views whose columns do not add up."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
from runs import kernel, run_of, steps

from warplens.analysis.contract.column import Column
from warplens.analysis.contract.options import Options, Side
from warplens.analysis.contract.view import Answer
from warplens.analysis.cycles.paired import OneRun, paired
from warplens.analysis.table.sides import names_note, paired_rows
from warplens.loaders.trace import Trace

DEVICE = Column("device", "device", "text", "its device", pairs="key")


def longest(run: Trace, options: Options, side: Side) -> OneRun:
    return OneRun(run.kernels.group_by("device").agg(pl.col("dur_ns").max().alias("longest_ns")).collect())


def both(column: Column, one: Callable[[Trace, Options, Side], OneRun] = longest) -> Answer:
    """Five cycles of 1000 ns with a launch of 100 ns each, and one of 5000 ns outside of them."""
    cycles = steps(*[1000] * 5)
    launches = [kernel(at, 1000 * at + 300, 100) for at in range(5)] + [kernel(5, 6000, 5000)]
    run = run_of(kernels=launches, cycles=cycles)
    return paired((run, run), Options(), (DEVICE, column), one)


def test_what_single_launches_took_is_compared_in_whole_cycles_and_not_called_nothing() -> None:
    answer = both(Column("longest_ns", "longest", "ns", "its longest launch", role="time", pairs="single"))
    row = answer.frame.collect().row(0, named=True)
    assert (row["longest_ns_a"], row["longest_in_cycles_ns_a"]) == (5000, 100)
    assert answer.facts["per"] == "cycle"
    assert answer.cycle_summary[0].startswith("Compared in whole cycles (")


def test_a_view_without_sums_and_single_figures_is_not_said_to_be_per_cycle() -> None:
    answer = both(Column("longest_ns", "longest", "ns", "its longest launch", role="time"))
    assert answer.facts["per"] == "recording" and answer.cycle_summary == ()


def test_rows_meet_although_one_run_has_its_names_as_categories() -> None:
    calls = Column("calls", "calls", "count", "its calls", pairs="sum")
    text = pl.DataFrame({"device": ["GPU 0"], "calls": [2]})
    for a, b in ((text, text.cast({"device": pl.Categorical})), (text.cast({"device": pl.Categorical}), text)):
        row = paired_rows(a, b, (DEVICE, calls)).row(0, named=True)
        assert (row["device"], row["calls_a"], row["calls_b"]) == ("GPU 0", 2, 2)
    unknown = text.with_columns(device=pl.lit(None))
    assert paired_rows(unknown, text, (DEVICE, calls)).height == 2


def test_a_row_of_b_under_another_name_of_a_is_noted_and_another_spelling_is_not() -> None:
    columns = (Column("name", "kernel", "text", "its name", role="name", pairs="key"),
               Column("count", "count", "count", "its launches", role="count", pairs="sum"))
    a, ours, spelt = (pl.DataFrame({"name": [name], "count": [2]}) for name in (
        "ampere_sgemm_32x128_tn", "volta_sgemm_32x128_tn", "ampere_sgemm_32x128_tn.kd"))
    assert paired_rows(a, ours, columns).height == paired_rows(a, spelt, columns).height == 1
    assert names_note(a, ours, columns)[0].startswith("1 name of B stands under its like in A: sgemm 32x128 tn")
    assert names_note(a, spelt, columns) == names_note(a, a, columns) == ()
