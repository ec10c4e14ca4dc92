"""The diff: what changed beyond chance, and the words for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from gates import gate
from recorded import read_profile, run_of

from warplens.analysis.contract.options import Options
from warplens.analysis.contract.view import CannotAnswer
from warplens.analysis.details.suspects import function_details
from warplens.analysis.diff.pooled import pooled
from warplens.analysis.query.ask import ask
from warplens.analysis.table.table import Table
from warplens.analysis.views.diff import VIEW
from warplens.loaders import schema
from warplens.loaders.trace import Info, Trace

Row = dict[str, object]
KERNELS = {"gemm": (50.0, 4), "norm": (10.0, 8), "copy": (3.0, 2), "attention": (20.0, 4)}


def profile(
    cycles: int = 8, *, seed: int = 0, slower: dict[str, float] | None = None, calls: dict[str, int] | None = None,
    without: str | None = None, clock: float = 118_000.0, host: float = 1.0, noise: float = 0.003,
    spoil: Callable[[Row], Row | None] | None = None,
) -> Trace:
    """A made-up run: four GPU functions and the host in cycles of 10 ms, with the noise of a real one."""
    draw = np.random.default_rng(seed)
    rows: list[Row] = []
    for cycle in range(1, cycles + 1):
        length = round(10e6 * host * float(np.exp(draw.normal(0, 0.01))))
        common = {"cycle": cycle, "pid": 7, "cycle_ns": length, "cycle_start_ns": cycle * 20_000_000, "anchor": "step"}
        for name, (us, launches) in KERNELS.items():
            if name == without:
                continue
            count = (calls or {}).get(name, launches)
            each = us * (slower or {}).get(name, 1.0) * float(np.exp(draw.normal(0, noise)))
            ns = round(each * count * 1e3)
            rows.append(common | {
                "function": name, "kind": "kernel", "device": "GPU 0", "dur_ns": ns, "instances": count,
                "beta": 100 * ns / length, "metric": "gpu_sm_frequency", "mu": clock,
            })
        busy = round(8e6 * host * float(np.exp(draw.normal(0, 0.02))))
        rows.append(common | {
            "function": "oncpu", "kind": "oncpu", "device": "Host", "dur_ns": busy, "instances": 100,
            "beta": 100 * busy / length, "metric": "host_cpu_usage", "mu": 6.0 + float(draw.normal(0, 0.1)),
        })
    if spoil is not None:
        rows = [row for row in map(spoil, rows) if row is not None]
    return run_of(rows)


def diff(a: Trace, b: Trace, options: Options | None = None) -> Table:
    return ask(VIEW, (a, b), options)


def by_function(table: Table) -> dict[str, Row]:
    return {row["function"]: row for row in table.frame.to_dicts()}


def called(table: Table) -> dict[str, str]:
    return {row["function"]: row["verdict"] for row in table.frame.to_dicts() if row["verdict"] != "~"}


def test_a_run_against_itself_has_no_suspect() -> None:
    run = profile()
    assert called(diff(run, run)) == {}


def test_a_slower_kernel_is_the_first_row_and_its_change_is_inside_its_interval() -> None:
    table = diff(profile(seed=1), profile(seed=2, slower={"norm": 1.1}))
    first = table.frame.row(0, named=True)
    assert (first["function"], first["verdict"]) == ("norm", "slower")
    assert first["ci_low_ms"] < 0.008 < first["ci_high_ms"]
    assert called(table) == {"norm": "slower"}


def test_swapping_the_runs_swaps_the_verdicts_and_the_signs() -> None:
    a, b = profile(seed=1), profile(seed=2, slower={"gemm": 1.3})
    there, back = by_function(diff(a, b)), by_function(diff(b, a))
    assert (there["gemm"]["verdict"], back["gemm"]["verdict"]) == ("slower", "faster")
    for name in KERNELS:
        assert there[name]["delta_ms"] == pytest.approx(-back[name]["delta_ms"])
        assert there[name]["ci_low_ms"] == pytest.approx(-back[name]["ci_high_ms"])


def test_the_order_of_the_rows_read_does_not_matter() -> None:
    a, b = profile(seed=1), profile(seed=2, slower={"gemm": 1.3})
    shuffled = tuple(run.with_tables(profile=run.profile.collect().sample(fraction=1, shuffle=True, seed=5).lazy())
                     for run in (a, b))
    assert by_function(diff(a, b)) == by_function(diff(*shuffled))


def test_more_launches_at_the_same_time_each_are_a_regression_too() -> None:
    row = by_function(diff(profile(seed=1), profile(seed=2, calls={"norm": 9})))["norm"]
    assert (row["verdict"], row["launches_a"], row["launches_b"]) == ("more launches", 8.0, 9.0)
    assert row["ratio"] == pytest.approx(1.0, abs=0.01)


def test_new_and_vanished_functions_count_in_full() -> None:
    whole, less = profile(seed=1), profile(seed=2, without="attention")
    gone = by_function(diff(whole, less))["attention"]
    assert (gone["verdict"], gone["b_ms"]) == ("gone", 0.0)
    assert gone["delta_ms"] == pytest.approx(-0.080, abs=0.002)
    assert by_function(diff(less, whole))["attention"]["verdict"] == "new"


def test_a_renamed_function_is_one_row() -> None:
    def under_new_name(row: Row) -> Row:
        return row | {"function": "gemm_64x6_tn"} if row["function"] == "gemm_64x5_tn" else row

    def with_tiles(row: Row) -> Row:
        return row | {"function": "gemm_64x5_tn"} if row["function"] == "gemm" else row

    a = profile(seed=1, spoil=with_tiles)
    b = profile(seed=2, spoil=lambda row: under_new_name(with_tiles(row)))
    row = by_function(diff(a, b))["gemm_64x5_tn"]
    assert (row["verdict"], row["function_b"]) == ("~", "gemm_64x6_tn")


def test_cycles_whose_device_was_not_recorded_whole_are_left_out_and_counted() -> None:
    def lost(row: Row) -> Row | None:
        if row["device"] == "Host" or row["cycle"] not in (1, 2):
            return row
        return None if row["cycle"] == 1 else row | {"instances": 1, "dur_ns": 1000}

    table = diff(profile(seed=1), profile(seed=2, spoil=lost))
    assert called(table) == {}
    assert by_function(table)["gemm"]["cycles_b"] == 6
    assert "2 of 16 cycles lack GPU records and are left out of GPU rows" in table.summary[-1]


def test_too_few_cycles_are_said_not_guessed() -> None:
    table = diff(profile(1, seed=1), profile(1, seed=2, slower={"gemm": 1.1}))
    assert set(called(table).values()) <= {"too few cycles"}


def test_a_clock_that_fell_behind_a_waiting_host_is_hidden_and_explains_only_the_device() -> None:
    slow = dict.fromkeys(KERNELS, 3.6)
    table = diff(profile(12, seed=1), profile(10, seed=2, slower=slow, clock=21_000.0))
    assert {row["path"] for row in table.frame.to_dicts() if row["verdict"] == "slower"} == {"hidden"}
    first = table.facts["resources"][0]
    assert [first[key] for key in ("metric", "device", "mu_b", "unit")] == ["gpu_sm_frequency", "GPU 0", 210.0, "MHz"]
    assert table.summary[1].endswith("ms (3.6×). Still 87% of the cycle idle: the host sets the pace")
    assert table.summary[2] == (
        "Cause   SM clock of GPU 0 fell 1,180 → 210 MHz; all 4 functions that ran under it got slower. "
        "It explains the GPU work; the cycle kept its length."
    )


def test_slower_cycles_with_the_same_gpu_work_blame_the_host() -> None:
    def taken(row: Row) -> Row:
        return row | {"mu": row["mu"] + 50} if row["metric"] == "host_cpu_usage" else row

    table = diff(profile(10, seed=1), profile(8, seed=2, host=2.0, spoil=taken))
    assert table.summary[0].startswith("Cycle   slower (mean 10.0 → 20.0 ms, 2.0×, 95% CI +9.8 to +10 ms)")
    assert table.facts["resources"][0]["metric"] == "host_cpu_usage"
    assert any("It explains the slower cycle; GPU work per launch is unchanged." in line for line in table.summary)
    assert called(table) == {"oncpu": "slower"}


def test_the_injected_cause_comes_first_on_recorded_faults(data: Path) -> None:
    causes = {
        "gpu_instability": {"gpu_frequency", "gpu_sm_frequency"}, "cpu_frequency_reduction": {"cpu_frequency"},
        "cpu_compute_squeeze_out": {"host_cpu_usage"}, "NVLink": {"gpu_link_receive", "gpu_link_transmit"},
    }
    for case in sorted((data / "latencyprism").iterdir()):
        runs = [run_of(read_profile(case / side / "result_perf_data.csv")) for side in ("normal", "abnormal")]
        expected = next(names for fault, names in causes.items() if fault in case.name)
        assert diff(runs[0], runs[1]).facts["resources"][0]["metric"] in expected, case.name


def test_the_verdict_of_a_recorded_clock_lock(data: Path) -> None:
    case = data / "latencyprism" / "SGLang-gpu_instability"
    runs = [run_of(read_profile(case / side / "result_perf_data.csv")) for side in ("normal", "abnormal")]
    table = diff(runs[0], runs[1])
    assert table.summary[0] == (
        "Cycle   cannot tell (mean 751 → 810 ms, 95% CI −51 to +169 ms, median 750 → 758 ms). "
        "B has 1 outlier, #10 1,001 ms: extra host time"
    )
    first = table.frame.row(0, named=True)
    assert (round(first["launch_us_a"]), round(first["launch_us_b"]), first["launches_a"]) == (312, 1072, 65.0)
    assert round(first["delta_ms"], 1) == 49.4


def test_rows_without_a_change_are_in_the_order_of_their_time() -> None:
    """A run with itself: by name, its shortest kernel came second."""
    once = profile()
    table = ask(VIEW, (once, once))
    spent = [row for row in table.frame["a_ms"] if row is not None]
    assert set(table.frame["delta_ms"]) == {0.0} and len(spent) > 3 and spent == sorted(spent, reverse=True)


def test_the_agreed_columns_are_there_in_their_order() -> None:
    names = (
        "function device kind pid_a pid_b launches_a launches_b launch_us_a launch_us_b ratio a_ms b_ms delta_ms "
        "ci_low_ms ci_high_ms q verdict path metric mu_a mu_b unit suspicion"
    ).split()
    assert [column.name for column in VIEW.columns if column.name in names] == names


def test_facts_can_be_written_as_json() -> None:
    import json

    table = diff(profile(seed=1), profile(seed=2))
    assert set(table.facts) >= {"comparability", "cycle_time", "work", "resources", "explanation", "calibration"}
    assert json.loads(json.dumps(table.facts)) is not None
    assert isinstance(table.frame, pl.DataFrame)


def test_the_gate_fails_a_slower_cycle_and_passes_a_hidden_kernel() -> None:
    slower = gate(diff(profile(10, seed=1), profile(8, seed=2, host=1.5)))
    assert (slower.passed, slower.sentence[:40]) == (False, "FAIL: mean cycle at least 4.88 ms slower")
    hidden = gate(diff(profile(12, seed=1), profile(10, seed=2, slower=dict.fromkeys(KERNELS, 3.6))))
    assert tuple(hidden) == (
        True, "PASS: no cycle-time regression above 1%, at most +1.1%; 4 kernels slower, hidden")


def test_the_gate_says_what_too_few_cycles_leave_open() -> None:
    assert gate(diff(profile(1, seed=1), profile(1, seed=2))).sentence == (
        "NOT JUDGED: the runs have no cycles in common")


def test_repeated_runs_call_only_what_beats_the_difference_between_runs() -> None:
    def runs(factors: list[float], seed: int) -> list[Trace]:
        return [profile(6, seed=seed + i, slower={"gemm": f, "norm": 1.3 if seed else 1.0})
                for i, f in enumerate(factors)]

    table = pooled(runs([1.0, 1.08, 0.95], 0), runs([1.05, 0.97, 1.1], 50))
    assert called(table) == {"norm": "slower"}


def test_one_run_a_side_cannot_be_pooled() -> None:
    with pytest.raises(CannotAnswer, match="at least two runs"):
        pooled([profile()], [profile(), profile()])


def test_a_suspect_opens_into_both_distributions_and_its_metrics() -> None:
    runs = profile(8, seed=1), profile(8, seed=2, slower={"norm": 1.5}, clock=60_000.0)
    found = function_details(runs, Options(), "norm", "GPU 0", 7, 7)
    assert found.cycles is not None and len(found.cycles.ms.a) == 8
    assert sum(found.cycles.ms.shape["a"]) == sum(found.cycles.ms.shape["b"]) == 8
    assert np.median(found.cycles.us.b) / np.median(found.cycles.us.a) == pytest.approx(1.5, abs=0.02)
    assert [(m.metric, m.mu_a, m.mu_b, m.unit) for m in found.metrics] == [("gpu_sm_frequency", 1180.0, 600.0, "MHz")]
    with pytest.raises(KeyError):
        function_details(runs, Options(), "nobody", "GPU 0")


def test_a_suspect_of_another_device_and_name_is_found_on_both_sides() -> None:
    def moved(row: Row) -> Row:
        name = "norm_2048" if row["function"] == "norm" else row["function"]
        return row | {"function": name, "device": "GPU 5" if row["device"] == "GPU 0" else row["device"]}

    found = function_details((profile(seed=1), profile(seed=2, spoil=moved)), Options(), "norm", "GPU 0")
    assert found.cycles is not None and len(found.cycles.ms.b) == 8


def two_ranks(late: int, transfer: float = 10.0, seed: int = 0) -> Trace:
    """Two processes in an all-reduce: the late one spends only the transfer in it, the other waits as well."""
    draw = np.random.default_rng(seed)
    rows: list[Row] = []
    for cycle in range(1, 9):
        for rank in (0, 1):
            us = transfer * float(np.exp(draw.normal(0, 0.01))) + (0 if rank == late else 5000)
            rows.append({
                "cycle": cycle, "pid": rank, "cycle_ns": 10_000_000 + cycle, "cycle_start_ns": cycle * 20_000_000,
                "anchor": "step", "function": "ncclAllReduce", "kind": "collective", "device": f"GPU {rank}",
                "dur_ns": round(us * 1e3), "instances": 1, "beta": us / 100, "metric": None, "mu": None,
            })
    return run_of(rows)


def test_a_rank_that_turns_from_waiting_to_late_has_no_faster_all_reduce() -> None:
    table = diff(two_ranks(late=0, seed=1), two_ranks(late=1, seed=2))
    assert called(table) == {}
    waits = {row["device"]: (round(row["wait_a_ms"]), round(row["wait_b_ms"])) for row in table.frame.to_dicts()}
    assert waits == {"GPU 0": (0, 5), "GPU 1": (5, 0)}
    ranks = next(line for line in table.summary if line.startswith("Ranks"))
    assert "the late rank changed sides: ncclAllReduce waited for GPU 0, now for GPU 1" in ranks


def test_no_rank_is_called_late_that_chance_makes_last() -> None:
    def by_turns(run: Trace, turned: int) -> Trace:
        """In these of eight cycles the other rank comes last."""
        swapped = pl.col("device").replace({"GPU 0": "GPU 1", "GPU 1": "GPU 0"}).cast(schema.NAME)
        of_them = pl.when(pl.col("cycle") <= turned)
        return run.with_tables(profile=run.profile.with_columns(
            of_them.then(swapped).otherwise("device").alias("device"),
            of_them.then(1 - pl.col("pid")).otherwise("pid").alias("pid")))

    table = diff(by_turns(two_ranks(late=0, seed=1), 3), by_turns(two_ranks(late=1, seed=2), 3))
    ranks = next(line for line in table.summary if line.startswith("Ranks"))
    assert "no rank waits least in more cycles than by chance" in ranks and "changed sides" not in ranks
    ranks = next(line for line in diff(two_ranks(late=0, seed=1), by_turns(two_ranks(late=1, seed=2), 4)).summary
                 if line.startswith("Ranks"))
    assert "GPU 0 waits least in 8 of 8 cycles of A" in ranks


def test_the_rank_whose_waits_changed_most_in_all_is_named_even_if_it_waits_in_few_cycles() -> None:
    """GPU 0 waits 1 ms in six of eight cycles of A, GPU 1 16 ms in one of B: its median there is 0."""
    def waiting(*cycles: tuple[int, int]) -> Trace:
        """For each cycle, the GPU that waits and for how long, us."""
        run = two_ranks(late=0)
        us = {(f"GPU {gpu}", at): long for at, (gpu, long) in enumerate(cycles, 1)}
        rows = run.profile.select(pl.col("device").cast(pl.String), "cycle").collect().rows()
        spans = pl.Series("dur_ns", [10_000 + 1_000 * us.get(row, 0) for row in rows], pl.Int64)
        return run.with_tables(profile=run.profile.collect().with_columns(spans).lazy())

    a, b = waiting(*[(0, 1000)] * 6, *[(1, 100)] * 2), waiting((1, 16_000), *[(0, 0), (1, 0)] * 3, (0, 0))
    ranks = next(line for line in diff(a, b).summary if line.startswith("Ranks"))
    assert "GPU 1 waits 0.025 → 2.00 ms a cycle (mean) at ncclAllReduce" in ranks


def test_a_slower_transfer_is_seen_through_the_waiting() -> None:
    table = diff(two_ranks(late=0, seed=1), two_ranks(late=1, transfer=20.0, seed=2))
    assert {row["verdict"] for row in table.frame.to_dicts()} == {"slower"}
    assert table.frame["ratio"].to_list() == pytest.approx([2.0, 2.0], abs=0.05)


def test_launches_are_the_samples_where_there_are_no_cycles() -> None:
    def kernels(factor: float) -> Trace:
        draw = np.random.default_rng(3)
        each = (("a", 9000.0), ("b", 5000.0 * factor))
        rows = [{"name": name, "dur_ns": round(ns * float(np.exp(draw.normal(0, 0.02)))), "kind": "kernel"}
                for name, ns in each for _ in range(20)]
        frame = pl.DataFrame(rows).with_row_index("index")
        return Trace(Info("t", "t", "kernel table"), kernels=schema.conform("kernels", frame.lazy()))

    table = diff(kernels(1.0), kernels(1.2))
    assert called(table) == {"b": "slower"}
    assert by_function(table)["b"]["launches_a"] == 20.0
    assert "each launch is a sample" in table.summary[-1]


def test_decode_cycles_are_compared_with_decode_cycles_only() -> None:
    from warplens.analysis.diff.prepare.prepared import same_kind
    from warplens.analysis.diff.prepare.samples import Work

    def work(kinds: dict[int, str]) -> Work:
        rows = pl.DataFrame({"cycle": list(kinds), "cycle_ns": [100 if k == "decode" else 90 for k in kinds.values()]})
        return Work(rows, rows, frozenset(), kinds)

    a, b, _, notes = same_kind(work({1: "prefill", 2: "decode", 3: "decode"}), work({1: "decode", 2: "prefill"}))
    assert (a.rows["cycle"].to_list(), b.rows["cycle"].to_list()) == ([2, 3], [1])
    assert notes == ["Only decode cycles are compared with each other; 2 of other kinds are left out."]
    same = work({1: "step", 2: "step"})
    assert same_kind(same, same)[3] == []


def test_one_captured_replay_tells_nothing_about_idle_time() -> None:
    from warplens.analysis.diff.prepare.prepared import replay_notes, replay_reasons, replays

    def run(graph: int | None, launches: int) -> Trace:
        rows = [{"name": "k", "dur_ns": 10, "kind": "kernel", "graph": graph, "correlation": 1 + i // 4, "index": i,
                 "start_ns": 20 * i} for i in range(launches)]
        frame = pl.DataFrame(rows, schema_overrides={"graph": pl.Int64})
        return Trace(Info("t", "t", "kineto"), kernels=schema.conform("kernels", frame.lazy()))

    once, often, eager = replays(run(7, 4)), replays(run(7, 8)), replays(run(None, 8))
    assert (once.count, often.count, eager.count) == (1, 2, 0)
    assert replay_notes((once, often)) == ["A holds one captured graph replay: idle time cannot be measured from it."]
    assert replay_reasons((often, eager)) == ["A replays graphs, B launches its kernels one by one"]


def test_other_devices_and_restarted_processes_are_compared_in_order() -> None:
    def moved(row: Row) -> Row:
        return row | {"pid": 99, "device": "GPU 5" if row["device"] == "GPU 0" else row["device"]}

    table = diff(profile(seed=1), profile(seed=2, spoil=moved))
    assert called(table) == {}
    assert table.notes[0] == "The runs used different device numbers: compared B's GPU 5 with A's GPU 0."


def processes(*of: tuple[int, str]) -> Trace:
    """A run in which each of these processes did the made-up work on that device."""
    rows: list[Row] = []

    def taken(row: Row) -> Row:
        rows.extend(row | {"pid": pid, "device": row["device"] if row["device"] == "Host" else device}
                    for pid, device in of)
        return row

    profile(spoil=taken)
    return run_of(rows)


def test_a_process_only_one_run_has_is_said_once_and_the_others_rows_stand_once() -> None:
    table = diff(processes((7, "GPU 0"), (8, "GPU 1")), processes((9, "GPU 0")))
    assert table.frame.group_by("function", "device").len()["len"].max() == 1
    assert set(table.frame["pid_a"]) == {7} and called(table) == {}
    assert "Process 8 of A (GPU 1) has no counterpart in B and is not compared." in table.notes
    assert [line for line in table.summary if line.startswith("GPU")] == [
        "GPU     work a cycle: 0.366 → 0.366 ms (unchanged). Still 96% of the cycle idle"]


def test_a_device_only_one_run_used_did_not_fall_to_zero() -> None:
    table = diff(processes((7, "GPU 0"), (7, "GPU 1")), processes((7, "GPU 0")))
    lines = [line.split(": ")[0] for line in table.summary if line.startswith("GPU")]
    assert lines == ["GPU     GPU 0 work a cycle", "GPU     GPU 1 ran only in A"]
    apart = diff(processes((7, "GPU 0"), (8, "GPU 1")), processes((9, "GPU 0"), (9, "GPU 1")))
    assert not any("ran only" in line for line in apart.summary)  # another process of A used it


@pytest.mark.parametrize("swapped", [False, True])
def test_a_process_with_two_devices_is_compared_with_two_of_one_each_device_by_device(swapped: bool) -> None:
    runs = processes((7, "GPU 0"), (8, "GPU 1")), processes((9, "GPU 0"), (9, "GPU 1"))
    table = diff(*(reversed(runs) if swapped else runs))
    assert called(table) == {}
    on_device = table.frame.filter(pl.col("device") != "Host")
    assert on_device.group_by("function", "device").len()["len"].to_list() == [1] * 2 * len(KERNELS)
    assert set(on_device.select("device", "pid_b" if swapped else "pid_a").rows()) == {("GPU 0", 7), ("GPU 1", 8)}


def test_processes_of_a_rank_are_paired_by_their_devices_and_one_that_is_left_is_said() -> None:
    def job(*of: tuple[int, int, str]) -> Trace:
        rows: list[Row] = []

        def taken(row: Row) -> Row:
            rows.extend(row | {"pid": pid, "rank": rank, "device": row["device"] if row["device"] == "Host" else device}
                        for rank, pid, device in of)
            return row

        profile(spoil=taken)
        return run_of(rows)

    a = job((0, 11, "GPU 0"), (0, 12, "GPU 1"), (1, 13, "GPU 2"), (1, 14, "GPU 3"))
    b = job((0, 21, "GPU 0"), (0, 22, "GPU 1"), (1, 23, "GPU 2"))
    table = diff(a, b)
    pairs = table.frame.select("pid_a", "pid_b").unique().sort("pid_a").rows()
    assert (pairs, called(table)) == ([(11, 21), (12, 22), (13, 23)], {})
    assert "Process 14 of A (GPU 3) has no counterpart in B and is not compared." in table.notes
