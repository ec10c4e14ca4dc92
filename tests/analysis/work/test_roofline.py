"""The roofline of a run: which operator work belongs to, what is lost above the least, and what is not known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from msgspec.structs import replace
from runs import host, kernel, run_of, samples, steps

from warplens.analysis.contract.options import Options
from warplens.analysis.contract.view import CannotAnswer
from warplens.analysis.core.text import few_shapes
from warplens.analysis.details.row_details import details
from warplens.analysis.kernels import peak_shares
from warplens.analysis.query.ask import ask
from warplens.analysis.table.export import kernel_table
from warplens.analysis.table.export.text import render
from warplens.analysis.views import answerable, view
from warplens.analysis.work.roofline import least_of, roofline_of
from warplens.loaders.ingest.opening import open_run
from warplens.loaders.trace import Device, Trace

H100 = Device("GPU 0", "NVIDIA H100 80GB HBM3", {})
HALF = "c10::BFloat16"


def op(name: str, start: int, dur: int, external_id: int, shapes: Any = None, types: Any = None, inputs: Any = None,
       **more: Any) -> dict[str, Any]:
    recorded = {key: None if value is None else json.dumps(value)
                for key, value in (("shapes", shapes), ("types", types), ("inputs", inputs))}
    return host(name, start, dur, external_id=external_id, **recorded, **more)


def call(start: int, correlation: int) -> dict[str, Any]:
    return host("cudaLaunchKernel", start, 5, "runtime", correlation=correlation)


def run(hosts: list[dict[str, Any]], kernels: list[dict[str, Any]], device: Device = H100, **tables: Any) -> Trace:
    made = run_of(host=hosts, kernels=kernels, **tables)
    return replace(made, info=replace(made.info, devices=(device,)))


def rows(made: Trace) -> list[dict[str, Any]]:
    table = ask(view("roofline"), (made,), Options())
    return [dict(zip([column.name for column in table.columns], row, strict=True)) for row in table.window(0, 99)]


BIG = [[4096, 4096], [4096, 4096]]
LINEAR = [
    op("aten::linear", 0, 100, 1, BIG, [HALF, HALF]),
    op("aten::matmul", 10, 80, 2, BIG, [HALF, HALF]),
    op("aten::mm", 20, 50, 3, BIG, [HALF, HALF]), call(30, 1), call(40, 2),
]
KERNELS = [kernel(0, 100, 900_000, correlation=1), kernel(1, 1_000_000, 100_000, correlation=2, kind="memset")]


def test_work_belongs_to_the_outermost_operator_that_is_no_composite_and_all_it_launched_is_its_time() -> None:
    (row,) = rows(run(LINEAR, KERNELS))
    assert (row["op"], row["calls"], row["device_ns"], row["dtype"]) == ("aten::mm", 1, 1_000_000, "bf16")
    assert row["flops"] == 2 * 4096**3 and row["bytes"] == 3 * 2 * 4096**2
    least = 2 * 4096**3 / 989.4e12 * 1e9
    assert row["least_ns"] == round(least) and row["lost_ns"] == 1_000_000 - round(least)
    assert row["compute_of_peak"] == pytest.approx(least / 1e6) and row["bound"] == "compute"


def test_a_composite_has_work_where_nothing_below_it_has() -> None:
    (row,) = rows(run([LINEAR[0], call(30, 1)], KERNELS[:1]))
    assert (row["op"], row["flops"]) == ("aten::linear", 2 * 4096**3)


def test_calls_that_differ_only_in_what_they_convert_from_are_one_row_of_their_mean() -> None:
    """Which of them came first decided what was said of all; the key has the type of the result alone."""
    shapes = [[1024], [1024], []]
    hosts = [op("aten::copy_", 100 * at, 90, at + 1, shapes, ["float", given, "Scalar"]) for at, given in
             enumerate(("float", HALF))] + [call(10, 1), call(110, 2)]
    (row,) = rows(run(hosts, [kernel(at, 1_000 * at, 500, correlation=at + 1) for at in range(2)]))
    assert (row["calls"], row["bytes"], row["flops"]) == (2, 1024 * (4 + 4 + 4 + 2) // 2, 0)


@pytest.mark.parametrize("model", ["Qwen_Qwen1.5-0.5B-Chat__1016005", "gaunernst_bert-small-uncased__1016001"])
def test_the_same_model_has_the_same_flops_on_both_vendors(model: str, data: Path) -> None:
    def computed(vendor: str) -> dict[str, int]:
        (made,) = open_run(str(data / "traces" / "kineto" / "tracelens" / vendor / f"{model}.json.gz"), use_cache=False)
        found = roofline_of(made)
        assert found is not None
        counted = found.rows.filter(pl.col("flops") > 0).group_by(pl.col("op").cast(pl.String)).agg(
            (pl.col("flops") * pl.col("calls")).sum())
        return dict(counted.rows())

    assert computed("h100") == computed("mi300") != {}


def test_work_is_divided_among_the_activities_of_a_call_by_their_time() -> None:
    least = least_of(run(LINEAR, KERNELS))
    assert least is not None
    assert least.sum() == pytest.approx(2 * 4096**3 / 989.4e12 * 1e9) and least[0] == pytest.approx(9 * least[1])


def test_work_above_a_peak_loses_nothing_and_is_marked() -> None:
    made = run(LINEAR, [kernel(0, 100, 10_000, correlation=1)])
    (row,) = rows(made)
    assert row["lost_ns"] == 0 and row["above_peak"] and row["compute_of_peak"] > 1.1
    assert any("above 110%" in note for note in ask(view("roofline"), (made,), Options()).notes)


def test_a_copy_over_a_link_is_a_row_of_its_own_and_held_against_no_peak() -> None:
    """The first row of a training run was its input, held against the bandwidth of the device's own memory."""
    shapes, types = [[1 << 20], [1 << 20], []], ["float", "float", "Scalar"]
    hosts = [*(op("aten::copy_", 100 * at, 90, at + 1, shapes, types) for at in range(2)), call(10, 1), call(110, 2)]
    names = "Memcpy HtoD (Pageable -> Device)", "Memcpy DtoD (Device -> Device)"
    made = run(hosts, [kernel(at, 1_000_000 * at, 500_000, correlation=at + 1, kind="memcpy", name=name)
                       for at, name in enumerate(names)])
    found = {row["device"]: row for row in rows(made)}
    within, link = found["GPU 0"], found["GPU 0 link"]
    assert (within["calls"], within["bound"], within["bytes"]) == (1, "memory", 8 << 20) and within["lost_ns"] > 0
    assert (link["calls"], link["bound"], link["bytes"], link["device_ns"]) == (1, "link", 8 << 20, 500_000)
    assert link["least_ns"] is link["lost_ns"] is link["memory_of_peak"] is None
    least = least_of(made)
    assert least is not None and least.is_null().to_list() == [True, False]


