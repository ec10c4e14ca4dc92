"""Every rule fires on a run made to have its trouble, is silent on a healthy one, and says when it could not look."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from msgspec.structs import replace
from runs import Rows, host, kernel, run_of, samples, steps

from warplens.analysis.contract.changes import parse
from warplens.analysis.contract.options import Options
from warplens.analysis.findings.device import clock_drop as CLOCK_DROP
from warplens.analysis.findings.device import fp32_gemms as FP32
from warplens.analysis.findings.evidence.kernel_times import limiter
from warplens.analysis.findings.evidence.measured import Measured
from warplens.analysis.findings.evidence.samples import Clock, Samples
from warplens.analysis.findings.rule import Evidence, Finding
from warplens.analysis.findings.rules import RULES
from warplens.analysis.findings.waiting import communication as COMMUNICATION
from warplens.analysis.kernels import tensor_cores
from warplens.analysis.overview.sources import overview_of
from warplens.analysis.query.ask import ask
from warplens.analysis.query.report import report
from warplens.analysis.table.export import render
from warplens.analysis.table.filters import Filter
from warplens.analysis.views import view
from warplens.loaders.ingest.opening import open_run
from warplens.loaders.trace import Device, Trace

US, MS = 1_000, 1_000_000
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
A100 = Device("GPU 0", "NVIDIA A100", {"computeMajor": 8, "totalGlobalMem": 80_000, "maxThreadsPerMultiprocessor": 2048,
                                       "sharedMemPerMultiprocessor": 164_000})


def launched(gaps: list[int], dur: int = 500 * US, name: str = "gemm", **more: Any) -> tuple[Rows, Rows]:
    """Kernels with these gaps before them, and the calls that launched them 10 µs before they start."""
    kernels, calls, now = [], [], MS
    for number, gap in enumerate(gaps):
        now += gap
        kernels.append(kernel(number, now, dur, name, correlation=number + 1, kind="kernel", **more))
        calls.append(host("cudaLaunchKernel", now - 10 * US, 2 * US, "runtime", correlation=number + 1))
        now += dur
    return kernels, calls


def on_a100(**tables: Rows) -> Trace:
    run = run_of(**tables)
    return replace(run, info=replace(run.info, devices=(A100,)))


def healthy(count: int = 40, **more: Any) -> Trace:
    """Forty kernels of half a millisecond on tensor cores, launched far ahead, with pinned copies under them."""
    kernels, calls = launched([0] * count, name="ampere_bf16_s16816gemm_bf16_128x128", occupancy=0.5, registers=64,
                              block="256,1,1", blocks_per_sm=8.0)
    for call in calls:
        call["start_ns"] //= 2
    copy = kernel(count, 2 * MS, 100 * US, "Memcpy HtoD (Pinned -> Device)", stream=9, bytes=1 << 20)
    kernels.append({**copy, "kind": "memcpy"})
    metrics = [*samples("sm clock", "GPU 0", *((MS + at * MS, 1400.0 + at) for at in range(19)), unit="MHz"),
               *samples("memory reserved", "GPU 0", (0, 40_000), unit="B")]
    start = calls[0]["start_ns"]
    marks = [{**row, "start_ns": row["start_ns"] + start} for row in steps(*[4 * MS] * 5)]
    return on_a100(kernels=kernels, host=calls, metrics=metrics, cycles=marks, **more)


def rules(run: Trace) -> dict[str, dict[str, Any]]:
    return {one["rule"]: one for one in overview_of(run, Options(), "a").facts["rules"]}


def trouble(run: Trace) -> dict[str, dict[str, Any]]:
    return {name: one for name, one in rules(run).items() if one["severity"] in ("problem", "hint")}


def costly(run: Trace) -> list[Finding]:
    """The problems and hints that time goes to, as they stand."""
    return [one for one in overview_of(run, Options(), "a").findings if one.cost_ns]


def input_starved() -> Trace:
    kernels, calls = launched([5 * MS] * 8)
    loads = [host(LOADER, row["start_ns"] - 4_900 * US, 4_850 * US, "dataloader") for row in calls]
    return on_a100(kernels=kernels, host=[*calls, *loads])


def drained() -> Trace:
    kernels, calls = launched([400 * US] * 8)
    items = [host("aten::item", row["start_ns"] - 200 * US, row["dur_ns"] + 300 * US) for row in kernels]
    lines = [host("loss.py(41): log", row["start_ns"] - 10 * US, row["dur_ns"] + 20 * US, "python") for row in items]
    waits = [host("cudaStreamSynchronize", row["start_ns"] + 20 * US, row["dur_ns"], "runtime") for row in kernels]
    return on_a100(kernels=kernels, host=[*calls, *items, *lines, *waits])


def launch_bound() -> Trace:
    kernels, calls = launched([50 * US] * 60, dur=5 * US)
    ops = [host("aten::mul", row["start_ns"] - 30 * US, 35 * US) for row in calls]
    lines = [host("model.py(7): forward", row["start_ns"] - 35 * US, 45 * US, "python") for row in calls]
    return on_a100(kernels=kernels, host=[*calls, *ops, *lines])


def queued() -> Trace:
    """Every kernel is launched 880 µs before it starts, and the device has nothing else to do."""
    kernels, calls = launched([MS] * 8)
    return on_a100(kernels=kernels, host=[{**row, "start_ns": row["start_ns"] - 880 * US} for row in calls])


def allocating() -> Trace:
    kernels, calls = launched([MS] * 8)
    mallocs = [host("cudaMalloc", row["start_ns"] - 880 * US, 860 * US, "runtime") for row in calls]
    return on_a100(kernels=kernels, host=[*calls, *mallocs])


def copying(name: str, kind: str = "memcpy") -> Trace:
    kernels, calls = launched([MS] * 8)
    copies = [{**kernel(8 + at, row["start_ns"] - MS, MS, name, bytes=1 << 20), "kind": kind}
              for at, row in enumerate(kernels)]
    return on_a100(kernels=[*kernels, *copies], host=calls)


def blocked() -> Trace:
    """Every kernel is followed by a copy to pageable memory, whose call waits for both."""
    kernels, calls = launched([MS] * 8)
    copies = [{**kernel(8 + at, row["start_ns"] + row["dur_ns"], 10 * US, "Memcpy DtoH (Device -> Pageable)", bytes=8,
                        correlation=100 + at), "kind": "memcpy"} for at, row in enumerate(kernels)]
    waits = [host("cudaMemcpyAsync_v3020", row["start_ns"], 515 * US, "runtime", correlation=100 + at)
             for at, row in enumerate(kernels)]
    return on_a100(kernels=[*kernels, *copies], host=[*calls, *waits])


def communicating() -> Trace:
    kernels, calls = launched([MS] * 8)
    reduces = [{**kernel(8 + at, row["start_ns"] - MS, MS, "ncclDevKernel_AllReduce"), "kind": "collective"}
               for at, row in enumerate(kernels)]
    return on_a100(kernels=[*kernels, *reduces], host=calls)


def fp32() -> Trace:
    return on_a100(kernels=launched([0] * 8, name="ampere_sgemm_128x64_nn")[0])


def cramped() -> Trace:
    return on_a100(kernels=launched([0] * 8, name="softmax", occupancy=0.125, registers=255, block="128,1,1",
                                    blocks_per_sm=4.0)[0])


def tiny() -> Trace:
    return on_a100(kernels=launched([0] * 300, dur=2 * US, name="add")[0])


def uneven() -> Trace:
    marks = steps(*[4 * MS] * 9, 12 * MS, 4 * MS)
    kernels = [kernel(at, row["start_ns"] + US, row["dur_ns"] - 2 * US) for at, row in enumerate(marks)]
    return on_a100(kernels=kernels, cycles=marks)


def throttled() -> Trace:
    kernels, _ = launched([0] * 40)
    points = ((MS + at * MS, 1400.0 if at < 12 else 900.0) for at in range(19))
    return on_a100(kernels=kernels, metrics=samples("sm clock", "GPU 0", *points, unit="MHz"))


def full() -> Trace:
    return on_a100(kernels=launched([0] * 8)[0], metrics=samples("memory reserved", "GPU 0", (0, 79_000), unit="B"))


def early() -> Trace:
    kernels, calls = launched([MS] * 8)
    return on_a100(kernels=kernels, host=[{**row, "start_ns": row["start_ns"] + 20 * US} for row in calls])


CASES: list[tuple[str, Callable[[], Trace], str]] = [
    ("input", input_starved, "Input-bound: GPU 0 waits 33.95 of 39.00 ms for the DataLoader."),
    ("sync", drained, "aten::item, loss.py:41 log"),
    ("host", launch_bound, "model.py:7 forward, before aten::mul"),
    ("queued", queued, "GPU 0 runs nothing for 6.08 of 11.00 ms although work is queued"),
    ("allocation", allocating, "(8 × cudaMalloc)."),
    ("pageable", lambda: copying("Memcpy HtoD (Pageable -> Device)"),
     "8 copies of pageable memory (8.0 MiB) take 8.00 of 12.00 ms"),
    ("blocking copies", blocked, "The host waits 4.12 of 11.01 ms in cudaMemcpyAsync until the device is "
     "done (8 pageable copies, 64 B)."),
    ("copies", lambda: copying("Memcpy HtoD (Pinned -> Device)"), "8.00 of 12.00 ms"),
    ("copies", lambda: copying("Memset (Device)", "memset"), "8.00 of 12.00 ms"),
    ("communication", communicating, "Exposed communication: GPU 0 waits 8.00 of 12.00 ms"),
    ("fp32", fp32, "take 100% of the kernel time, most sgemm 128x64 nn: TF32, BF16 or FP16 would use tensor cores"),
    ("occupancy", cramped, "limited by registers"),
    ("short kernels", tiny, "300 of 300 take under 5.00 µs"),
    ("slow cycles", uneven, "1 of 11 steps is an outlier: #9, 12.00 ms (median 4.00 ms)"),
    ("clock drop", throttled, "900 MHz at the lowest, usually 1,400 MHz"),
    ("memory", full, "99%"),
    ("clocks", early, "8 of 8 device activities begin before"),
]


@pytest.mark.parametrize(("rule", "run", "words"), CASES, ids=[f"{name}-{at}" for at, (name, *_) in enumerate(CASES)])
def test_a_rule_finds_the_trouble_it_is_about(rule: str, run: Callable[[], Trace], words: str) -> None:
    """And no other loses time; what could be won is not said before a replay says it."""
    overview = overview_of(run(), Options(), "a")
    found = {one["rule"]: one for one in overview.facts["rules"] if one["severity"] in ("problem", "hint")}
    assert rule in found
    assert words in found[rule]["sentence"]
    lost = {one.rule for one in overview.findings if one.cost_ns}
    told_twice = {"host", "sync"} if rule == "blocking copies" else set()  # the idle time that they cause
    assert lost - told_twice <= {rule}
    assert {one["time_to_win_ns"] for one in overview.facts["rules"]} == {None}


@pytest.mark.parametrize("name", [
    "ampere_sgemm_128x64_nn", "volta_scudnn_128x64_relu_small_nn_v1", "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_ffma",
    "void cudnn::detail::dgrad_engine<float, 512, 6>", "void cutlass_80_simt_sgemm_64x64", "void gemv2N_kernel<float>",
    "void gemmSN_NN_kernel<float, 256>", "void gemmk1_kernel<int, float, 256>",
    "void implicit_convolve_sgemm<float, 128>", "void cudnn::bn_bw_1C11_kernel_new<float, float>",
    "void layer_norm_grad_input_kernel<float, float>",
])
def test_the_kernels_that_the_fp32_finding_opens_are_those_it_counts(name: str) -> None:
    rows = run_of(kernels=[kernel(0, 0, 1, name)])
    opened = report("kernels", (rows,), Options()).filtered(Filter(FP32.filter or "")).shown().height
    counted = pl.DataFrame({"name": [name]}).select(tensor_cores.named(tensor_cores.FP32)).item()
    assert opened == counted


def test_nothing_fires_on_a_healthy_run_and_everything_was_checked() -> None:
    found = rules(healthy())
    assert not [one["sentence"] for one in found.values() if one["severity"] != "fact"]
    assert "warm-up" not in found


def test_the_parts_of_idle_time_do_not_overlap() -> None:
    for make in (input_starved, drained, launch_bound, allocating):
        from warplens.analysis.cycles.whole import steps_in_scope
        from warplens.analysis.idle.attribution import idle_of

        run = make()
        parts = [one.cost_ns or 0 for one in costly(run) if one.rule in ("input", "sync", "host", "allocation")]
        idle = idle_of(run, run, steps_in_scope(run, Options()))
        assert idle is not None and sum(parts) <= idle.scope[0].sums.idle_ns


def test_what_costs_most_comes_first_and_facts_after_it() -> None:
    kernels, calls = launched([MS] * 8, name="ampere_sgemm_128x64_nn")
    loads = [host(LOADER, row["start_ns"] - 900 * US, 880 * US, "dataloader") for row in calls]
    run = on_a100(kernels=kernels, host=[*calls, *loads])
    found = overview_of(run, Options(), "a").facts["rules"]
    order = [one["rule"] for one in found]
    assert order.index("input") < order.index("fp32") < order.index("busy")
    costs = [one.cost_ns for one in costly(run)]
    assert len(costs) > 1 and costs == sorted(costs, key=lambda time: -(time or 0))


def test_what_a_replay_says_is_won_puts_findings_in_order(data: Path) -> None:
    """Most of this run's kernel time is FP32, and the host sets its pace: faster products win under 1% of the step."""
    file = data / "traces/kineto/tb_plugin/samples/resnet50_num_workers_4/worker0.1623212756351.pt.trace.json.gz"
    (run,) = open_run(str(file), use_cache=False)
    assert "host" in [one.rule for one in costly(run)] and "fp32" not in [one.rule for one in costly(run)]
    saved = ask(view("triage"), (run,)).frame["time_to_win_ns"].drop_nulls().to_list()
    assert len(saved) >= 2 and saved == sorted(saved, reverse=True)


