"""What the diff says: as the recorded documents have it, the same thing on every line, and about data as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl
import pytest
from gates import gate
from msgspec.structs import replace
from runs import run_of, steps

from warplens.analysis.core.metrics import metric
from warplens.analysis.core.processes import ProcessPair
from warplens.analysis.core.run_labels import distinct_labels
from warplens.analysis.diff.cycle_time import CycleTime, Outlier, compare_lengths
from warplens.analysis.diff.device_work import DeviceWork, agreed
from warplens.analysis.diff.judge import Shape
from warplens.analysis.diff.prepare.samples import Matched, RunSamples, SampleCoverage
from warplens.analysis.diff.resources import ChangedResource
from warplens.analysis.diff.same_work import REPORT
from warplens.analysis.diff.sentences import cause_lines, cycle_sentence, device_lines, left_out
from warplens.analysis.diff.verdict import cause_of, verdict_of
from warplens.analysis.overview.headline import headline
from warplens.analysis.query.ask import ask
from warplens.analysis.table.table import Table
from warplens.analysis.views.diff import VIEW
from warplens.loaders.ingest.opening import open_run
from warplens.loaders.trace import Info, Trace

Both = tuple[float, float]


def triplet(function: str, metric: str, beta: Both, z: float, mu: Both) -> dict[str, object]:
    numbers = {"suspicion": abs(z) * (beta[1] - beta[0] + 0.001) * (2 if metric.startswith("process") else 1)}
    return {
        "function": function, "metric": metric, "device": "GPU 7", "beta_a": beta[0], "beta_b": beta[1],
        "delta_beta": beta[1] - beta[0], "z_beta": z, "p_beta": 0.0, "u_beta": 0.001, "mu_a": mu[0], "mu_b": mu[1],
        "p_mu": 0.0, "u_mu": 0.002, **numbers,
    }


def finished_pair(*rows: dict[str, object]) -> Table:
    a = run_of("a", comparison=list(rows), cycles=steps(*(750_000_000 + 1_000_000 * i for i in range(12))))
    b = run_of("b", cycles=steps(*(751_000_000 + 1_000_000 * i for i in range(10))))
    return ask(VIEW, (a, b))


CLOCK, USAGE = (118_687.5, 21_000.0), (6.3, 21.6)


def test_a_finished_comparison_is_never_called_against_its_recorded_z() -> None:
    table = finished_pair(
        triplet("gemm", "gpu_sm_frequency", (2.56, 8.43), 13.9, CLOCK),
        triplet("tiny", "gpu_sm_frequency", (0.0, 0.0), 77.4, CLOCK),
        triplet("copy", "gpu_sm_frequency", (0.01, 0.01), 6.06, CLOCK),
        triplet("odd", "gpu_sm_frequency", (0.02, 0.01), 2.0, CLOCK),
    )
    assert {row["function"]: row["verdict"] for row in table.frame.to_dicts()} == {
        "gemm": "slower", "tiny": "~", "copy": "~", "odd": "~"
    }


def test_readings_that_did_not_change_are_not_said_to_be_missing() -> None:
    a = run_of("a", comparison=[triplet("gemm", "gpu_sm_frequency", (2.56, 8.43), 13.9, (118_687.5, 118_687.5))])
    said = ask(VIEW, (a, run_of("b"))).facts["explanation"]
    assert said.endswith("No likely cause: no clock, power or link reading changed."), said


def test_a_finished_comparison_names_the_clock_and_not_what_follows_from_it() -> None:
    table = finished_pair(*(
        triplet(function, name, beta, 13.9, mu)
        for function, beta in (("gemm", (2.56, 8.43)), ("norm", (0.5, 1.9)))
        for name, mu in (("process_gpu_usage", USAGE), ("gpu_frequency", CLOCK), ("gpu_sm_frequency", CLOCK))
    ))
    first = table.facts["resources"][0]
    assert [first[key] for key in ("metric", "device", "mu_b", "unit", "functions", "role")] == [
        "gpu_sm_frequency", "GPU 7", 210.0, "MHz", 2, "capacity"
    ]
    assert set(table.frame["metric"]) == {"gpu_sm_frequency"}
    assert any(line.startswith("Cause   SM clock of GPU 7 fell 1,187 → 210 MHz;") for line in table.summary)


def test_a_share_printed_as_zero_is_small_and_not_gone() -> None:
    table = finished_pair(triplet("tiny", "gpu_sm_frequency", (0.0, 0.02), 9.0, CLOCK))
    assert table.frame["verdict"].to_list() == ["slower"]
    table = finished_pair(triplet("new", "gpu_sm_frequency", (0.0, 0.02), 0.0, (0.0, 21_000.0)))
    assert table.frame["verdict"].to_list() == ["new"]


def test_the_recorded_comparison_is_judged_as_its_document_says(data: Path) -> None:
    runs = open_run(str(data / "seeds" / "strict_comparison_sglang_gpu_instability.md"), use_cache=False)
    table = ask(VIEW, runs)
    assert table.facts["resources"][0]["metric"] == "gpu_sm_frequency"
    assert table.frame["metric"][0] == "gpu_sm_frequency"
    z = {(row["function"], row["device"]): row["z_beta"] for row in runs[0].comparison.collect().to_dicts()}
    for row in table.frame.to_dicts():
        recorded = z[row["function"], row["device"]]
        assert not (row["verdict"] == "faster" and recorded >= 0) and not (row["verdict"] == "slower" and recorded <= 0)


def summed(label: str, runtime: int, device_ns: int = 500_000_000) -> Trace:
    """A run of which only sums are known, as another profiler's views have them."""
    times = {"Kernel": device_ns, "Runtime": runtime, "Other": 40_000_000}
    return run_of(
        label, breakdown=[{"category": name, "time_ns": ns, "step": None} for name, ns in times.items()],
        kernel_stats=[{"name": "gemm", "device": "MLU 0", "kind": "kernel", "count": 10, "total_ns": device_ns}],
    )


