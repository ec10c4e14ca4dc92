"""All that a profiler measured is in one table by section, its rules first; two runs stand side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from warplens.analysis.contract.options import Options
from warplens.analysis.details.measured import held_back
from warplens.analysis.details.row_details import details
from warplens.analysis.measured.limits import occupancy_of, rooflines_of, stalls_of
from warplens.analysis.measured.rules import recorded_of
from warplens.analysis.measured.values import measure, measured_change
from warplens.analysis.query.ask import ask
from warplens.analysis.query.report import explained, report
from warplens.analysis.table.filters import Filter
from warplens.analysis.views import view
from warplens.loaders import schema
from warplens.loaders.trace import Info, Trace

LIMITED = ("The 8 theoretical warps per scheduler are below the maximum of 12. This kernel's theoretical occupancy "
           "(16.7%) is limited by the number of required registers.")
LATENCY = "This workload exhibits low throughput. Values below 60.0% of peak typically indicate latency issues."


def profiled(
    label: str, launches: list[tuple[str, int | None]], metrics: list[tuple[Any, ...]],
    rules: Sequence[tuple[Any, ...]] = (),
) -> Trace:
    """A run of kernels (name, ns) with metrics (launch, section, metric, value, unit) and rules (launch, section, rule,
    kind, message, speedup, scope)."""
    kernels = pl.DataFrame(
        [(at, name, "kernel", dur) for at, (name, dur) in enumerate(launches)],
        schema={"index": pl.Int64, "name": pl.String, "kind": pl.String, "dur_ns": pl.Int64}, orient="row")
    names = ["index", "section", "metric", "value", "unit"]
    measured = pl.DataFrame(metrics, schema=dict(zip(names, (pl.Int64, pl.String, pl.String, pl.Float64, pl.String),
                                                     strict=True)), orient="row")
    found = pl.DataFrame(rules, schema={one.name: pl.String if one.dtype == schema.NAME else one.dtype
                                        for one in schema.TABLES["launch_rules"]}, orient="row")
    frames = {"kernels": kernels, "launch_metrics": measured, "launch_rules": found}
    return Trace(Info(label, label, "ncu", serialised=True)).with_tables(
        **{name: schema.conform(name, frame.lazy()) for name, frame in frames.items()})


A = profiled("a", [("gemm", 900), ("copy", 5_000), ("gemm", 1_100)], [
    (0, "Occupancy", "Achieved Occupancy", 40.0, "%"), (0, None, "dram__bytes.sum", 2e6, "B"),
    (2, "Occupancy", "Achieved Occupancy", 60.0, "%"), (2, None, "dram__bytes.sum", 2e6, "B"),
    (1, "Occupancy", "Achieved Occupancy", 10.0, "%"),
], [
    (0, "SpeedOfLight", "SOLBottleneck", "OPT", LATENCY, None, None),
    (0, "SchedulerStats", "IssueSlot", "OPT", "Few warps.", 0.95, "local"),
    (2, "Occupancy", "TheoreticalOccupancy", "OPT", LIMITED, 0.456, "global"),
])
B = profiled("b", [("gemm", 500)], [
    (0, "Occupancy", "Achieved Occupancy", 80.0, "%"),
    (0, "Command line profiler metrics", "dram__bytes.sum", 1e6, "B"),
    (0, "Occupancy", "Block Limit SM", 16.0, "block"),
])


def rows(*runs: Trace) -> list[dict[str, Any]]:
    return ask(view("sections"), runs).frame.to_dicts()


def test_kernels_by_time_rules_by_their_estimate_then_sections_in_order() -> None:
    shown = [(row["name"], row["section"], row["metric"], row["value"], row["speedup"]) for row in rows(A)]
    assert shown == [
        ("copy", "Occupancy", "Achieved Occupancy", 10.0, None),
        ("gemm", "Scheduler Statistics", "IssueSlot", None, 0.95),
        ("gemm", "Occupancy", "TheoreticalOccupancy", None, 0.456),
        ("gemm", "GPU Speed Of Light Throughput", "SOLBottleneck", None, None),
        ("gemm", "Occupancy", "Achieved Occupancy", 50.0, None), ("gemm", "DRAM", "dram__bytes.sum", 2e6, None),
    ]
    assert [(row["least"], row["most"], row["launches"]) for row in rows(A)][4] == (40.0, 60.0, 2)


def test_the_estimate_of_the_run_time_is_said_first_and_as_nvidias() -> None:
    recorded = recorded_of(A)
    assert recorded is not None
    assert [(one.rule, one.saves_ns) for one in recorded.found] == [
        ("TheoreticalOccupancy", pytest.approx(0.456 * 1_100)), ("IssueSlot", 0.0), ("SOLBottleneck", None)]
    assert recorded.verdicts == {"latency": pytest.approx(900 / 7_000)}
    assert ask(view("sections"), (A,)).summary == (
        "2 metrics in 2 sections of 2 kernels",
        "NVIDIA's verdict on the bottleneck, by kernel time: 13% latency.",
        "NVIDIA's rule on Occupancy of gemm, est. speed-up 45.6% (global): This kernel's theoretical occupancy (16.7%) "
        "is limited by the number of required registers.",
    )


def test_triage_says_what_the_file_says_of_itself() -> None:
    table = report("triage", (A,), Options())
    found = [row for row in table.frame.to_dicts() if row["severity"] == "hint"]
    assert found[0]["rule"] == "recorded rules" and "45.6% (global)" in found[0]["finding"]
    assert (found[0]["look"], found[0]["filter"]) == ("sections", "what=rule")
    said = " ".join(row["finding"] for row in table.frame.to_dicts())
    assert "verdict on the bottleneck" in said and "Bottlenecks by kernel time" not in said
    assert "occupancy" not in str(table.facts["unchecked"]).lower()
    assert explained((A,)) == ("sections",) and explained((B,)) == ()


def test_two_runs_are_side_by_side_and_what_one_lacks_stays() -> None:
    shown = {(row["name"], row["section"], row["metric"]): row for row in rows(A, B)}
    both = shown["gemm", "Occupancy", "Achieved Occupancy"]
    assert (both["value_a"], both["value_b"], both["change"], both["values"]) == (50.0, 80.0, 0.6, "50% → 80%")
    assert shown["gemm", "DRAM", "dram__bytes.sum"]["change"] == -0.5  # printed under another section in B
    only = shown["gemm", "Occupancy", "Block Limit SM"]
    assert (only["value_a"], only["value_b"], only["change"], only["values"]) == (None, 16.0, None, "– → 16 block")
    gone = shown["copy", "Occupancy", "Achieved Occupancy"]
    assert (gone["launches_a"], gone["launches_b"], gone["values"]) == (1, 0, "10% → –")
    rule = shown["gemm", "Occupancy", "TheoreticalOccupancy"]
    assert rule["speedup_b"] is None and rule["values"] == "est. 45.6% → –", "the estimate is not the occupancy"
    assert [row["section"] for row in rows(A, B) if row["name"] == "gemm" and row["what"] == "metric"] == [
        "Occupancy", "Occupancy", "DRAM"]


def test_a_filter_leaves_the_rules() -> None:
    table = report("sections", (A,), Options(), condition=Filter("what=rule speedup>50%"))
    assert [table.window(at, at + 1)[0][2] for at in range(len(table))] == ["IssueSlot"]


def test_the_details_of_a_rule_have_its_own_words_and_the_limiter() -> None:
    run = profiled("c", [("gemm", 10)], [
        (0, "Occupancy", "Block Limit Registers", 2.0, "block"), (0, "Occupancy", "Block Limit Warps", 12.0, "block"),
    ], [(0, "Occupancy", "TheoreticalOccupancy", "OPT", LIMITED, 0.8, "global")])
    sections = {one.title: one.rows for one in details(
        view("sections"), ask(view("sections"), (run,)), 0, (run,), Options()).sections}
    assert sections["What the rule says"] == (("", LIMITED),)
    assert sections["Occupancy limiter"][0] == ("limited by", "registers")


def test_the_limiter_is_what_allows_fewest_blocks() -> None:
    limits = occupancy_of({"Block Limit SM": 16.0, "Block Limit Shared Mem": 16.0, "Block Limit Registers": 128.0,
                           "Theoretical Occupancy": 33.33})
    assert limits is not None and limits.limiters == ("shared memory", "block slots")
    assert occupancy_of({"Theoretical Occupancy": 33.33}) is None


def test_stalls_are_shares_of_all_and_issuing_is_none() -> None:
    name = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
    metrics = {name.format("long_scoreboard"): 6.0, name.format("wait"): 2.0, name.format("selected"): 1.0,
               "smsp__pcsamp_warps_issue_stalled_wait": 99.0}
    assert stalls_of(metrics) == [("long scoreboard", 0.75), ("wait", 0.25)]
    assert [one.title for one in held_back(metrics)] == ["Stall reasons, share of all"]


def test_the_roofline_follows_from_counted_instructions() -> None:
    op = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"
    (found,) = rooflines_of({op.format("fadd"): 1e6, op.format("fmul"): 0.0, op.format("ffma"): 2e6,
                             "gpu__time_duration.sum": 1_000.0, "dram__bytes.sum.per_second": 1e12})
    assert (found.precision, found.flops, found.bytes) == ("fp32", pytest.approx(5e12), 1e12)


def test_the_roofline_of_a_real_details_page(data: Path) -> None:
    from warplens.loaders.ingest.opening import open_run

    (folder,) = (data / "traces/ncu_csv/llm-perf-opt/ncu-v2").iterdir()
    (run,) = open_run(str(folder), use_cache=False, compiled=False)
    sections = {one.title: dict(one.rows) for one in details(
        view("sections"), ask(view("sections"), (run,)), 0, (run,), Options()).sections}
    # (158.1 + 1.97 FLOP/cycle) x 2.15 GHz over 345.14 GB/s; 43,520 x 2.15 GHz; 128 B/cycle x 13.72 GHz, from the file
    assert sections["Roofline, fp32"] == {
        "achieved": "344.2 GFLOP/s", "of peak": "0.4%", "intensity": "0.9973 FLOP/B", "DRAM of peak": "19.7%"}


@pytest.mark.parametrize(("value", "unit", "shown"), [
    (13.72e9, "Hz", "13.72 GHz"), (345.14e9, "B/s", "345.1 GB/s"), (6_750.0, "ns", "6.75 µs"), (19.66, "%", "19.66%"),
    (13_485.0, "cycle", "13,485 cycle"), (0.12, None, "0.12"), (0.0, "B", "0 B"), (1_020.0, "B/block", "1.02 kB/block"),
])  # fmt: skip
def test_values_are_shown_with_their_unit(value: float, unit: str | None, shown: str) -> None:
    assert measure(value, unit) == shown


def test_without_rules_low_occupancy_is_told_by_the_recorded_limits() -> None:
    run = profiled("d", [("k", 900), ("other", 100)], [
        (0, "Occupancy", "Block Limit Registers", 2.0, "block"), (0, "Occupancy", "Block Limit Warps", 12.0, "block"),
        (0, "Occupancy", "Theoretical Occupancy", 16.7, "%"),
    ])
    run = run.with_tables(kernels=run.kernels.with_columns(occupancy=pl.lit(0.11, pl.Float32)))
    (found,) = (one for one in report("triage", (run,), Options()).frame.to_dicts() if one["rule"] == "occupancy")
    assert found["finding"] == (
        "Low occupancy: in 90% of the kernel time 11% of the warps are in use, limited by registers, most in k.")


def test_a_unit_that_both_values_have_is_said_once() -> None:
    assert measured_change(13_485.0, 9_000.0, "cycle", (None, None)) == "13,485 → 9,000 cycle"
    assert measured_change(900.0, 5_200.0, "ns", (None, None)) == "900 ns → 5.20 µs"
    assert measured_change(50.0, 80.0, "%", (None, None)) == "50% → 80%"
    assert measured_change(None, 1.0, "B", ("n/a", None)) == "n/a → 1 B"
    assert measured_change(None, None, "B", (None, None)) is None