def test_nothing_says_what_could_be_won_before_a_replay_does(deep: bool) -> None:
    for _, make, _ in CASES[:: 1 if deep else 5]:
        assert b"could win" not in render(ask(view("triage"), (make(),)), "text")


def test_causes_are_not_told_where_clocks_disagree() -> None:
    found = rules(early())
    assert {found[name]["severity"] for name in ("sync", "host", "allocation")} == {"unchecked"}
    assert "clocks of host and device disagree" in found["host"]["sentence"]


def test_without_launches_nobody_is_blamed() -> None:
    kernels, _ = launched([5 * MS] * 8)
    found = rules(on_a100(kernels=kernels))
    assert found["host"]["severity"] == "unchecked"
    assert "launched the device's activities is not recorded" in found["host"]["sentence"]


def test_a_copy_without_a_memory_kind_is_not_called_pinned() -> None:
    found = rules(copying("MemcpyH2D"))
    assert found["pageable"]["severity"] == "unchecked"


def test_a_stream_that_waits_for_an_event_drains_nothing() -> None:
    kernels, calls = launched([MS] * 8)
    waits = [host("cudaStreamWaitEvent", row["start_ns"] + row["dur_ns"] + 200 * US, 5 * US, "runtime")
             for row in kernels]
    assert "sync" not in trouble(on_a100(kernels=kernels, host=[*calls, *waits]))


