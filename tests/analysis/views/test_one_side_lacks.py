"""Two runs of which one lacks what a view is about: it is that one which is named, whichever side it is on."""

from __future__ import annotations

import pytest
from runs import host, kernel, run_of, samples, steps

from warplens.analysis.contract.options import Options
from warplens.analysis.contract.view import CannotAnswer
from warplens.analysis.details.row_details import details
from warplens.analysis.query.ask import ask
from warplens.analysis.views import view
from warplens.loaders.trace import Trace


@pytest.fixture(scope="module")
def whole() -> Trace:
    """A run with everything a step has."""
    launches = [kernel(number, 1_000 * number + 300, 400, stream=7, correlation=number + 1) for number in range(40)]
    launches[3] |= {"name": "ncclDevKernel_AllReduce_Sum_f32", "kind": "collective"}
    copies = [{**kernel(40, 39_800, 100, "Memcpy HtoD (Pinned -> Device)", correlation=41), "kind": "memcpy"}]
    calls = [host("cudaLaunchKernel", 1_000 * number, 200, "runtime", correlation=number + 1) for number in range(41)]
    marks = [host("forward", 1_000 * number, 900, "annotation") for number in range(40)]
    ops = [host("aten::mm", 1_000 * number, 500) for number in range(40)]
    return run_of("whole", kernels=launches + copies, host=sorted(calls + marks + ops, key=lambda row: row["start_ns"]),
                  cycles=steps(*[10_000] * 4))


@pytest.fixture(scope="module")
def bare() -> Trace:
    """A run of nothing but a counter."""
    return run_of("bare", metrics=samples("sm", "GPU 0", (0, 5.0), (100, 7.0), unit="%"))


@pytest.mark.parametrize("first", [True, False], ids=["A lacks it", "B lacks it"])
@pytest.mark.parametrize("name", [
    "overview", "cycles", "kernels", "timeline", "diff", "ranks",
])
def test_the_run_that_lacks_it_is_the_one_named(whole: Trace, bare: Trace, name: str, first: bool) -> None:
    with pytest.raises(CannotAnswer) as refused:
        ask(view(name), (bare, whole) if first else (whole, bare))
    assert str(refused.value).startswith("bare ") and "whole" not in str(refused.value)
    assert not str(refused.value).startswith("bare hold "), "one run holds"


def test_without_cycles_in_one_run_those_of_the_other_are_pointed_to(whole: Trace, bare: Trace) -> None:
    for runs, letter in (((bare, whole), "b"), ((whole, bare), "a")):
        with pytest.raises(CannotAnswer, match=f"--run {letter} shows the 4 cycles of {letter.upper()}, x in the app"):
            ask(view("cycles"), runs)
    with pytest.raises(CannotAnswer, match=r"^Neither run has cycles: no step marks"):
        ask(view("cycles"), (bare, run_of("other", metrics=samples("sm", "GPU 0", (0, 5.0), unit="%"))))


@pytest.mark.parametrize("first", [True, False], ids=["A lacks it", "B lacks it"])
def test_where_one_side_is_an_answer_the_other_is_said_to_have_none(whole: Trace, bare: Trace, first: bool) -> None:
    runs, lacks, has = ((bare, whole), "A", "B") if first else ((whole, bare), "B", "A")
    triage = ask(view("triage"), runs)
    of_bare = [row["finding"] for row in triage.frame.to_dicts() if row["run"] == lacks]
    assert len(of_bare) == 1 and of_bare[0].startswith("Counters show no fault")
    assert any(section.title.startswith(f"{has} alone: ") and "whole: " in str(section) for section in triage.page)
    counters = ask(view("metrics"), runs)
    assert set(counters.summary) == {f"{has}: 0 counters, 0 samples", f"{lacks}: 1 counter, 2 samples"}
    assert counters.frame.height == 1


@pytest.mark.parametrize("first", [True, False], ids=["A lacks it", "B lacks it"])
@pytest.mark.parametrize("name", ["ops", "idle", "ranges", "calls", "copies", "collectives"])
def test_what_only_one_run_has_is_listed_and_unknown_in_the_other(
    whole: Trace, bare: Trace, name: str, first: bool
) -> None:
    runs, lacks, has = ((bare, whole), "A", "B") if first else ((whole, bare), "B", "A")
    table, alone = ask(view(name), runs), ask(view(name), (whole,))
    shown = next(one.name for one in alone.columns if one.role == "time") if name != "idle" else "total_ns"
    of_one = alone.frame["dur_ns" if name == "idle" else shown]
    assert table.frame[f"{shown}_{has.lower()}"].sum() == of_one.sum() > 0
    assert table.frame[f"{shown}_{lacks.lower()}"].null_count() == table.frame.height, "unknown, not 0"
    assert table.frame[f"{shown}_delta"].null_count() == table.frame.height
    assert table.facts["per"] == "recording"
    assert any(said.startswith(f"{lacks}: bare holds no ") for said in table.summary)
    assert details(view(name), table, 0, runs, Options()).sections