def test_what_is_not_in_the_table_and_what_contradicts_itself_has_no_work_and_is_counted() -> None:
    hosts = [
        op("my::op", 0, 10, 1, BIG, [HALF, HALF]), call(1, 1),
        op("aten::mm", 20, 10, 2, [[2, 3], [4, 5]], [HALF, HALF]), call(21, 2),
    ]
    made = run(hosts, [kernel(0, 100, 30, correlation=1), kernel(1, 200, 10, correlation=2),
                       kernel(2, 300, 60, correlation=9)])
    assert [(row["op"], row["flops"], row["lost_ns"]) for row in rows(made)] == [
        ("my::op", None, None), ("aten::mm", None, None)]
    table = ask(view("roofline"), (made,), Options())
    assert table.facts["covered"] == 0 and any("contradict" in note for note in table.notes)
    assert any("60.0% of the device time was launched by no recorded operator" in note for note in table.notes)


def test_time_of_graph_replays_is_not_said_to_be_launched_by_nobody() -> None:
    hosts = [op("CompiledFunction", 0, 10, 1, BIG, [HALF, HALF]), {**call(1, 1), "name": "cudaGraphLaunch"}]
    made = run(hosts, [kernel(0, 100, 30, correlation=1), kernel(1, 200, 10, correlation=1)])
    note = "100.0% of the device time was launched by graph replays whose operators were not recorded, or by no "
    assert any(one.startswith(note) for one in ask(view("roofline"), (made,)).notes)


def test_an_unknown_device_has_work_and_no_peak() -> None:
    made = run(LINEAR, KERNELS, Device("GPU 0", "NVIDIA Next 1"))
    (row,) = rows(made)
    assert row["flops"] == 2 * 4096**3 and row["least_ns"] is None and row["compute_of_peak"] is None
    assert any("No peak is known for NVIDIA Next 1" in note for note in ask(view("roofline"), (made,), Options()).notes)


def test_fp32_products_are_tf32_only_where_a_kernel_says_so() -> None:
    hosts = [op("aten::mm", 0, 50, 1, BIG, ["float", "float"]), call(10, 1)]
    assert rows(run(hosts, [kernel(0, 100, 10_000_000, correlation=1)]))[0]["dtype"] == "fp32"
    tensor = kernel(0, 100, 10_000_000, "sm80_xmma_gemm_f32f32_tf32f32_f32_nn", correlation=1)
    assert rows(run(hosts, [tensor]))[0]["dtype"] == "tf32"