def test_work_that_starts_soon_after_its_launch_is_not_called_queued() -> None:
    for make in (launch_bound, input_starved, drained, healthy):
        assert "queued" not in trouble(make())


def test_a_device_that_is_mostly_busy_is_not_asked_what_its_queue_waits_for() -> None:
    kernels, calls = launched([100 * US] * 8)
    early = [{**row, "start_ns": row["start_ns"] - 90 * US} for row in calls]
    assert "queued" not in rules(on_a100(kernels=kernels, host=early))


def test_copies_are_said_to_overlap_only_where_kernels_run_long_enough_to_hide_them() -> None:
    few = trouble(copying("Memcpy HtoD (Pinned -> Device)"))["copies"]["sentence"]
    assert "kernels run only 4.00 ms, too short to hide them: copy less." in few
    kernels, calls = launched([MS] * 8, dur=2 * MS)
    copies = [{**kernel(8 + at, row["start_ns"] - MS, MS, "Memcpy HtoD (Pinned -> Device)"), "kind": "memcpy"}
              for at, row in enumerate(kernels)]
    many = trouble(on_a100(kernels=[*kernels, *copies], host=calls))["copies"]["sentence"]
    assert many.endswith("while no kernel runs; on another stream they would overlap.")


def test_what_a_replay_removes_for_the_copies_are_the_copies_that_are_told_of() -> None:
    kernels, calls = launched([MS] * 8)
    names = ("Memcpy HtoD (Pinned -> Device)", "Memcpy DtoD (Device -> Device)", "Memcpy HtoD (Pageable -> Device)")
    copies = [{**kernel(8 * at + row["index"], row["start_ns"] - MS + 200 * US * at, 200 * US, name), "kind": "memcpy"}
              for at, name in enumerate(names, 1) for row in kernels]
    change = parse(trouble(on_a100(kernels=[*kernels, *copies], host=calls))["copies"]["change"])
    assert [name for name in names if re.search(change.pattern, name)] == [names[0]]