def test_of_sums_the_breakdown_is_compared_first() -> None:
    table = ask(VIEW, (summed("a", 4_830_000_000), summed("b", 114_000_000)))
    assert table.summary[0] == (
        "Step    5.37 s → 654.0 ms per step (−87.8%): Runtime 4.83 s → 114.0 ms (−4.72 s)"
    )
    assert table.facts["explanation"].startswith("5.37 s → 654.0 ms per step")
    assert table.facts["breakdown"][0]["category"] == "Runtime"
    assert set(table.frame["verdict"]) == {"too few cycles"}


def test_two_recorded_workers_differ_by_their_runtime(data: Path) -> None:
    runs = open_run(str(data / "seeds" / "tb_profiler_views_mlu_2workers.jsonl"), use_cache=False)
    assert ask(VIEW, runs).summary[0].startswith("Step    6.29 s → 1.07 s per step (−83.0%): Runtime 4.83 s → 114")


def work(idle: tuple[float, float], path: Literal["exposed", "hidden"] | None = None) -> DeviceWork:
    return DeviceWork("GPU 0", 1, 1, 40.0, 60.0, idle_a=idle[0], idle_b=idle[1], path=path)


@pytest.mark.parametrize(("idle", "said"), [
    ((0.43, 0.19), "Idle 43% → 19% of the cycle"), ((0.19, 0.43), "Idle 19% → 43% of the cycle"),
    ((0.79, 0.79), "Still 79% of the cycle idle"), ((0.94, 0.79), "Still 79% of the cycle idle"),
    ((0.6, 0.8), "Idle 60% → 80% of the cycle"),
])
def test_still_idle_is_said_only_of_what_is_still_so(idle: tuple[float, float], said: str) -> None:
    (line,) = device_lines([work(idle, "hidden")], [], {}, 100.0)
    assert line == f"GPU     work a cycle: 40.0 → 60.0 ms (1.5×). {said}: the host sets the pace"


SLOWER = compare_lengths(100 + np.arange(9) / 4, 120 + np.arange(9) / 4)
CLOCK_FELL = ChangedResource(
    "gpu_sm_frequency", "GPU 0", 1187.0, 210.0, "MHz", -1.7, 0.001, 4, "capacity", 4, 1, 1, 1.7
)


def test_the_headline_says_of_the_device_what_all_its_rows_say() -> None:
    unknown = work((0.6, 0.4))
    assert cause_of([CLOCK_FELL], SLOWER, [unknown], ()).reach == "work, cycle unknown"
    hidden = agreed(unknown, ["hidden", "hidden"])
    assert hidden.path == "hidden"
    (line,) = cause_lines(cause_of([CLOCK_FELL], SLOWER, [hidden], ()), [CLOCK_FELL], SLOWER, REPORT)
    assert line == (
        "Cause   SM clock of GPU 0 fell 1,187 → 210 MHz; all 4 functions that ran under it got slower. "
        "It explains the longer GPU work. That work is overlapped: the cycle is slower for another reason."
    )
    assert agreed(work((0.6, 0.4), "exposed"), ["hidden", None]).path is None
    assert agreed(unknown, []).path is None


def test_the_host_does_not_set_the_pace_of_a_device_that_is_never_idle() -> None:
    assert agreed(work((0.01, 0.04)), ["hidden", "hidden"]).path is None


@pytest.mark.parametrize(("cycle", "said"), [
    ("unchanged", "It explains the GPU work; the cycle kept its length."),
    ("faster", "It explains the GPU work; whether the cycle waits for that work is not recorded."),
])
def test_a_clock_that_rose_is_what_made_the_device_faster(cycle: Literal["unchanged", "faster"], said: str) -> None:
    rose = replace(CLOCK_FELL, mu_a=210.0, mu_b=1187.0, functions=0, loss=-1.7)
    shrank = replace(CLOCK_FELL, metric="host_cpu_usage", device="Host", mu_a=5.9, mu_b=7.9, unit="%", loss=0.1)
    cycles = replace(SLOWER, verdict=cycle)
    faster = DeviceWork("GPU 0", 1, 1, 155.0, 43.0)
    both = [shrank, rose]
    assert cause_lines(cause_of(both, cycles, [faster], ()), both, cycles, REPORT) == [
        f"Cause   SM clock of GPU 0 rose 210 → 1,187 MHz. {said}"
    ]
    assert cause_of([rose], SLOWER, [faster], ()).resource is None
    assert cause_of(both, cycles, [work((0.6, 0.4))], ()).resource == shrank


