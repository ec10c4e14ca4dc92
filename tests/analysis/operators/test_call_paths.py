"""The tree of operators: who calls whom, with times that add up, and rows that open and close."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from runs import host, kernel, run_of, steps

from warplens.analysis.contract.options import Options
from warplens.analysis.contract.view import CannotAnswer
from warplens.analysis.operators.call_paths import call_paths, kernels_below
from warplens.analysis.operators.tree import operators_of
from warplens.analysis.query.ask import ask
from warplens.analysis.table.filters import Filter
from warplens.analysis.table.rows import Rows
from warplens.analysis.table.table import Table
from warplens.analysis.table.tree import CLOSED, DEEPEST, OPEN, PATH, folded, in_order, opened_at_first, row_above
from warplens.analysis.views import view
from warplens.loaders.ingest.opening import open_run
from warplens.loaders.trace import Trace

TREE = view("ops").other
assert TREE is not None


def model(scale: int = 1) -> Trace:
    """A module of two layers, each with an operator that calls another one and launches; one backward; one orphan."""
    slices: list[dict[str, Any]] = [host("nn.Module: Net_0", 0, 1_000, "python")]
    kernels: list[dict[str, Any]] = []
    for at in range(2):
        begin, correlation = 100 + 400 * at, at + 1
        slices += [
            host(f"nn.Module: Linear_{at}", begin, 300, "python"), host("aten::linear", begin + 10, 200),
            host("aten::addmm", begin + 20, 100, sequence=at + 1),
            host("cudaLaunchKernel", begin + 30, 10, "runtime", correlation=correlation),
        ]
        kernels.append(kernel(at, begin + 60, 50 * scale, "gemm", correlation=correlation))
    slices += [
        host("AddmmBackward0", 2_000, 80, tid=2, sequence=2, forward_tid=1),
        host("aten::mm", 2_010, 40, tid=2), host("cudaLaunchKernel", 2_020, 5, "runtime", tid=2, correlation=3),
    ]
    kernels += [kernel(2, 2_030, 70, "gemm_back", correlation=3), kernel(3, 3_000, 9, "orphan")]
    return run_of(host=slices, kernels=kernels)


def rows(run: Trace) -> dict[str, dict[str, Any]]:
    """The nodes by their path as a person writes it."""
    tree = call_paths(run)
    assert tree is not None
    return {row["path"].replace(PATH, "/"): row for row in tree.to_dicts()}


def test_a_kernel_stands_under_its_operator_and_that_under_its_module() -> None:
    found = rows(model())
    linear = found["Net_0/Linear_0/aten::linear"]
    assert (linear["kind"], linear["count"], linear["device_self_ns"], linear["device_total_ns"]) == (
        "operator", 1, 0, 50)
    assert (linear["host_self_ns"], linear["host_total_ns"]) == (100, 200)
    assert found["Net_0/Linear_0/aten::linear/aten::addmm"]["device_self_ns"] == 50
    leaf = found["Net_0/Linear_0/aten::linear/aten::addmm/kernel:gemm"]
    assert (leaf["kind"], leaf["count"], leaf["device_total_ns"], leaf["host_total_ns"]) == ("kernel", 1, 50, None)
    assert found["Net_0"]["kind"] == "module" and found["Net_0"]["device_total_ns"] == 50 + 50 + 70


def test_a_backward_operator_stands_under_the_module_of_its_forward_one() -> None:
    found = rows(model())
    assert found["Net_0/Linear_1/AddmmBackward0/aten::mm"]["device_self_ns"] == 70
    assert found["Net_0/Linear_1"]["host_self_ns"] == 100, "what ran on another thread is not taken off"
    assert found["Net_0/Linear_1"]["host_total_ns"] == 300 + 80


def test_a_launch_nobody_recorded_stands_at_the_root() -> None:
    assert rows(model())["kernel:orphan"]["parent"] is None


def test_a_module_tells_the_kernels_anywhere_below_it() -> None:
    tree = call_paths(model())
    assert tree is not None
    assert kernels_below(tree, "Net_0").rows() == [("gemm", 2, 100), ("gemm_back", 1, 70)]
    assert kernels_below(tree, f"Net_0{PATH}Linear_0").rows() == [("gemm", 1, 50)]


def test_own_times_add_up_to_all_there_is() -> None:
    run = model()
    tree = call_paths(run)
    assert tree is not None
    assert tree["device_self_ns"].sum() == run.kernels.select(pl.col("dur_ns").sum()).collect().item()
    assert tree["host_self_ns"].sum() == 1_000 + 80
    roots = tree.filter(pl.col("parent").is_null())
    assert roots["device_total_ns"].sum() == tree["device_self_ns"].sum()


def test_an_only_child_of_its_name_is_the_same_call_as_in_the_flat_list() -> None:
    run = run_of(host=[
        host("aten::copy_", 0, 100), host("aten::copy_", 10, 50), host("aten::sum", 200, 100),
        host("aten::sum", 210, 20), host("aten::sum", 240, 20),
    ], kernels=[])
    found, flat = rows(run), operators_of(run)
    assert flat is not None
    assert found["aten::copy_"]["count"] == 1 and found["aten::copy_"]["host_self_ns"] == 100
    assert found["aten::sum/aten::sum"]["count"] == 2
    for name, calls in flat.frame.select(pl.col("name").cast(pl.String), "calls").rows():
        assert sum(row["count"] for row in found.values() if row["name"] == name) == calls


def test_a_path_is_one_row_whether_or_not_a_call_on_the_way_has_an_only_child_of_its_name() -> None:
    """It was two, and of two runs four, each with the time of both."""
    run = run_of(host=[
        host("aten::sum", 0, 100), host("aten::to", 10, 50),
        host("aten::sum", 200, 100), host("aten::sum", 210, 80), host("aten::to", 220, 20),
    ], kernels=[])
    tree = call_paths(run)
    assert tree is not None
    assert sorted(tree.select("path", "count").rows()) == [("aten::sum", 2), (f"aten::sum{PATH}aten::to", 2)]
    both = ask(TREE, (run, run), Options())
    assert both.frame["host_self_ns_a"].to_list() == both.frame["host_self_ns_b"].to_list() == [130, 70]


def test_kernels_of_cycles_on_the_device_are_under_their_operator_though_it_ran_a_cycle_earlier() -> None:
    """The host is a cycle ahead; what A's first cycle ran was launched before the recording, B has all launches."""
    def recorded(label: str, first: int) -> Trace:
        def call(at: int) -> dict[str, Any]:
            return host("cudaLaunchKernel", 1000 * at + 10, 5, "runtime", correlation=at + 1)

        return run_of(
            label, kernels=[kernel(at, 1000 * at + 1000, 300, correlation=at + 1) for at in range(8)],
            host=[one for at in range(first, 8) for one in (host("aten::mm", 1000 * at, 60), call(at))])

    table = ask(TREE, (recorded("a", 1), recorded("b", 0)), Options(cycle_anchor="gemm"))
    assert [(row["name"], row["device_total_per_cycle_ns_a"], row["device_total_per_cycle_ns_b"])
            for row in table.frame.to_dicts()] == [("aten::mm", 300, 300), ("gemm", 300, 300), ("gemm", 0, 0)]
    assert [row["count_per_cycle_a"] for row in table.frame.to_dicts() if row["name"] == "gemm"] == [1, 0]
    assert any(note.startswith("A: 1 whole cycle left out") for note in table.notes)