def test_the_elements_of_a_list_have_the_type_that_its_kernel_names() -> None:
    hosts = [op("aten::cat", 0, 50, 1, [[[4, 4], [4, 4]], []], ["TensorList", "Scalar"], ["", "0"]), call(10, 1)]
    copy = kernel(0, 100, 500, "CatArrayBatchedCopy<OpaqueType<2u>, unsigned int, 2>", correlation=1)
    assert [row["bytes"] for row in rows(run(hosts, [copy]))] == [2 * 2 * 32]
    assert [row["bytes"] for row in rows(run(hosts, [kernel(0, 100, 500, correlation=1)]))] == [None]


def test_convolutions_of_before_pytorch_2_have_the_output_that_their_backward_was_given() -> None:
    x, w, grad = [2, 3, 9, 9], [4, 3, 3, 3], [2, 4, 7, 7]
    kinds, back = ["float", "float"], "aten::cudnn_convolution_backward"
    hosts = [
        op("aten::cudnn_convolution", 0, 10, 1, [x, w, []], [*kinds, "GenericList"]), call(1, 1),
        op(back, 20, 30, 2, [x, grad, w, []], [*kinds, "float", "GenericList"]),
        op(f"{back}_weight", 22, 10, 3, [[], grad, x], ["GenericList", *kinds]), call(23, 2),
    ]
    made = run(hosts, [kernel(0, 100, 30, correlation=1), kernel(1, 200, 30, correlation=2)])
    products = 2 * 2 * 4 * 7 * 7 * 3 * 3 * 3
    assert {row["op"]: row["flops"] for row in rows(made)} == {"aten::cudnn_convolution": products, back: products}


def looped(step: int) -> Trace:
    """Four cycles of a product each, on an H100."""
    hosts, kernels = [], []
    for at in range(4):
        hosts += [op("aten::mm", step * at + 10, 50, at + 1, BIG, [HALF, HALF]), call(step * at + 20, at + 1)]
        kernels.append(kernel(at, step * at + 100, 1_000_000, correlation=at + 1))
    return run(hosts, kernels, cycles=steps(*[step] * 4))


def test_cycles_of_two_runs_have_their_mfu_side_by_side() -> None:
    table = ask(view("cycles"), (looped(2_000_000), looped(4_000_000)), Options())
    names = [column.name for column in table.columns]
    at_peak = 2 * 4096**3 / 989.4e12 * 1e9
    for row in table.window(0, 9):
        assert [row[names.index(f"mfu_{side}")] for side in "ab"] == [
            pytest.approx(at_peak / step, rel=0.001) for step in (2_000_000, 4_000_000)]


def test_mfu_and_flops_are_of_whole_cycles() -> None:
    facts = ask(view("roofline"), (looped(2_000_000),), Options()).facts
    assert facts["flops_per_cycle"] == 2 * 4096**3 and facts["covered"] == 1
    assert facts["mfu"] == pytest.approx(2 * 4096**3 / 989.4e12 * 1e9 / 2_000_000)


def test_a_sentence_names_equal_shapes_in_a_row_once() -> None:
    assert few_shapes("[[16,559],[16,559],[],[2]]") == "2 tensors of 16×559, 2"
    assert few_shapes("[[],[]]") == "scalars"
    lead = ask(view("roofline"), (looped(2_000_000),), Options()).summary[0]
    assert lead.startswith("aten::mm (2 tensors of 4096×4096) runs at")


def test_without_shapes_the_view_says_how_to_record_them_and_has_no_tab() -> None:
    made = run([op("aten::mm", 0, 50, 1), call(10, 1)], KERNELS[:1])
    with pytest.raises(CannotAnswer, match="record_shapes=True"):
        ask(view("roofline"), (made,), Options())
    assert "roofline" not in [entry.name for entry in answerable((made,))]
    assert "roofline" in [entry.name for entry in answerable((run(LINEAR, KERNELS),))]


def test_two_runs_stand_side_by_side() -> None:
    slower = [kernel(0, 100, 2_000_000, correlation=1)]
    table = ask(view("roofline"), (run(LINEAR, KERNELS), run(LINEAR, slower)), Options())
    names = [column.name for column in table.columns]
    (row,) = table.window(0, 9)
    assert row[names.index("device_ns_delta")] == 1_000_000 and row[names.index("flops_b")] == 2 * 4096**3