def test_a_processor_that_is_free_again_may_explain_the_faster_cycle() -> None:
    free = replace(CLOCK_FELL, metric="cpu_frequency", device="Host", mu_a=22.5, mu_b=87.5, unit="%", loss=-1.4)
    cause = cause_of([free], replace(SLOWER, verdict="faster"), [DeviceWork("GPU 0", 1, 1, 51.0, 51.0)], ())
    assert (cause.resource, cause.reach) == (free, "maybe faster cycle")


def test_outliers_are_named_with_what_they_have_more_of() -> None:
    slow = tuple(Outlier("B", cycle, ms, ms - 750, ("host",)) for cycle, ms in ((9, 863.0), (10, 1001.0)))
    one = Shape("one level", 0, 12)
    kept = CycleTime("unchanged", 12, 10, 750.0, 780.0, 750.0, 751.0, 750.0, 752.6, 2.6, -9.4, 19.0, 0.05, one, one,
                     outliers=slow)
    assert cycle_sentence(kept, REPORT) == (
        "unchanged (mean 750 → 753 ms, 95% CI −9.4 to +19 ms, median 750 → 751 ms). "
        "B has 2 outliers, #9 863 ms and #10 1,001 ms: extra host time"
    )


def test_what_is_left_out_of_a_verdict_is_said_with_it() -> None:
    calm = np.array([100.0 + at % 3 for at in range(20)])
    late = np.concatenate(([130.0], calm[1:]))
    odd = late.copy()
    odd[9] = 190.0
    said = [cycle_sentence(compare_lengths(a, b), REPORT).partition(". ")[0] for a, b in (
        (calm[1:8], calm[1:8]), (late, late), (late, odd))]
    assert "without" not in said[0]
    assert ", without the first cycle)" in said[1] and ", without the first cycle and outliers)" in said[2]


def test_the_work_of_a_device_is_unchanged_only_where_the_judge_says_so() -> None:
    same = DeviceWork("GPU 0", 1, 1, 10.0, 10.1)
    texts = [device_lines([replace(same, verdict=word)], [], {}, 100.0)[0] for word in ("unchanged", "not judged")]
    assert "10.0 → 10.1 ms (unchanged)" in texts[0] and "10.0 → 10.1 ms (+1.0%)" in texts[1]


def test_runs_of_one_label_are_told_apart_by_the_folder_that_differs() -> None:
    def named(source: str, label: str = "worker0") -> Trace:
        return Trace(Info(source, label, "t"))

    def labels(*runs: Trace) -> list[str]:
        return [run.info.label for run in distinct_labels(runs)]

    four, none = named("/runs/resnet50_4/worker0.json.gz"), named("/runs/resnet50_0/worker0.json.gz")
    assert labels(four, none) == ["resnet50_4/worker0", "resnet50_0/worker0"]
    assert labels(named("/a/out/worker0.json"), named("/b/out/worker0.json")) == ["a/worker0", "b/worker0"]
    assert labels(four, four) == ["worker0", "worker0"]
    assert labels(four, named("/x/y.json", "other")) == ["worker0", "other"]
    assert headline(distinct_labels((four, none))) == "resnet50_4/worker0 → resnet50_0/worker0"


def test_the_facts_of_an_export_are_the_verdict_they_were_written_from() -> None:
    table = ask(VIEW, (summed("a", 4_830_000_000), summed("b", 114_000_000)))
    assert verdict_of(table.facts).facts() == {name: one for name, one in table.facts.items() if name != "lines"}
    assert gate(table).sentence == "NOT JUDGED: the runs have no cycles in common"


def test_a_metric_knows_which_other_one_says_what_the_process_uses_of_it() -> None:
    assert metric("host_cpu_usage", "%", 56.0).own_use == "process_cpu_usage"
    assert metric("gpu_sm_frequency", "MHz", 118_000.0).own_use is None


def test_cycles_that_processes_share_are_counted_once_and_those_of_ranks_each() -> None:
    def side(*lengths: float) -> RunSamples:
        none = np.zeros((0, len(lengths)))
        return RunSamples(np.arange(len(lengths)), np.array(lengths), np.ones(len(lengths), dtype=bool), none, none)

    def counted(*a: RunSamples) -> tuple[int, int]:
        b = side(9.0, 9.5)
        return left_out([Matched(ProcessPair(pid, 7, False), pl.DataFrame(), one, b, SampleCoverage(3, 1),
                                 SampleCoverage(2, 0)) for pid, one in enumerate(a)])

    assert counted(side(1.0, 2.0, 3.0), side(1.0, 2.0, 3.0)) == (5, 1), "one pattern of launches of two processes"
    assert counted(side(1.0, 2.0, 3.0), side(1.1, 2.1, 3.1)) == (8, 2), "steps of two ranks"
