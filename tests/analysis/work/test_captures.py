"""Graph replays get their operators from the capture recorded beside them, and from no other."""

from __future__ import annotations

from typing import Any

import polars as pl
from msgspec.structs import replace
from runs import host, kernel, run_of
from test_roofline import BIG, H100, HALF, op, rows

from warplens.analysis.contract.options import Options
from warplens.analysis.operators.call_paths import call_paths
from warplens.analysis.query.ask import ask
from warplens.analysis.table.tree import PATH
from warplens.analysis.views import view
from warplens.loaders.errors import Unreadable
from warplens.loaders.trace import Trace

SMALL = [[64, 4096], [4096, 4096]]


def launch(start: int, name: str) -> dict[str, Any]:
    return host("hipLaunchKernel", start, 5, "runtime", kernel=name)


def captured(*shapes: Any, names: tuple[str, ...] = ("gemm", "copy")) -> Trace:
    """A capture of one graph after the other, each of a product and a copy."""
    hosts = [host("model.py(7): forward", 0, 10_000, "python"), launch(1, "fill")]
    for at, one in enumerate(shapes):
        start = 100 * (at + 1)
        hosts += [op("aten::mm", start, 40, 2 * at + 1, one, [HALF, HALF]), launch(start + 10, names[0]),
                  op("aten::copy_", start + 50, 40, 2 * at + 2, [[8], [8]], [HALF, HALF]), launch(start + 60, names[1])]
    return run_of("capture", host=hosts)


def replays(*names: str, captures: tuple[Any, ...], times: int = 2) -> Trace:
    """A run that replays a graph of these kernels."""
    hosts = [host("hipGraphLaunch", 10_000 * at, 50, "runtime", correlation=at + 1) for at in range(times)]
    kernels = [kernel(at * len(names) + place, 10_000 * at + 1_000 * place + 100, 900, name, correlation=at + 1)
               for at in range(times) for place, name in enumerate(names)]
    made = run_of(host=hosts, kernels=kernels)
    return replace(made, info=replace(made.info, devices=(H100,)), captures=lambda: captures)


def launches(run: Trace) -> tuple[list[str | None], dict[str, Any]]:
    table = ask(view("launches"), (run,), Options())
    at = [column.name for column in table.columns].index("op")
    return [row[at] for row in table.window(0, 99)], table.facts["capture"]


def test_a_graph_whose_kernels_are_a_stretch_of_the_capture_has_its_operators() -> None:
    run = replays("gemm", "copy", captures=(captured(BIG),))
    operators, facts = launches(run)
    assert operators == ["aten::mm", "aten::copy_"] * 2
    assert facts == {"file": "capture.json", "matched": 4, "of": 4, "refused": None}
    notes = ask(view("launches"), (run,), Options()).notes
    assert notes == ("Capture capture.json: 4 of 4 graph kernels joined (2 launches of 2).",)
    table = ask(view("launches"), (run,), Options())
    assert table.window(0, 1)[0][[column.name for column in table.columns].index("frame")] == "model.py(7): forward"


def test_a_replay_counts_one_call_of_each_operator() -> None:
    run = replays("gemm", "copy", captures=(captured(BIG),))
    found = {row["op"]: (row["calls"], row["flops"]) for row in rows(run)}
    assert found == {"aten::mm": (2, 2 * 4096**3), "aten::copy_": (2, 0)}


def test_names_that_were_rewritten_are_the_same_kernels() -> None:
    run = replays("_Z4gemmv.kd", "copy [clone .kd]", captures=(captured(BIG, names=("_Z4gemmv", "copy")),))
    assert launches(run)[1]["matched"] == 4


def test_a_capture_of_something_else_is_refused_and_said() -> None:
    run = replays("gemm", "relu", captures=(captured(BIG),))
    operators, facts = launches(run)
    assert operators == [None] * 4 and facts["matched"] == 0
    assert facts["refused"] == "no run of its 3 kernels is the graph's 2"
    assert any("capture.json is refused" in note for note in ask(view("launches"), (run,), Options()).notes)
    unread = launches(replays("gemm", captures=(Unreadable("capture.json", "is empty"),)))[1]
    assert unread == {"file": "capture.json", "matched": 0, "of": 2, "refused": "it cannot be read: it is empty"}