def on_two(*names: str) -> Trace:
    """The same product on two devices, the second half as fast."""
    both = [KERNELS[0], {**kernel(2, 200, 1_800_000, correlation=2), "device": "GPU 1"}]
    hosts = [op("aten::mm", 0, 10, 1, BIG, [HALF, HALF]), call(1, 1), op("aten::mm", 20, 10, 2, BIG, [HALF, HALF]),
             call(21, 2)]
    made = run(hosts, both)
    devices = tuple(Device(f"GPU {at}", name, {}) for at, name in enumerate(names))
    return replace(made, info=replace(made.info, devices=devices))


def test_devices_of_one_model_are_one_row_and_of_two_models_two() -> None:
    [row] = rows(on_two(H100.name, H100.name))
    assert (row["device"], row["calls"], row["device_ns"]) == ("all devices", 2, 2_700_000)
    alone = rows(run(LINEAR, KERNELS[:1]))[0]
    assert row["least_ns"] == pytest.approx(2 * alone["least_ns"], abs=2)
    assert row["compute_of_peak"] == pytest.approx(alone["compute_of_peak"] * 2 * 900_000 / 2_700_000)
    assert {(one["device"], one["calls"]) for one in rows(on_two(H100.name, "NVIDIA A100-SXM4-80GB"))} == {
        ("GPU 0", 1), ("GPU 1", 1)}


def test_a_job_of_two_devices_is_compared_with_one_of_one() -> None:
    table = ask(view("roofline"), (on_two(H100.name, H100.name), run(LINEAR, KERNELS[:1])), Options())
    names = [column.name for column in table.columns]
    [row] = table.window(0, 9)
    assert [row[names.index(f"calls_{side}")] for side in "ab"] == [2, 1]


def test_two_devices_are_compared_though_each_run_has_its_own_number_for_it() -> None:
    other = [{**one, "device": "GPU 2"} for one in KERNELS]
    pair = (run(LINEAR, KERNELS), run(LINEAR, other, Device("GPU 2", "AMD Instinct MI300X", {})))
    table = ask(view("roofline"), pair, Options())
    names = [column.name for column in table.columns]
    (row,) = table.window(0, 9)
    assert row[names.index("flops_a")] == row[names.index("flops_b")] == 2 * 4096**3
    assert row[names.index("compute_of_peak_b")] == pytest.approx(2 * 4096**3 / 1307.4e12 / 1e-3)


def test_copies_over_the_link_of_one_run_do_not_keep_its_devices_from_those_of_the_other() -> None:
    """Each operator of an H100 and of an MI300X was listed twice, and nothing was compared."""
    copied = [op("aten::copy_", 600, 90, 9, [[1 << 20], [1 << 20], []], ["float", "float", "Scalar"]), call(610, 9)]
    over = kernel(2, 2_000_000, 500_000, correlation=9, kind="memcpy", name="Memcpy HtoD (Pageable -> Device)")
    others = [{**one, "device": "GPU 2"} for one in (*KERNELS, over)]
    mine, theirs = run([*LINEAR, *copied], [*KERNELS, over]), Device("GPU 2", "AMD Instinct MI300X", {})
    for pair in ((mine, run(LINEAR, others[:-1], theirs)), (mine, run([*LINEAR, *copied], others, theirs))):
        table = ask(view("roofline"), pair, Options())
        assert sorted(table.frame["device"].cast(pl.String)) == ["GPU 0", "GPU 0 link"]
        assert "The runs used different device numbers: compared B's GPU 2 with A's GPU 0." in table.notes


def kernel_rows(name: str, made: Trace) -> list[dict[str, Any]]:
    table = ask(view(name), (made,), Options())
    return [dict(zip([column.name for column in table.columns], row, strict=True)) for row in table.window(0, 99)]


def test_kernels_without_counters_are_held_against_the_peak_by_their_operator_s_work() -> None:
    made = run(LINEAR, KERNELS)
    (gemm, cleared) = sorted(kernel_rows("kernels", made), key=lambda one: -one["total_ns"])
    of_peak = 2 * 4096**3 / 989.4e12 * 1e9 / 1_000_000
    assert gemm["tensor"] is None and gemm["compute_of_peak"] == pytest.approx(of_peak) and gemm["bound"] == "~low"
    assert cleared["kind"] == "memset" and cleared["compute_of_peak"] is None
    assert [one["compute_of_peak"] for one in kernel_rows("launches", made)] == [pytest.approx(of_peak), None]
    text = render((ask(view("kernels"), (made,), Options()),)).decode()
    assert f"~{round(100 * of_peak)}%" in text