@pytest.mark.parametrize("depth", [1, 399, 400, 401, 1_500])
def test_whatever_is_called_however_deep_own_times_add_up(depth: int) -> None:
    tree = call_paths(run_of(host=[host(f"aten::o{at % 9}", at, 10_000 - 2 * at) for at in range(depth)]))
    assert tree is not None
    assert tree["host_self_ns"].sum() == 10_000
    assert tree["depth"].max() == min(depth, DEEPEST) - 1


def test_without_calls_there_is_no_tree() -> None:
    assert call_paths(run_of(kernels=[kernel(0, 0, 5)])) is None
    with pytest.raises(CannotAnswer, match="no modules and no operators"):
        ask(TREE, (run_of(kernels=[kernel(0, 0, 5)]),), Options())
    sums = run_of(operators=[{"name": "aten::mm", "calls": 3, "device_self_ns": 5}])
    with pytest.raises(CannotAnswer, match="sums per operator, not calls"):
        ask(TREE, (sums,), Options())


parents = st.lists(st.integers(min_value=-1, max_value=30), min_size=1, max_size=40)


@given(parents, st.randoms())
def test_every_row_comes_after_the_one_above_it_and_counts_those_below(above: list[int], random: Any) -> None:
    above = [min(one, at - 1) for at, one in enumerate(above)]
    depth: list[int] = []
    for one in above:
        depth.append(0 if one < 0 else depth[one] + 1)
    nodes = [{"path": str(at), "name": "x", "parent": None if one < 0 else str(one), "depth": deep,
              "size": random.randrange(5)} for at, (one, deep) in enumerate(zip(above, depth, strict=True))]
    random.shuffle(nodes)
    made = in_order(pl.DataFrame(nodes, schema_overrides={"parent": pl.String}), ("size",))
    assert sorted(made["path"].to_list(), key=int) == [str(at) for at in range(len(nodes))]
    for at, row in enumerate(made.to_dicts()):
        below = made[at + 1 : at + 1 + row["under"]]
        assert (below["depth"] > row["depth"]).all()
        rest = made[at + 1 + row["under"] :]
        assert rest.is_empty() or rest["depth"][0] <= row["depth"]