def test_where_several_captured_graphs_fit_operators_are_known_and_work_is_not() -> None:
    run = replays("gemm", "copy", captures=(captured(BIG, SMALL),))
    assert launches(run)[0] == ["aten::mm", "aten::copy_"] * 2
    assert rows(run) == []
    both = rows(replays("gemm", "copy", captures=(captured(BIG, BIG),)))
    assert sorted(row["flops"] for row in both) == [0, 2 * 4096**3]


def test_where_places_with_other_operators_fit_the_launch_is_refused_and_counted() -> None:
    other = run_of("other", host=[op("aten::addmm", 0, 40, 1, BIG, [HALF, HALF]), launch(10, "gemm"),
                                  op("aten::copy_", 50, 40, 2, [[8], [8]], [HALF, HALF]), launch(60, "copy")])
    for captures in ((captured(BIG), other), (other, captured(BIG))):
        operators, facts = launches(replays("gemm", "copy", captures=captures))
        assert operators == [None] * 4
        assert [one["file"] for one in facts] == [one.info.source for one in captures]
        assert {one["refused"] for one in facts} == {
            "4 kernels of 2 graph launches fit several places whose operators differ"}
    run = replays("gemm", "copy", captures=(captured(BIG), captured(BIG)))
    operators, facts = launches(run)
    assert operators == ["aten::mm", "aten::copy_"] * 2 and [one["matched"] for one in facts] == [4, 4]


def test_kernels_in_another_order_are_another_graph() -> None:
    assert launches(replays("copy", "fill", "gemm", captures=(captured(BIG),)))[0] == [None] * 6


def test_of_many_captures_those_that_did_not_run_are_in_the_facts_only() -> None:
    run = replays("gemm", "copy", captures=(captured(BIG, names=("other", "copy")), captured(BIG)))
    operators, facts = launches(run)
    assert operators == ["aten::mm", "aten::copy_"] * 2
    assert [one["matched"] for one in facts] == [0, 4]
    assert [one["refused"] for one in facts] == ["no run of its 3 kernels is the graph's 2", None]
    assert ask(view("launches"), (run,), Options()).notes == (
        "Capture capture.json: 4 of 4 graph kernels joined (2 launches of 2).",)


def test_a_capture_is_reported_where_nothing_was_replayed() -> None:
    run = run_of(host=[host("cudaLaunchKernel", 0, 5, "runtime", correlation=1)],
                 kernels=[kernel(0, 10, 5, correlation=1)])
    facts = launches(replace(run, captures=lambda: (captured(BIG),)))[1]
    assert facts == {"file": "capture.json", "matched": 0, "of": 0,
                     "refused": "the recording has no launch of a graph"}


def test_a_captured_kernel_has_the_operator_around_its_launch_whatever_the_external_ids_say() -> None:
    capture = run_of("capture", host=[
        op("aten::mm", 0, 40, 7, BIG, [HALF, HALF]), launch(10, "gemm") | {"external_id": 8},
        op("aten::copy_", 50, 40, 8, [[8], [8]], [HALF, HALF]), launch(60, "copy") | {"external_id": 7}])
    assert launches(replays("gemm", "copy", captures=(capture,)))[0] == ["aten::mm", "aten::copy_"] * 2


def test_a_launch_that_names_no_kernel_is_the_one_that_ran() -> None:
    calls = [op("aten::mm", 0, 40, 1, BIG, [HALF, HALF]), host("cudaLaunchKernel", 10, 5, "runtime", correlation=1),
             op("aten::copy_", 50, 40, 2, [[8], [8]], [HALF, HALF]),
             host("cudaLaunchKernel", 60, 5, "runtime", correlation=2)]
    capture = run_of("capture", host=calls, kernels=[
        kernel(0, 100, 5, "gemm", correlation=1), kernel(1, 110, 5, "copy", correlation=2)])
    assert launches(replays("gemm", "copy", captures=(capture,)))[0] == ["aten::mm", "aten::copy_"] * 2