@pytest.mark.parametrize("first", [True, False], ids=["A", "B"])
def test_device_times_of_a_run_of_the_host_alone_are_unknown_not_zero(whole: Trace, first: bool) -> None:
    work = [host("aten::mm", 10_000 * n, 500) for n in range(4)] + [host("forward", 90, 900, "annotation")]
    alone = run_of("host", host=work, cycles=steps(*[10_000] * 4))
    runs, lacks = ((alone, whole), "a") if first else ((whole, alone), "b")
    for name, on_host in (("ops", "host_self_per_cycle_ns"), ("ranges", "total_per_cycle_ns")):
        table = ask(view(name), runs)
        has = "b" if first else "a"
        assert table.facts["per"] == "cycle" and table.frame[f"per_cycle_ns_{has}"].sum() > 0
        assert table.frame[f"per_cycle_ns_{lacks}"].count() == table.frame["per_cycle_ns_delta"].count() == 0
        assert table.frame[f"{on_host}_delta"].null_count() == 0, "host times of both are known"
        assert "unknown" in table.summary[0]
    categories = {row["category"]: row for row in ask(view("overview"), runs).frame.to_dicts()}
    kernels, gone = categories["Kernel"], categories["Runtime"]
    assert (kernels[f"time_ns_{lacks}"], kernels["time_ns_delta"]) == (None, None)
    assert gone[f"time_ns_{lacks}"] == 0, "the host was recorded and made no such call"


def test_a_diff_of_runs_of_the_host_alone_points_to_their_operators() -> None:
    step = [host("aten::mm", 10, 500)]
    one, other = run_of("one", host=step, cycles=steps(10_000)), run_of("other", host=step, cycles=steps(9_000))
    with pytest.raises(CannotAnswer, match=r"^one and other hold neither .*; ops compares their operators"):
        ask(view("diff"), (one, other))


@pytest.mark.parametrize("name", ["ops", "idle", "ranges", "calls", "copies", "roofline", "types", "collectives"])
def test_what_both_runs_lack_is_not_said_of_one(bare: Trace, name: str) -> None:
    other = run_of("other", metrics=samples("sm", "GPU 0", (0, 5.0), unit="%"))
    with pytest.raises(CannotAnswer, match=r"^Neither run (holds|names) (?!no )") as refused:
        ask(view(name), (bare, other))
    assert "bare" not in str(refused.value) and "other" not in str(refused.value)


def test_samples_are_of_the_run_that_has_them_which_is_named(whole: Trace, bare: Trace) -> None:
    for runs, said in (((bare, whole), "A; the other run holds none."), ((whole, bare), "B; the other run holds none."),
                       ((bare, bare), "A; `--run b` gives those of B.")):
        table = ask(view("samples"), runs)
        assert (len(table), table.notes) == (2, (f"These are the samples of {said}",))
    assert ask(view("samples"), (bare,)).notes == ()


def on_devices(*numbers: int, rank: int | None = None) -> Trace:
    rows = [kernel(10 * number + at, 100 * at, 50, device=f"GPU {number}", rank=rank)
            for number in numbers for at in range(4)]
    return run_of("run", kernels=rows, cycles=steps(200, 200))


@pytest.mark.parametrize("first", [True, False], ids=["A lacks it", "B lacks it"])
@pytest.mark.parametrize("name", ["kernels", "idle"])
def test_the_sums_of_a_device_a_run_does_not_have_are_blank_not_zero(name: str, first: bool) -> None:
    runs, lacks, has = ((on_devices(0), on_devices(0, 1)), "a", "b") if first else (
        (on_devices(0, 1), on_devices(0)), "b", "a")
    on_0, on_1 = ask(view(name), runs).frame.sort("device").to_dicts()
    for total in ("total_ns", "per_cycle_ns"):
        assert on_0[f"{total}_delta"] == 0 and on_1[f"{total}_{has}"] > 0
        assert (on_1[f"{total}_{lacks}"], on_1[f"{total}_delta"]) == (None, None)
    if name == "kernels":  # beside the list, too
        assert view(name).glance is not None
        latency = view(name).glance(runs, Options())(on_1)[0]
        assert [row[0] for row in latency.rows] == [has.upper()]


def test_rows_of_a_device_a_run_does_not_have_come_last_and_the_largest_first() -> None:
    more = [kernel(10 + at, 100 * at, 10 * (at + 1), f"k{at}", device="GPU 1") for at in range(3)]
    both = run_of("run", kernels=[*on_devices(0).kernels.collect().to_dicts(), *more], cycles=steps(200, 200))
    for runs in ((both, on_devices(0)), (on_devices(0), both)):
        assert ask(view("kernels"), runs).frame["name"].to_list() == ["gemm", "k2", "k1", "k0"]


def test_a_device_that_ran_nothing_of_a_row_has_zero_of_it() -> None:
    recorded = run_of("run", kernels=[kernel(0, 0, 50), kernel(1, 100, 50, "norm", device="GPU 1")])
    row = next(row for row in ask(view("kernels"), (on_devices(0, 1), recorded)).frame.to_dicts()
               if (row["name"], row["device"]) == ("gemm", "GPU 1"))
    assert (row["total_ns_b"], row["total_ns_delta"]) == (0, -200)