def test_the_costliest_kernel_is_that_of_all_devices_together() -> None:
    kernels = [{**kernel(at, MS + at * US, 600 * US, "shared", device=f"GPU {at}"), "kind": "kernel"}
               for at in range(2)]
    kernels.append({**kernel(2, 3 * MS, 800 * US, "own", device="GPU 0"), "kind": "kernel"})
    assert rules(run_of(kernels=kernels))["costliest"]["sentence"] == (
        "Top kernel: shared, 60.0% of the time of 2 devices (1.20 ms in 2 launches).")


def test_a_clock_held_against_other_devices_is_not_said_to_have_been_there() -> None:
    clock = Clock("GPU 7", "sm clock", 20, 20, 1080.0, 210.0, "MHz", peers=True)
    evidence = Evidence(1, 1000.0, {}, [], [], measured=Measured(samples=Samples(clock, None)))
    found = CLOCK_DROP.ask(evidence)
    assert found is not None and "devices of this recording reach 1,080 MHz" in found.sentence
    assert "drops" not in found.sentence and "usually" not in found.sentence


def test_collectives_known_only_as_sums_are_not_passed_over_in_silence() -> None:
    sums = [{"name": "ncclDevKernel_AllReduce", "kind": "collective", "share": 0.9}]
    found = COMMUNICATION.ask(Evidence(1, 1000.0, {}, [], sums))
    assert found is not None and found.severity == "unchecked"
    assert COMMUNICATION.ask(Evidence(1, 1000.0, {}, [], [{**sums[0], "kind": "kernel"}])) is None