def test_graph_launches_without_correlation_ids_are_told_apart_by_their_calls() -> None:
    hosts = [host("cudaGraphLaunch", 0, 50, "runtime"), host("cudaGraphLaunch", 10_000, 50, "runtime")]
    rows = [kernel(at, 100 + 5_000 * at, 900, name, graph=1, flow=at // 2)
            for at, name in enumerate(("gemm", "copy") * 2)]
    run = replace(run_of(host=hosts, kernels=rows), captures=lambda: (captured(BIG),))
    assert launches(run)[0] == ["aten::mm", "aten::copy_"] * 2


def test_the_ops_view_has_the_operators_of_replays_and_no_host_time_that_nobody_spent() -> None:
    run = replays("gemm", "copy", captures=(captured(BIG),), times=3)
    table = ask(view("ops"), (run,), Options())
    names = [column.name for column in table.columns]
    found = {row[0]: dict(zip(names, row, strict=True)) for row in table.window(0, 9)}
    assert {name: (one["calls"], one["device_self_ns"], one["host_self_ns"]) for name, one in found.items()} == {
        "aten::mm": (3, 2_700, None), "aten::copy_": (3, 2_700, None)}
    assert table.facts["unclaimed_device_ns"] == 0


def test_the_tree_has_replayed_kernels_where_the_capture_launched_them() -> None:
    capture = run_of("capture", host=[
        host("nn.Module: Net_0", 0, 900, "python"), op("aten::linear", 100, 100, 1, BIG, [HALF, HALF]),
        op("aten::mm", 110, 80, 2, BIG, [HALF, HALF]), launch(120, "gemm"), op("aten::view", 300, 50, 3, [[8]], [HALF]),
        op("aten::copy_", 400, 90, 4, [[8], [8]], [HALF, HALF]),
        op("aten::copy_", 410, 60, 5, [[8], [8]], [HALF, HALF]), launch(420, "copy"), launch(1_000, "fill")])
    run = replays("gemm", "copy", "fill", captures=(capture,), times=3)
    tree = call_paths(run)
    assert tree is not None
    found = {row["path"].replace(PATH, "/"): row for row in tree.to_dicts()}
    assert {path: (row["count"], row["device_total_ns"]) for path, row in found.items()} == {
        "Net_0": (3, 5_400), "Net_0/aten::linear": (3, 2_700), "Net_0/aten::linear/aten::mm": (3, 2_700),
        "Net_0/aten::linear/aten::mm/kernel:gemm": (3, 2_700), "Net_0/aten::copy_": (3, 2_700),
        "Net_0/aten::copy_/kernel:copy": (3, 2_700), "kernel:fill": (3, 2_700)}
    assert {row["host_self_ns"] for row in found.values()} == {None}
    assert tree["device_self_ns"].sum() == 9 * 900


def test_a_path_of_the_run_and_of_its_capture_is_one_row() -> None:
    run = replays("gemm", "copy", captures=(captured(BIG),))
    hosts = [*run.host.collect().to_dicts(), op("aten::mm", 90_000, 40, 1, BIG, [HALF, HALF]),
             host("cudaLaunchKernel", 90_010, 5, "runtime", correlation=99)]
    kernels = [*run.kernels.collect().to_dicts(), kernel(4, 90_100, 50, "gemm", correlation=99)]
    tree = call_paths(replace(run_of(host=hosts, kernels=kernels), info=run.info, captures=run.captures))
    assert tree is not None
    product = tree.row(by_predicate=pl.col("path") == "aten::mm", named=True)
    assert (product["count"], product["device_self_ns"], product["host_self_ns"]) == (3, 1_850, 40)
    assert tree.filter(pl.col("name") == "gemm")["count"].to_list() == [3]
