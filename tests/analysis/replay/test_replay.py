"""A replay ends when the run did, knows what every change saves, and refuses where what orders the run is missing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from runs import host, kernel, run_of, samples, steps
from simulator import KINDS, simulate

from warplens.analysis.contract.changes import Change, NotAChange, parse
from warplens.analysis.contract.options import Options
from warplens.analysis.contract.view import CannotAnswer
from warplens.analysis.core import derived, units
from warplens.analysis.query.ask import ask
from warplens.analysis.replay import answer
from warplens.analysis.replay.answer import predictions
from warplens.analysis.replay.apply import NO_LEAST
from warplens.analysis.replay.candidates import candidates
from warplens.analysis.replay.model import Model
from warplens.analysis.replay.replayed import Replayed
from warplens.analysis.views import view
from warplens.loaders.ingest.opening import open_run

CHANGES = [
    ("kernel", "gemm_forward", 0.0), ("kernel", "gemm_backward", 0.5), ("kernel", "norm", 1.7),
    ("collective", "nccl", 0.0), ("copy", "Memcpy HtoD", 0.0), ("host", "aten::addmm", 0.3), ("host", "train.py", 2.0),
    ("host", "DataLoader", 0.0), ("sync", "cudaStreamSynchronize", 0.0),
]


@pytest.mark.parametrize("pace", KINDS)
def test_an_unchanged_run_ends_when_it_did(pace: str) -> None:
    run, cycle = simulate(3, pace)
    replayed = Replayed(run, Options())
    assert replayed.accuracy.trusted and replayed.accuracy.reason is None
    assert abs(replayed.accuracy.error or 0.0) < 1e-3 and (replayed.accuracy.cross_error or 0.0) < 1e-2
    assert replayed.cycle_ns == pytest.approx(cycle, rel=1e-3)


@pytest.mark.parametrize("pace", KINDS)
@pytest.mark.parametrize(("kind", "name", "factor"), CHANGES)
def test_a_change_saves_what_it_saves_in_the_simulator(pace: str, kind: str, name: str, factor: float) -> None:
    run, cycle = simulate(5, pace)
    _, after = simulate(5, pace, lambda what, of: factor if what == kind and name in of else 1.0)
    saved = Replayed(run, Options()).saved_ns(Change(kind, name, factor))
    assert saved == pytest.approx(cycle - after, abs=max(0.02 * abs(cycle - after), 0.002 * cycle))


def test_several_changes_are_replayed_as_one() -> None:
    run, cycle = simulate(6, "host")
    both = {"kernel": 0.0, "host": 0.5}
    _, after = simulate(6, "host", lambda what, of: both.get(what, 1.0))
    saved = Replayed(run, Options()).saved_ns(Change("kernel"), Change("host", "", 0.5))
    assert saved == pytest.approx(cycle - after, rel=0.03)


def test_input_as_a_cause_of_idle_time_is_the_loader_with_all_it_calls() -> None:
    run, cycle = simulate(7, "input")
    _, after = simulate(7, "input", lambda what, of: 0.0 if "DataLoader" in of else 1.0)
    assert Replayed(run, Options()).saved_ns(Change("idle", "input")) == pytest.approx(cycle - after, rel=0.01)


@pytest.mark.parametrize("pace", KINDS)
def test_a_graph_saves_what_the_same_run_with_one_launch_saves(pace: str) -> None:
    """The launches up to where the host waits or the cycle ends are one; kernels and their dependencies stay."""
    run, cycle = simulate(8, pace)
    _, after = simulate(8, pace, graph=True)
    saved = Replayed(run, Options()).saved_ns(Change("graph"))
    assert saved == pytest.approx(cycle - after, abs=max(0.02 * abs(cycle - after), 0.005 * cycle))


@pytest.mark.parametrize("pace", KINDS)
def test_the_critical_path_adds_up_to_the_cycle(pace: str) -> None:
    answer = view("whatif").build((simulate(9, pace)[0],), Options())
    assert sum(answer.facts["critical_path"]["kinds"].values()) == pytest.approx(1.0)
    on_path = max(answer.facts["critical_path"]["kinds"], key=answer.facts["critical_path"]["kinds"].__getitem__)
    assert on_path == {"host": "host", "input": "host", "communication": "collective"}.get(pace, "kernel")


def test_what_takes_most_is_not_what_wins_most_where_nobody_waits_for_it() -> None:
    frame = view("whatif").build((simulate(10, "host")[0],), Options()).frame.collect()
    kernels = frame.filter(kind="kernels", name="all kernels").row(0, named=True)
    code = frame.filter(kind="host", name="all host code").row(0, named=True)
    assert kernels["takes"] > 0.3 and kernels["share"] < 0.05 < code["share"]


def test_changes_that_come_to_the_same_are_replayed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two kernels of one family are all kernels: that family is no change of its own."""
    turned, cycles_with = list[tuple[float, ...]](), Model.cycles_with
    monkeypatch.setattr(Model, "cycles_with", lambda self, knobs, **more: turned.append(
        knobs.changes_from(self.recorded)) or cycles_with(self, knobs, **more))
    calls = [host("cudaLaunchKernel", 30_000 * n, 5_000, "runtime", correlation=n + 1) for n in range(40)]
    kernels = [kernel(n, 30_000 * n + 6_000, 20_000, f"gemm_{'nt'[n % 2]}", correlation=n + 1, pid=1, stream=7)
               for n in range(40)]
    run = run_of(kernels=kernels, host=calls, cycles=steps(600_000, 600_000))
    found = candidates(run, replayed := Replayed(run, Options()))
    assert [one.name for one in found if one.several] == ["all kernels"]
    effects = [replayed.knobs(one.change)[0].changes_from(replayed.model.recorded) for one in found if replayed.model]
    assert len(set(effects)) < len(effects) and answer._rows(run, replayed)
    assert sorted(turned) == sorted({effect for effect in effects if any(effect)})