def test_collectives_alone_are_not_called_exposed() -> None:
    kernels, _ = launched([MS] * 8, name="ncclDevKernel_AllReduce")
    found = rules(on_a100(kernels=[{**row, "kind": "collective"} for row in kernels]))
    assert found["communication"]["severity"] == "unchecked"


def test_a_short_wait_is_not_blamed_for_a_long_gap() -> None:
    kernels, calls = launched([5 * MS] * 8)
    waits = [host("cudaStreamSynchronize", row["start_ns"] + row["dur_ns"] - 10 * US, 20 * US, "runtime")
             for row in kernels]
    found = trouble(on_a100(kernels=kernels, host=[*calls, *waits]))
    assert "sync" not in found and "waits 34.86 of" in found["host"]["sentence"]


def test_a_copy_that_found_the_queue_empty_is_named_where_the_host_is_behind() -> None:
    sentence = trouble(blocked())["host"]["sentence"]
    assert "most after cudaMemcpyAsync emptied the queue" in sentence and "cudaLaunchKernel" not in sentence


def test_copies_that_block_the_host_of_a_busy_device_are_not_mentioned() -> None:
    kernels, calls = launched([0] * 8)
    early = [{**row, "start_ns": 10 * US * at} for at, row in enumerate(calls)]
    copy = {**kernel(8, kernels[-1]["start_ns"] + 500 * US, 10 * US, "Memcpy DtoH (Device -> Pageable)",
                     correlation=100), "kind": "memcpy"}
    wait = host("cudaMemcpyAsync", MS, 5 * MS, "runtime", correlation=100)
    assert "blocking copies" not in trouble(on_a100(kernels=[*kernels, copy], host=[*early, wait]))


def test_an_old_device_has_no_tensor_cores_to_miss() -> None:
    run = fp32()
    old = replace(run, info=replace(run.info, devices=(Device("GPU 0", "Tesla P100", {"computeMajor": 6}),)))
    assert FP32.id not in rules(old)


def test_products_that_take_little_of_a_step_are_not_mentioned() -> None:
    kernels, _ = launched([20 * MS] * 8, name="ampere_sgemm_128x64_nn")
    assert FP32.id not in rules(on_a100(kernels=kernels))


def on(name: str | None, capability: int | None, kernel: str = "volta_sgemm_128x64_nn") -> str:
    own = {} if capability is None else {"computeMajor": capability}
    run = on_a100(kernels=launched([0] * 8, name=kernel)[0])
    run = replace(run, info=replace(run.info, devices=(Device("GPU 0", name, own),)))
    return str(rules(run)[FP32.id]["sentence"])