def test_a_large_run_leaves_the_shares_to_the_roofline_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peak_shares, "MOST", 1)
    made = run(LINEAR, KERNELS)
    table = ask(view("kernels"), (made,), Options())
    assert "launches: shares of the peaks are in the roofline view (p) only." in " ".join(table.notes)
    assert [one["compute_of_peak"] for one in kernel_rows("kernels", made)] == [None, None]


def test_a_recorded_counter_stands_and_the_kernel_table_has_nothing_else() -> None:
    counted = [{**KERNELS[0], "tensor": 0.9, "dram": 0.1}, KERNELS[1]]
    (gemm, _) = sorted(kernel_rows("kernels", run(LINEAR, counted)), key=lambda one: -one["total_ns"])
    assert gemm["bound"] == "compute" and gemm["tensor"] == pytest.approx(0.9)
    bare = kernel_table.render((ask(view("launches"), (run(LINEAR, KERNELS),), Options()),)).decode()
    assert bare.splitlines()[1].split() == ["gemm", "|", "900000", "-", "-"]


def test_without_shapes_the_roofline_is_by_kernel_from_recorded_counters() -> None:
    counted = [kernel(0, 0, 600, "gemm", tensor=0.5, dram=0.1), kernel(1, 700, 400, "gemm", tensor=0.25, dram=0.75),
               kernel(2, 1_200, 100, "bare")]
    made = run_of(kernels=counted)
    (row,) = rows(made)
    assert (row["op"], row["calls"], row["device_ns"], row["flops"]) == ("gemm", 2, 1_000, None)
    assert row["compute_of_peak"] == pytest.approx(0.4) and row["memory_of_peak"] == pytest.approx(0.36)
    assert row["least_ns"] == 600 and row["lost_ns"] == 400 and row["bound"] == "compute"
    assert "roofline" in [entry.name for entry in answerable((made,))]


@pytest.mark.parametrize(("read", "written", "unit"), [
    ("FETCH_SIZE", "WRITE_SIZE", 1024), ("dram__bytes_read.sum", "dram__bytes_write.sum", 1)])
def test_counted_traffic_is_the_bytes_of_a_launch_and_of_one_direction_alone_it_is_unknown(
        read: str, written: str, unit: int) -> None:
    counted = [{"index": index, "metric": name, "value": value} for index, name, value in (
        (0, read, 30.0), (0, written, 10.0), (1, read, 50.0), (1, written, 30.0), (2, read, 7.0))]
    made = run_of(kernels=[kernel(0, 0, 600, "copy"), kernel(1, 700, 400, "copy"), kernel(2, 1_200, 100, "read only")],
                  launch_metrics=counted)
    (row,) = rows(made)
    assert (row["op"], row["bytes"], row["least_ns"], row["memory_of_peak"]) == ("copy", 60 * unit, None, None)
    assert row["bytes_per_s"] == pytest.approx(120 * unit * 1e6)


@pytest.mark.parametrize(("clock", "said"), [(990.0, True), (1_970.0, False)])
def test_a_clock_below_its_maximum_stands_beside_the_peak(clock: float, said: bool) -> None:
    metrics = samples("gpu_sm_frequency", "GPU 0", (10, clock), (20, clock), unit="MHz")
    notes = ask(view("roofline"), (run(LINEAR, KERNELS, metrics=metrics),), Options()).notes
    assert any("SM clock of GPU 0 was 990 of" in note for note in notes) is said


def test_enter_shows_the_formula_with_its_numbers_and_the_kernels() -> None:
    made = run(LINEAR, KERNELS)
    table = ask(view("roofline"), (made,), Options())
    text = str(details(view("roofline"), table, 0, (made,), Options()))
    assert "2·B·M·N·K = 137,438,953,472" in text and "M = 4,096" in text and "989.4 TFLOP/s (bf16)" in text
    assert "Kernels" in text and "gemm" in text


def test_the_time_without_known_work_is_a_share_of_what_computes() -> None:
    """Collectives have no work to know: beside 7 ms of them, half of the rest was said to be a tenth."""
    unknown = [op("my::op", 200, 50, 4), call(210, 3)]
    talk = [op("record_param_comms", 300, 50, 5), call(310, 4)]
    made = run([*LINEAR, *unknown, *talk], [
        *KERNELS, kernel(2, 2_000_000, 1_000_000, correlation=3),
        kernel(3, 4_000_000, 7_000_000, "nccl", correlation=4) | {"kind": "collective"}])
    table = ask(view("roofline"), (made,), Options())
    assert "work known for 50.0% of device time without collectives" in table.summary[-1]
    assert any(note.startswith("The work of 50.0% of the time of operators that compute is") for note in table.notes)
