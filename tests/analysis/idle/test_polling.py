"""Polling: waits without a call, which end when the kernel launched before them does."""

from __future__ import annotations

from typing import Any

import pytest
from runs import host, kernel, run_of, steps

from warplens.analysis.contract.options import Options
from warplens.analysis.idle.attribution import idle_of
from warplens.analysis.idle.polling import polls_of
from warplens.analysis.query.ask import ask
from warplens.analysis.views import view
from warplens.loaders.trace import Trace

MS, US = 1_000_000, 1_000


def polling(times: int = 4, after: int = 20 * US, long: int = 2 * MS) -> Trace:
    """A kernel of that length is launched, and the next call comes ``after`` its end."""
    kernels: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = []
    now = 0
    for number in range(times):
        kernels.append(kernel(number, now + 10 * US, long, "notify", correlation=number + 1))
        calls.append(host("cudaLaunchKernel", now, 5 * US, "runtime", correlation=number + 1))
        now += 10 * US + long + after
    calls.append(host("cudaGetDevice", now, 5 * US, "runtime"))
    return run_of(kernels=kernels, host=calls)


def test_a_host_that_goes_on_when_its_kernel_ends_waits_for_it() -> None:
    run = polling()
    assert polls_of(run).facts == [{"name": "notify", "count": 4, "ns": 4 * (2 * MS + 25 * US)}]
    idle = idle_of(run, run)
    assert idle is not None and set(idle.devices[0].causes) <= {"sync", "launch", "dispatch"}
    assert idle.gaps.collect()["call"].unique().to_list() == ["polls notify"]


@pytest.mark.parametrize("run", [polling(2), polling(after=150 * US), polling(long=400 * US)])
def test_twice_is_chance_and_so_is_a_call_that_comes_later_or_a_short_hole(run: Trace) -> None:
    assert polls_of(run).facts == []


def test_a_shorter_kernel_shortens_a_wait_that_polls_for_it() -> None:
    answer = ask(view("whatif"), (polling(8),), Options(changes=("kernel:notify=0.5",)))
    scenario, path = answer.facts["scenario"], answer.facts["critical_path"]["kinds"]
    assert scenario["saved_ns"] == pytest.approx(8 * MS, rel=0.01)
    assert path["kernel"] > 0.9 and path["wait"] > 0 and answer.facts["polls"][0]["count"] == 8


def test_a_host_that_recorded_nothing_for_long_is_not_replayed() -> None:
    replay = ask(view("whatif"), (polling(8, after=500 * US),), Options()).facts["replay"]
    assert not replay["trusted"] and "nothing was recorded" in replay["reason"]


def test_what_a_step_mark_covers_was_recorded() -> None:
    run = polling(8, after=500 * US)
    marked = run.with_tables(cycles=run_of(cycles=steps(*[5 * MS] * 5)).cycles)
    assert ask(view("whatif"), (marked,), Options()).facts["replay"]["unexplained"] < 0.1
