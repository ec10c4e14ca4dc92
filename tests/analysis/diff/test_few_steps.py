"""Runs with too few steps to judge by them: what a launch takes is compared, per step that was recorded whole."""

from __future__ import annotations

from typing import Any

import pytest
from runs import host, kernel, run_of, steps

from warplens.analysis.diff.pooled import pooled
from warplens.analysis.query.ask import ask
from warplens.analysis.views import view
from warplens.analysis.views.diff import VIEW
from warplens.loaders.trace import Trace


def test_device_figures_are_per_step_that_was_seen_whole() -> None:
    cycles = steps(1_000_000, 1_000_000)
    cycles[1]["complete"] = False
    run = run_of(kernels=[kernel(at, 10_000 * at, 5_000) for at in range(8)], cycles=cycles)
    (row,) = ask(VIEW, (run, run)).frame.to_dicts()
    assert (row["launches_a"], row["a_ms"]) == (8, 0.04)


def test_the_diff_and_the_other_views_say_which_mean_they_show() -> None:
    each = (10, 12, 14, 16, 18, 100)  # µs in the cycle
    run = run_of(kernels=[kernel(at, 1_000_000 * at, 1_000 * us) for at, us in enumerate(each)],
                 cycles=steps(*[1_000_000] * 6))
    diff, kernels = ask(VIEW, (run, run)), ask(view("kernels"), (run, run))
    (row,) = (row for row in diff.frame.to_dicts() if row["function"] == "gemm")
    assert row["a_ms"] == pytest.approx((12 + 14 + 16 + 18 + 100) / 5 / 1e3)
    assert kernels.frame["per_cycle_ns_a"][0] == 28_333
    assert any(note.startswith("Times of rows are means of their compared") for note in diff.notes)
    assert kernels.summary[0].endswith("(mean of 6 whole cycles in A, 6 in B).")


def test_a_marked_step_that_launches_less_keeps_its_length_and_has_an_account() -> None:
    launches = [at for at in range(64) if at < 60 or at == 60]  # four in each step but the last
    calls = [host("cudaLaunchKernel", 1_000_000 * at, 5_000, "runtime", correlation=at + 1) for at in launches]
    run = run_of(kernels=[kernel(at, 1_000_000 * at + 10_000, 900_000 + at, correlation=at + 1) for at in launches],
                 host=calls, cycles=steps(*[4_000_000] * 15, 1_000_000))
    facts = ask(VIEW, (run, run)).facts
    assert facts["cycle_time"]["cycles_a"] == 16
    assert facts["cycle_time"]["mean_a_ms"] == pytest.approx((15 * 4 + 1) / 16, rel=0.01)
    assert [one["cycle"] for one in facts["cycle_time"]["left_out_a"]] == [15]  # counted from 0
    assert facts["change"]["delta_ms"] == 0


MS = 1_000_000


def loading(wait: int, cycles: int = 1, seed: int = 0) -> Trace:
    """Steps in which four kernels of 1 ms run, each after that many ms of loading input."""
    kernels: list[dict[str, Any]] = []
    calls, loads, now, lengths = [], [], 0, []
    for _ in range(cycles):
        start = now
        for _ in range(4):
            number = len(kernels)
            length = wait * MS + (seed * 7919 + number * 104_729) % 30_000  # of the last digits no two are alike
            loads.append(host("enumerate(DataLoader)#x", now, length, "dataloader"))
            calls.append(host("cudaLaunchKernel", now + length, 10_000, "runtime", correlation=number + 1))
            kernels.append(kernel(number, now + length + 10_000, MS, correlation=number + 1))
            now += length + MS + 20_000
        lengths.append(now - start)
    return run_of(f"{wait}-{seed}", kernels=kernels, host=[*loads, *calls], cycles=steps(*lengths))


def test_a_pair_of_single_steps_has_the_idle_time_of_both_by_cause() -> None:
    rows = ask(VIEW, (loading(2), loading(9))).frame.to_dicts()
    (idle,) = (row for row in rows if row["function"] == "idle: DataLoader (input)")
    # the lead of the only step counts: from its mark on the device waited
    assert (idle["a_ms"], idle["b_ms"]) == (pytest.approx(8, abs=0.1), pytest.approx(36, abs=0.1))
    assert idle["verdict"] == "too few cycles" and idle["device"] == "GPU 0"


def test_the_length_of_a_single_step_is_its_step_time_as_everywhere() -> None:
    late = run_of(  # the mark ends 4 ms before what was launched in it
        kernels=[kernel(0, MS, 9 * MS, correlation=1)], host=[host("cudaLaunchKernel", 0, 5_000, "runtime",
                                                                  correlation=1)], cycles=steps(6 * MS))
    facts = ask(VIEW, (late, late)).facts
    assert facts["cycle_time"]["mean_a_ms"] == pytest.approx(10)


def test_device_time_says_that_it_is_of_what_the_step_launched_and_what_it_leaves_out() -> None:
    """Beside it stood how busy the device was, which what was launched before the recording is part of."""
    run = loading(2)
    before = run_of(
        kernels=[kernel(99, 1_000, 1_500_000, correlation=99), *run.kernels.collect().to_dicts()],
        host=run.host.collect().to_dicts(), cycles=steps(20 * MS))
    table = ask(VIEW, (before, run))
    assert table.summary[1] == "GPU     4.00 → 4.00 ms of device time launched per step for the same work (0.0%)"
    left = "Device time launched before the recording is left out: 1.50 ms in A."
    assert left in table.notes
    assert not any("launched before" in note for note in ask(VIEW, (run, run)).notes)


def test_repeated_runs_are_compared_by_cause_of_idle_time() -> None:
    table = pooled([loading(2, 6, seed) for seed in range(3)], [loading(9, 6, seed) for seed in range(3, 6)])
    (idle,) = (row for row in table.frame.to_dicts() if row["function"] == "idle: DataLoader (input)")
    assert idle["delta_ms"] == pytest.approx(28, rel=0.05)
