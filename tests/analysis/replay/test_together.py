"""Ranks replayed together know what the same job takes with an even straggler, in balance, and without communication.

The job is made twice: once as it was, once with the change, so that what is saved is known and not modelled.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from msgspec.structs import replace
from runs import run_of
from simulator import RETURN, Machine, unchanged

from warplens.analysis.contract.changes import Change
from warplens.analysis.contract.options import Options
from warplens.analysis.replay.job import Job, job_of
from warplens.analysis.replay.path_rows import path_of, rows
from warplens.analysis.replay.replayed import Replayed
from warplens.loaders.trace import Trace

RANKS, SLOW, CYCLES, STRETCHES, KERNELS, TRANSFER = 4, 2, 8, 3, 6, 150_000
Factor = Callable[[int, list[float]], float]
"""Of the time of a rank's kernel, by what every rank's would take."""


def made(factor: Factor, seed: int, transfer: int = TRANSFER, overlapped: bool = False) -> tuple[Trace, float]:
    """A job whose ranks meet after each stretch of kernels, and the time of its cycles (ns). ``transfer`` below 0: they
    do not meet."""
    rng, machines = random.Random(seed), [Machine(unchanged) for _ in range(RANKS)]
    clocks, ends, marks = [0, 400_000, -700_000, 250_000], list[int](), list[dict[str, object]]()
    for cycle in range(CYCLES):
        begins = [machine.now for machine in machines]
        for stretch in range(STRETCHES):
            met = []
            drawn = [[rng.uniform(0.8, 1.2) * (1.4 if rank == SLOW else 1) for rank in range(RANKS)]
                     for _ in range(KERNELS)]
            for rank, machine in enumerate(machines):
                for kernel in drawn:
                    machine.op("aten::mm", "gemm", 120e3 * factor(rank, kernel), 8e3)
                machine.wait_for(20, 7)
                machine.launch("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 0, 20, "collective")
                met.append(machine.kernel_rows[-1])
            for machine, row in zip(machines, met, strict=True):
                last = max(int(str(one["start_ns"])) for one in met)
                end = last + transfer if transfer >= 0 else int(str(row["start_ns"]))
                row["dur_ns"] = end - int(str(row["start_ns"]))
                machine.free[20] = end
                row.update(process_group="0", group_ranks="0,1,2,3", group_size=RANKS, dtype="Float",
                           collective="allreduce", in_elements=1 << 20, out_elements=1 << 20,
                           seq=cycle * STRETCHES + stretch)
                if not overlapped or stretch == STRETCHES - 1:
                    machine.wait_for(7, 20)
        for rank, machine in enumerate(machines):
            machine.op("aten::_foreach_add_", "adam", 60e3, 5e3)
            machine.synchronize("cudaStreamSynchronize")
            marks.append({"cycle": cycle, "start_ns": begins[rank] + clocks[rank], "rank": rank, "complete": True,
                          "dur_ns": machine.now - begins[rank], "kind": "step", "label": f"ProfilerStep#{cycle}",
                          "source": "recorded"})
        ends.append(sum(machine.now for machine in machines))
    host, kernels = list[dict[str, object]](), list[dict[str, object]]()
    for rank, machine in enumerate(machines):
        for row in machine.host_rows + machine.kernel_rows:
            row["start_ns"] = int(str(row["start_ns"])) + clocks[rank]
            row.update(rank=rank, pid=rank + 1)
        host += machine.host_rows
        kernels += [{**row, "device": f"GPU {rank}"} for row in machine.kernel_rows]
    for index, row in enumerate(sorted(kernels, key=lambda row: int(str(row["start_ns"])))):
        row["index"] = index
    run = run_of("job", kernels=kernels, host=host, cycles=marks)
    return replace(run, info=replace(run.info, ranks=tuple(range(RANKS)))), ends[-1] / RANKS / CYCLES


def one_slow(rank: int, drawn: list[float]) -> float:
    return drawn[rank]


def as_the_others(rank: int, drawn: list[float]) -> float:
    others = [one for other, one in enumerate(drawn) if other != SLOW]
    return min(drawn[rank], sum(others) / len(others)) if rank == SLOW else drawn[rank]


def balanced(_: int, drawn: list[float]) -> float:
    return sum(drawn) / RANKS


def replayed(run: Trace) -> tuple[Job, Replayed]:
    found = Replayed(run, Options())
    assert found.accuracy.trusted
    job = job_of(run, Options(), found)
    assert job is not None and job.replayed
    return job, found


@pytest.mark.parametrize("overlapped", [False, True])
@pytest.mark.parametrize("seed", [1, 2])
def test_an_even_straggler_saves_what_the_job_without_one_saves(overlapped: bool, seed: int) -> None:
    run, cycle = made(one_slow, seed, overlapped=overlapped)
    job, found = replayed(run)
    assert found.cycle_ns == pytest.approx(cycle, rel=1e-3) and job.straggler == "rank 2"
    _, even = made(as_the_others, seed, overlapped=overlapped)
    assert job.straggler_ns == pytest.approx(cycle - even, rel=0.02)


@pytest.mark.parametrize("overlapped", [False, True])
def test_balance_and_hidden_communication_save_what_they_save_in_the_made_job(overlapped: bool) -> None:
    run, cycle = made(one_slow, 3, overlapped=overlapped)
    job, _ = replayed(run)
    _, even = made(balanced, 3, overlapped=overlapped)
    assert job.balance_ns == pytest.approx(cycle - even, rel=0.02)
    _, hidden = made(one_slow, 3, transfer=-1, overlapped=overlapped)
    assert job.hidden_ns == pytest.approx(cycle - hidden, rel=0.02)


def test_a_faster_transfer_saves_the_transfer_and_not_the_waits() -> None:
    run, cycle = made(one_slow, 4)
    _, after = made(one_slow, 4, transfer=TRANSFER // 2)
    saved = Replayed(run, Options()).saved_ns(Change("collective", "", 0.5))
    assert saved == pytest.approx(cycle - after, rel=0.02) and saved < 1.1 * STRETCHES * (TRANSFER // 2 + RETURN)


@pytest.mark.parametrize("late", [1, 2])
def test_the_critical_path_runs_where_the_late_rank_is_and_comes_back_for_the_transfer(late: int) -> None:
    run, cycle = made(lambda rank, drawn: drawn[(rank - late + SLOW) % RANKS], 5)
    steps, path = rows(run, Options()), path_of(run, Options())
    assert path is not None and sum(step["dur_ns"] for step in steps) == path.end - path.begin
    assert path.end - path.begin == pytest.approx(cycle, rel=0.1)
    gemms = {f"rank {late}": 0}
    for step in steps:
        if step["kind"] == "kernels" and step["name"] == "gemm":
            rank = step["lane"].partition(" GPU")[0]
            gemms[rank] = gemms.get(rank, 0) + step["dur_ns"]
    assert list(gemms) == [f"rank {late}"] and gemms[f"rank {late}"] > 0.7 * cycle
    transfers = [step for step in steps if step["kind"] == "collectives"]
    assert sum(step["dur_ns"] for step in transfers) == pytest.approx(STRETCHES * TRANSFER, rel=0.01)
    recorded = run.kernels.filter(kind="collective").collect()
    for step in transfers:  # each is reached by the clock of its own rank
        rank = recorded.filter(rank=int(step["lane"].split()[1]))
        assert any(low < step["start_ns"] + TRANSFER <= low + took + 1 for low, took in rank.select(
            "start_ns", "dur_ns").rows())