def test_only_types_that_the_device_has_are_recommended() -> None:
    assert on("Tesla V100-SXM2-16GB", 7).endswith(": FP16 would use tensor cores.")
    assert on("NVIDIA GeForce RTX 2080 Ti", None).endswith(": FP16 would use tensor cores.")
    assert on("NVIDIA H100 80GB HBM3", 9).endswith(": TF32, BF16 or FP16 would use tensor cores.")
    assert on(None, None, "maxwell_sgemm_128x64_nn") == "whether the device has tensor cores is not recorded"


def test_kernels_whose_names_leave_it_open_make_the_share_on_tensor_cores_unknown() -> None:
    kernels = launched([0] * 8, name="triton_tem_fused_mm_3")[0]
    kernels[0] |= {"name": "volta_h884gemm_256x64"}
    text = " ".join(one["sentence"] for one in rules(on_a100(kernels=kernels)).values())
    assert "Kernels whose names say tensor core take 12% of the kernel time; others may" in text
    assert "FP32 GEMMs" not in text


def test_tensor_core_and_matrix_kernels_are_not_called_starved() -> None:
    shape = {"occupancy": 0.125, "registers": 255, "block": "128,1,1", "blocks_per_sm": 4.0}
    assert "occupancy" not in trouble(on_a100(kernels=launched([0] * 8, name="flash_fwd_kernel", **shape)[0]))


def test_a_clock_that_falls_while_nothing_runs_has_not_dropped() -> None:
    kernels, _ = launched([0] * 40)
    points = [*((MS + at * MS, 1400.0) for at in range(19)), *((30 * MS + at * MS, 210.0) for at in range(19))]
    found = rules(on_a100(kernels=kernels, metrics=samples("sm clock", "GPU 0", *points, unit="MHz")))
    assert "clock drop" not in found


def test_the_first_cycles_are_warm_up_and_not_slow_ones() -> None:
    marks = steps(40 * MS, *[4 * MS] * 9)
    kernels = [kernel(at, row["start_ns"] + US, row["dur_ns"] - 2 * US) for at, row in enumerate(marks)]
    found = rules(on_a100(kernels=kernels, cycles=marks))
    assert found["warm-up"]["severity"] == "fact" and "up to 40.00 ms" in found["warm-up"]["sentence"]
    assert "slow cycles" not in found


@pytest.mark.parametrize(("block", "registers", "shared", "expected"), [
    ("256,1,1", 24, 0, ("block size", 1.0)),
    ("128,1,1", 255, 0, ("registers", 0.125)),
    ("128,1,1", 32, 82_000, ("shared memory", 0.125)),
    (None, 32, 0, None),
])
def test_the_limiter_is_what_leaves_room_for_fewest_blocks(
    block: str | None, registers: int, shared: int, expected: tuple[str, float] | None
) -> None:
    assert limiter(block, registers, shared, A100.properties) == expected


def test_every_rule_has_a_run_that_makes_it_speak() -> None:
    lost = {rule.id for rule in RULES if rule.severity != "fact"}
    elsewhere = {"small grids"}  # of gauges, in the tests of the overview
    elsewhere |= {"capture"}  # in test_steps.py
    elsewhere |= {"unexplained"}  # in tests/golden/samples: no rule finds fault with the recording, and the GPU idles
    elsewhere |= {"straggler"}  # of jobs, in tests/analysis/replay/test_job.py
    elsewhere |= {"recorded rules"}  # in tests/analysis/measured/test_sections.py
    elsewhere |= {rule.id for rule in RULES if rule.view == "roofline"}  # in tests/analysis/work/test_below_peak.py
    elsewhere |= {"slow lane"}  # in tests/analysis/overview/test_uneven_lanes.py
    elsewhere |= {"recorder's message", "page faults", "device error"}  # of databases, in tests/loaders
    assert lost - elsewhere == {name for name, *_ in CASES}


def test_the_kernel_time_beside_exposed_copies_is_that_of_a_step_too() -> None:
    kernels, calls = launched([MS] * 8)
    copies = [{**kernel(8 + at, row["start_ns"] - MS, MS, "Memcpy HtoD (Pinned -> Device)",
                        correlation=row["correlation"]), "kind": "memcpy"} for at, row in enumerate(kernels)]
    end = max(row["start_ns"] + row["dur_ns"] for row in kernels)
    run = on_a100(kernels=[*kernels, *copies], host=calls, cycles=steps(end // 2, end - end // 2))
    assert "kernels run only 2.00 ms a step, too short" in trouble(run)["copies"]["sentence"]