def shown(table: Table) -> list[str]:
    return [str(row[0]) for row in table.window(0, len(table), ["tree"])]


def test_rows_open_and_close_and_keep_their_identity() -> None:
    whole = ask(TREE, (model(),), Options())
    assert shown(whole)[:3] == ["Net_0", "  Linear_1", "    AddmmBackward0"]
    closed = folded(whole, ())
    assert shown(closed) == [f"{CLOSED}Net_0", "  orphan"] and closed.same_rows(whole)
    opened = folded(whole, {0})
    assert shown(opened) == [f"{OPEN}Net_0", f"  {CLOSED}Linear_1", f"  {CLOSED}Linear_0", "  orphan"]
    assert closed.row_id(1) == opened.row_id(3) == len(whole) - 1
    assert row_above(whole, opened.row_id(2)) == 0 and row_above(whole, 0) is None


def test_what_takes_most_is_open_at_first() -> None:
    whole = ask(TREE, (model(),), Options())
    table = folded(whole, opened_at_first(whole))
    assert len(table) == len(whole), "a small tree is open"


def test_a_filter_shows_every_row_that_passes_wherever_it_stands() -> None:
    table = ask(TREE, (model(),), Options()).filtered(Filter("gemm"))
    assert [text.strip() for text in shown(table)] == ["gemm_back", "gemm", "gemm"]


def test_two_runs_are_one_tree_with_the_largest_change_first() -> None:
    table = ask(TREE, (model(), model(scale=3)), Options())
    assert shown(table)[0] == "Net_0"
    row = dict(zip([column.name for column in table.columns], table.window(0, 1)[0], strict=True))
    assert (row["device_total_ns_a"], row["device_total_ns_b"], row["device_total_ns_delta"]) == (170, 370, 200)
    assert [text.strip() for text in shown(table)][1] == "Linear_0", "whose kernels grew, as those of Linear_1 did"


def test_of_two_runs_the_kernels_of_a_tree_take_per_cycle_what_they_take_in_the_kernels_view(samples: Path) -> None:
    runs = tuple(open_run(str(samples / "demo" / f"{name}.json.gz"), use_cache=False)[0]
                 for name in ("normal", "abnormal"))
    tree, kernels = (ask(one, runs).frame for one in (TREE, view("kernels")))
    leaves = tree.filter(~pl.col("kind").is_in(["module", "operator"]))
    for total, of_tree in (("per_cycle_ns", "device_total_per_cycle_ns"), ("count_per_cycle", "count_per_cycle")):
        for side in "ab":
            assert leaves[f"{of_tree}_{side}"].sum() == pytest.approx(kernels[f"{total}_{side}"].sum(), rel=1e-5) != 0


def test_what_ran_outside_the_cycles_is_no_row_where_cycles_are_compared() -> None:
    def run(at: int) -> Trace:
        ops = [host("outer", 100, 500), host("inner", 200, 100), host("late", at, 90), host("after", at + 10, 50)]
        calls = [host("cudaLaunchKernel", start, 10, "runtime", correlation=start) for start in (210, at + 20)]
        kernels = [kernel(0, 240, 50, correlation=210), kernel(1, at + 60, 70, "late_kernel", correlation=at + 20)]
        return run_of(host=sorted(ops + calls, key=lambda one: one["start_ns"]), kernels=kernels, cycles=steps(1000))

    whole = ask(TREE, (run(1500), run(1600)))
    listed, names = whole.without_empty_rows(), ["outer", "inner", "gemm"]
    assert [text.strip() for text in shown(listed)] == names and listed.total_rows == 3
    assert listed.frame["under"].to_list() == [2, 1, 0] and shown(folded(listed, ())) == [f"{CLOSED}outer"]
    assert whole.summary[-1] == (
        "2 operators by their path · 1 kernel under them · 3 more paths only outside whole cycles")
    assert len(whole.compared("recording").without_empty_rows()) == len(whole) == 6
    assert whole.compared("recording").summary[-1] == "4 operators by their path · 2 kernels under them"
    sums = pl.selectors.contains("per_cycle")
    bare = whole.frame.with_columns(pl.when(pl.col("name") != "gemm").then(0).otherwise(sums).name.keep())
    kept = replace(whole, rows=Rows(bare)).without_empty_rows()
    assert [text.strip() for text in shown(kept)] == names, "a caller of something stays"
