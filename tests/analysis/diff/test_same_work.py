"""Runs that do different work: neither is called faster or slower, in any view; names of kernels do not matter."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from gates import gate
from runs import host, kernel, run_of, steps

from warplens.analysis.contract.options import Options
from warplens.analysis.query.ask import ask
from warplens.analysis.table.table import Table
from warplens.analysis.views import view
from warplens.loaders.trace import Trace

MS = 1_000_000
OPERATORS = ("aten::mm", "aten::gelu", "aten::layer_norm", "aten::add")


def training(
    label: str, *, step_ms: int = 10, calls: int = 1, took: int = 100_000, kernels: str = "cudnn", loads: int = 0,
    cycles: int = 8, parts: int = 1, batch: int = 0,
) -> Trace:
    """Steps in which each operator is called so often, launching a kernel or several, beside what launches nothing.
    With a ``batch`` their shapes are recorded."""
    rng = np.random.default_rng(len(label))
    slices, work = [], []
    for step in range(cycles):
        for number in range(calls * len(OPERATORS)):
            at, op = step * step_ms * MS + (number + 1) * 150_000, OPERATORS[number % len(OPERATORS)]
            slices.append(host(op, at, 20_000, **arguments(op, batch)))
            for part in range(parts):
                correlation, begin = 1 + len(work), at + 15_000 + part * took // parts
                slices.append(host("cudaLaunchKernel", at + 1_000 * part, 500, "runtime", correlation=correlation))
                dur = (took + int(rng.integers(-500, 500))) // parts
                work.append(kernel(correlation, begin, dur, f"{kernels}{part}_{op[6:]}", correlation=correlation))
        slices += [host("aten::copy_", step * step_ms * MS + 9_000_000 + 10_000 * one, 1_000) for one in range(loads)]
    return run_of(label, cycles=steps(*[step_ms * MS] * cycles), host=slices, kernels=work)


def arguments(op: str, batch: int) -> dict[str, str]:
    shapes = [[batch, 128], [128, 64]] if op == "aten::mm" else [[batch, 64], [batch, 64]][:1 + (op == "aten::add")]
    return {"shapes": json.dumps(shapes), "types": json.dumps(["float"] * len(shapes))} if batch else {}


def asked(name: str, *runs: Trace) -> Table:
    return ask(view(name), runs)


def same(*runs: Trace) -> dict[str, Any]:
    return dict(asked("diff", *runs).facts["same_work"])


def test_another_device_runs_other_kernels_for_the_same_operators():
    facts = asked("diff", training("a"), training("other", kernels="Cijk_Ailk", parts=5)).facts
    assert (facts["same_work"]["answer"], facts["same_work"]["by"]) == ("yes", "operators")
    assert facts["cycle_time"]["verdict"] == "unchanged"


def test_what_runs_on_the_host_alone_is_not_the_work_of_a_cycle():
    assert same(training("a", loads=40), training("other"))["checks"][0]["likeness"] == 1.0


def test_operators_called_half_as_often_show_nothing_and_no_run_is_faster():
    a, b = training("a", calls=8), training("other", step_ms=5, calls=4, took=350_000)
    diff = asked("diff", a, b)
    assert (diff.facts["same_work"]["answer"], diff.facts["cycle_time"]["verdict"]) == ("unknown", "not judged")
    assert not diff.facts["comparability"]["comparable"]
    spoken = [" ".join(asked(name, a, b).summary) + str(asked(name, a, b).facts.get("findings", ""))
              for name in ("diff", "overview", "cycles")]
    assert all("not judged" in text for text in spoken)
    assert not any(word in text for text in spoken for word in ("faster", "slower"))
    assert {row["verdict"] for row in diff.frame.to_dicts()} == {"not judged"}


def test_less_work_is_no_gain_where_it_is_other_work():
    for other in (training("other", step_ms=5, calls=4), training("other", calls=8, took=350_000)):
        facts = asked("diff", training("a", calls=8), other).facts
        other_work = facts["cycle_time"]["verdict"] == "not judged"
        assert facts["lead"]["lines"]["GPU"] == ("unchecked" if other_work else "look")


def test_the_gate_does_not_pass_what_cannot_be_compared():
    passed, sentence = gate(asked("diff", training("a", calls=8), training("other", step_ms=5, calls=4)))
    assert not passed and sentence.startswith("NOT JUDGED: nothing shows that both do the same work: 50% of")


def test_too_few_steps_to_tell_chance_follow_the_same_rule():
    a, b = training("a", calls=8, cycles=1), training("other", calls=4, cycles=1)
    assert asked("diff", a, b).facts["cycle_time"]["verdict"] == "not judged"
    assert "not judged" in " ".join(asked("overview", a, b).facts["findings"])


def test_a_doubled_batch_is_other_work_though_the_operators_are_the_same():
    facts = asked("diff", training("a", batch=64), training("other", batch=128, took=120_000)).facts
    assert facts["comparability"]["flops_ratio"] == 2.0
    assert facts["same_work"]["sentence"] == "not judged: B does 2.0× the FLOPs per cycle"
    assert facts["cycle_time"]["verdict"] == "not judged"


def test_as_many_flops_in_other_shapes_are_the_same_work():
    facts = asked("diff", training("a", batch=128), training("other", batch=64, calls=2, took=50_000)).facts
    assert (facts["comparability"]["comparable"], facts["comparability"]["flops_ratio"]) == (True, 1.0)
    assert facts["same_work"]["by"] == "flops"


def test_names_alone_are_no_work():
    def one(label: str, took: int) -> Trace:
        work = []
        for step in range(6):
            for at in range(4):
                work.append(kernel(len(work), step * 10 * MS + at * MS, took, f"small{at}"))
            for at in range(3):
                work.append(kernel(len(work), step * 10 * MS + (5 + at) * MS, MS, f"gemm_{label}{at * (label == 'b')}"))
        return run_of(label, cycles=steps(*[10 * MS] * 6), kernels=work)

    assert same(one("a", 10_000), one("b", 30_000))["answer"] == "unknown"


def test_a_larger_batch_launches_the_same_names_with_other_grids():
    def one(grid: str) -> Trace:
        work = [kernel(i, i * MS, 1000 + i, f"k{i % 4}", grid=grid) for i in range(24)]
        return run_of("made", cycles=steps(*[4 * MS] * 6), kernels=work)

    assert same(one("64,1,1"), one("64,1,1"))["by"] == "steps"
    assert same(one("64,1,1"), one("256,1,1"))["answer"] == "unknown"


def test_where_a_launch_does_other_work_its_time_per_flop_stands_beside():
    a, b = training("a", batch=64), training("b", batch=256, took=300_000)
    table = asked("diff", a, b)
    names = [column.name for column in table.columns]
    rows = {row[0]: dict(zip(names, row, strict=True)) for row in table.window(0, 99)}
    row = rows["cudnn0_mm"]
    gflop = 2 * 64 * 128 * 64 / 1e9
    assert abs(row["us_per_gflop_a"] / (100 / gflop) - 1) < 0.01
    assert abs(row["us_per_gflop_b"] / (300 / (4 * gflop)) - 1) < 0.01
    assert row["per_gflop"] == " → ".join(f"{row[f'us_per_gflop_{side}']:,.0f}" for side in "ab")
    section = view("diff").details(row, (a, b), Options())[0]
    assert "0.8×" in dict(section.rows)["per FLOP"]


def test_the_same_work_per_launch_has_no_time_per_flop():
    table = asked("diff", training("a", batch=64), training("b", batch=64, took=300_000, calls=2))
    names = [column.name for column in table.columns]
    assert all(row[names.index("us_per_gflop_a")] is None for row in table.window(0, 99))