def test_a_scenario_says_old_and_new_cycle_and_what_matches_nothing() -> None:
    run, cycle = simulate(11, "device")
    answer = view("whatif").build((run,), Options(changes=("kernel:gemm=0", "kernel:absent=0")))
    scenario = answer.facts["scenario"]
    assert scenario["cycle_ns"] == pytest.approx(cycle, rel=1e-3)
    assert scenario["saved_ns"] == scenario["cycle_ns"] - scenario["predicted_ns"] > 0
    assert any("kernel:absent=0 matches nothing" in note for note in answer.notes)
    nothing = view("whatif").build((run,), Options(changes=("kernel:absent=0",)))
    assert nothing.summary[0] == f"With kernel:absent=0 the cycle takes as long as without: {units.duration(cycle)}."


def test_rows_are_kept_beside_the_tables_under_the_same_peaks(samples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, found = samples / "demo" / "normal.json.gz", list[Replayed]()
    fresh, rows = predictions(open_run(str(path))[0], Options(), ()), answer._rows
    monkeypatch.setattr(answer, "_rows", lambda run, replayed: found.append(replayed) or rows(run, replayed))
    monkeypatch.setattr(derived, "LEAST_BYTES", 0)
    for settings, count in (("", 1), ("", 1), ("others", 2), ("", 2)):
        monkeypatch.setattr(answer, "settings_text", lambda said=settings: said)
        again = predictions(open_run(str(path))[0], Options(), (Change("host", "", 0.5),))
        assert again.rows == fresh.rows != () and again.scenario is not None and len(found) == count
    predictions(open_run(str(path))[0], Options(cycle_anchor="ProfilerStep"), ())
    assert len(found) == 3


def test_a_pair_says_what_was_predicted_and_what_came() -> None:
    before, _ = simulate(12, "input")
    after, _ = simulate(12, "input", lambda what, of: 0.0 if "DataLoader" in of else 1.0)
    answer = view("whatif").build((before, after), Options(changes=("host:DataLoader=0",)))
    assert answer.facts["a"]["replay"]["trusted"] and answer.facts["b"]["replay"]["trusted"]
    assert any(line.startswith("Predicted for A") for line in answer.summary)


def test_without_launch_calls_nothing_is_replayed_and_it_says_why() -> None:
    answer = view("whatif").build((run_of(kernels=[kernel(0, 0, 10), kernel(1, 20, 10)]),), Options())
    assert answer.facts["replay"] is None and answer.frame.collect().is_empty()
    assert "no launch calls were recorded" in answer.summary[0]


@pytest.mark.parametrize("first", [True, False], ids=["A lacks it", "B lacks it"])
def test_a_run_that_cannot_be_replayed_does_not_hide_what_would_speed_up_the_other(first: bool) -> None:
    run, bare = simulate(3, KINDS[0])[0], run_of("bare", metrics=samples("sm", "GPU 0", (0, 5.0), unit="%"))
    runs, lacks, has = ((bare, run), "A", "B") if first else ((run, bare), "B", "A")
    table = ask(view("whatif"), runs)
    assert table.frame["run"].unique().to_list() == [has]
    assert table.frame["saved_ns"].to_list() == ask(view("whatif"), (run,)).frame["saved_ns"].to_list()
    assert any(said.startswith(f"{lacks}: bare cannot be replayed: it holds no launches.") for said in table.summary)
    assert not any("cycle" in column.header for column in table.columns), "it may be per recording"
    with pytest.raises(CannotAnswer, match=r"^bare cannot be replayed: it holds no launches"):
        ask(view("whatif"), (bare, bare))


def test_calls_that_allocate_between_launches_are_among_the_changes() -> None:
    ms = 1_000_000
    calls = [one for at in range(8) for one in (
        host("cudaLaunchKernel", at * ms, 10_000, "runtime", correlation=at + 1),
        host("cudaMalloc", at * ms + 20_000, ms - 40_000, "runtime"))]
    run = run_of("mallocs", host=calls, kernels=[
        kernel(at, at * ms + 15_000, 50_000, stream=7, correlation=at + 1) for at in range(8)])
    table = ask(view("whatif"), (run,))
    row = next(row for row in table.frame.to_dicts() if row["kind"] == "idle" and row["name"] == "allocation")
    assert row["count"] == 8 and row["saved_ns"] == pytest.approx(7 * (ms - 40_000), rel=0.15)
    assert table.summary[0].startswith("Without idle time in allocation the recording takes ")
    assert ", counted from its first launch)" in table.summary[0]


def test_launches_of_a_recording_without_cycles_become_one_per_recording() -> None:
    calls = [host("cudaLaunchKernel", 30_000 * n, 5_000, "runtime", correlation=n + 1) for n in range(40)]
    kernels = [kernel(n, 30_000 * n + 6_000, 15_000, correlation=n + 1, pid=1, stream=7) for n in range(40)]
    run, whatif = run_of(kernels=kernels, host=calls), view("whatif")
    answer = whatif.build((run,), Options())
    (graph,) = (row for row in answer.frame.collect().to_dicts() if row["kind"] == "graph")
    assert graph["name"] == "one graph launch per recording" and "the recording takes" in answer.summary[0]
    assert "per cycle" not in " ".join(answer.summary)
    assert whatif.details is not None
    path = whatif.details(graph, (run,), Options())[0]
    assert path.title == "Critical path of a recording" and path.rows[0][0] == "recording"


@pytest.mark.parametrize("part", [1.0, 0.5])
def test_a_time_per_cycle_that_holds_more_than_the_cycles_says_so(part: float) -> None:
    run, _ = simulate(3, "host")
    marked = run.cycles.with_columns((pl.col("dur_ns") * part).cast(pl.Int64))
    said = view("whatif").build((run.with_tables(cycles=marked),), Options()).summary[0]
    assert (", the time between cycles included)" in said) == (part < 1)


def test_waits_that_nobody_recorded_are_refused() -> None:
    kernels = [kernel(n, 1_000_000 * n, 50_000, correlation=n + 1, pid=1) for n in range(10)]
    calls = [host("cudaLaunchKernel", 10_000 * n, 5_000, "runtime", correlation=n + 1) for n in range(10)]
    accuracy = Replayed(run_of(kernels=kernels, host=calls, cycles=steps(100_000)), Options()).accuracy
    assert not accuracy.trusted and accuracy.reason is not None and "no recorded cause" in accuracy.reason
    assert accuracy.unexplained is not None and accuracy.unexplained > 0.1


def test_threads_that_launch_in_turn_without_recorded_host_code_have_untraced_time() -> None:
    kernels = [kernel(n, 10_000 * n + 6_000, 3_000, correlation=n + 1, pid=1) for n in range(10)]
    calls = [host("cudaLaunchKernel", 10_000 * n, 5_000, "runtime", correlation=n + 1) | {"tid": n % 2}
             for n in range(10)]
    replayed = Replayed(run_of(kernels=kernels, host=calls, cycles=steps(50_000, 50_000)), Options())
    assert {cause: int(time.sum()) for cause, time in replayed.host.by_cause.items() if time.any()} == {
        "untraced": int(replayed.model.gap.sum()) if replayed.model else 0}
    assert replayed.saved_ns(Change("host", "")) == 23_000, "two steps of 50 end with the last kernel, at 54"


@pytest.mark.parametrize("text", ["kernel", "gpu:x=0", "kernel:(=0", "kernel:x=-1", "kernel:x=fast", "sync:x=peak"])
def test_what_is_no_change_is_refused(text: str) -> None:
    with pytest.raises(NotAChange):
        parse(text)


@pytest.mark.parametrize("text", ["kernel:a=b=0.5", "host=0", "graph", "op:aten::mm=peak"])
def test_a_change_is_written_as_it_is_typed(text: str) -> None:
    assert parse(text).text == text


def test_peak_takes_what_is_known_to_its_least_time_and_leaves_the_rest() -> None:
    replayed = Replayed(simulate(13, "device")[0], Options())
    work = replayed.model.recording.activities if replayed.model else None
    assert work is not None and (replayed.least == NO_LEAST).all()
    assert replayed.with_changes((Change("kernel", "", None),))[1] == ("kernel=peak",)
    replayed.least = np.where(work.name.where(lambda name: name == "norm"), work.dur // 4, NO_LEAST)
    saved = replayed.saved_ns(Change("kernel", "norm", 0.25))
    assert replayed.saved_ns(Change("kernel", "", None)) == pytest.approx(saved, rel=1e-4)


def test_a_call_that_returns_when_its_copy_is_done_does_not_hold_the_kernels_before_it() -> None:
    """Its length and the copy's late start are the kernels', not the host's."""
    kernels, calls = list[dict[str, object]](), list[dict[str, object]]()
    now = correlation = 0
    for _ in range(6):
        begin = now
        for number in range(20):
            correlation += 1
            calls.append(host("cudaLaunchKernel", now, 5_000, "runtime", correlation=correlation))
            start = max(now + 9_000, begin + 9_000 + 500_000 * number)
            kernels.append(kernel(len(kernels), start, 499_000, "gemm", correlation=correlation, pid=1, stream=7))
            now += 20_000
        correlation += 1
        end = begin + 9_000 + 500_000 * 20
        kernels.append(kernel(len(kernels), end, 2_000, "Memcpy DtoH (Device -> Pageable)", kind="memcpy",
                              correlation=correlation, pid=1, stream=7))
        calls.append(host("cudaMemcpyAsync", now, end + 12_000 - now, "runtime", correlation=correlation))
        now = end + 40_000
    replayed = Replayed(run_of(kernels=kernels, host=calls), Options())
    assert replayed.accuracy.trusted
    assert replayed.saved_ns(Change("kernel", "gemm", 0.5)) == pytest.approx(0.5 * 20 * 499_000, rel=0.02)


@pytest.mark.parametrize("name", ["rpd/mytrace.rpd.gz", "nsys_sqlite/power_iteration__baseline.sqlite"])
def test_faster_kernels_save_what_slower_ones_cost(name: str) -> None:
    """A start that is kept as recorded would save nothing and cost all of it; neither length nor error show that."""
    path = Path(__file__).resolve().parents[3].parent / "shared" / "data" / "traces" / name
    if not path.exists():
        pytest.skip("the recordings are not here")
    replayed = Replayed(open_run(str(path), use_cache=False)[0], Options())
    saved, cost = (abs(replayed.saved_ns(Change("kernel", "", factor))) for factor in (0.95, 1.05))
    assert saved == pytest.approx(cost, rel=0.05) and saved > 0.02 * replayed.cycle_ns


@pytest.mark.parametrize("pace", KINDS)
@pytest.mark.parametrize(("kind", "name"), [("kernel", "gemm_forward"), ("collective", "nccl"), ("host", "aten::mm")])
def test_a_tenth_slower_costs_what_a_tenth_faster_saves_in_a_replay_and_in_the_simulator(
        pace: str, kind: str, name: str) -> None:
    """Where the simulator says that both are on the critical path: there a tenth is a tenth of it either way."""
    run, cycle = simulate(14, pace)
    fast, slow = (simulate(14, pace, lambda what, of, by=by: by if what == kind and name in of else 1.0)[1]
                  for by in (0.9, 1.1))
    replayed = Replayed(run, Options())
    saved, cost = (replayed.saved_ns(Change(kind, name, by)) * sign for by, sign in ((0.9, 1), (1.1, -1)))
    assert saved == pytest.approx(cycle - fast, abs=2e-3 * cycle)
    assert cost == pytest.approx(slow - cycle, abs=2e-3 * cycle)
    if cycle - fast == pytest.approx(slow - cycle, rel=0.01) and cycle - fast > 2e-3 * cycle:
        assert saved == pytest.approx(cost, rel=0.03)


def waiting(delays: list[int]) -> Replayed:
    """A run whose host waits for each of its kernels of 1 ms, and goes on so long (ns) after it ended."""
    kernels, calls, now = list[dict[str, object]](), list[dict[str, object]](), 0
    for number, delay in enumerate(delays):
        end = now + 9_000 + 1_000_000
        kernels.append(kernel(number, now + 9_000, 1_000_000, "gemm", correlation=number + 1, pid=1, stream=7))
        calls += [host("cudaLaunchKernel", now, 5_000, "runtime", correlation=number + 1),
                  host("cudaStreamSynchronize", now + 6_000, end + delay - now - 6_000, "runtime")]
        now = end + delay + 20_000
    return Replayed(run_of(kernels=kernels, host=calls), Options())


def test_waits_that_all_return_equally_late_are_waits_for_the_device_and_others_are_not() -> None:
    late = waiting([99_000 + 200 * n for n in range(12)])
    assert late.accuracy.trusted and late.accuracy.unexplained == pytest.approx(100 / 1_129, rel=0.05)
    assert late.saved_ns(Change("kernel", "gemm", 0.5)) == pytest.approx(12 * 500_000, rel=0.01)
    irregular, few = waiting([40_000 + 37_000 * (5 * n % 12) for n in range(12)]), waiting([100_000] * 5)
    assert irregular.accuracy.reason is not None and few.accuracy.reason is not None
