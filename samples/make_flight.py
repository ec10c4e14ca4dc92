"""Writes dumps of flight recorders of a made-up job that hangs, in the layout of PyTorch's ``FlightRecorder``.

    python samples/make_flight.py [folder]

The job is played: each rank enqueues its program, and a call ends when every member of its group has begun the same
one. ``Job`` has the groups and the program of each rank; ``run`` plays it; ``dumps`` are what PyTorch would write. The
tests make other jobs of it. It needs nothing but Python.
"""

from __future__ import annotations

import json
import random
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple


class Call(NamedTuple):
    """One collective of a program: its group, what it is, and the line that calls it."""

    group: str
    name: str = "all_reduce"
    size: int = 1024
    dtype: str = "BFloat16"
    line: int = 88


@dataclass
class Job:
    """Groups (name → members) and programs (rank → calls); ``stops``: rank → calls after which it enqueues no more."""

    groups: dict[str, tuple[int, ...]]
    programs: dict[int, list[Call]]
    stops: dict[int, int] = field(default_factory=dict)

    def run(self) -> dict[int, list[str]]:
        """The state of each call of each rank when nothing moves any more."""
        enqueued = {rank: calls[: self.stops.get(rank, len(calls))] for rank, calls in self.programs.items()}
        at = dict.fromkeys(enqueued, 0)
        numbers = {rank: [sum(one.group == call.group for one in calls[: place + 1])
                          for place, call in enumerate(calls)] for rank, calls in enqueued.items()}
        while True:
            moved = False
            for group, members in self.groups.items():
                here = [rank for rank in members if at[rank] < len(enqueued[rank])]
                calls = [(enqueued[rank][at[rank]], numbers[rank][at[rank]]) for rank in here]
                if len(here) == len(members) and all(call.group == group for call, _ in calls) and len(
                        {(call.name, call.size, call.dtype, number) for call, number in calls}) == 1:
                    for rank in members:
                        at[rank] += 1
                    moved = True
            if not moved:
                return {rank: ["completed" if place < at[rank] else "started" if place == at[rank] else "scheduled"
                               for place in range(len(calls))] for rank, calls in enqueued.items()}

    def dumps(self, timed: bool = True, first: int = 0) -> dict[int, dict[str, Any]]:
        """A dump per rank. ``timed``: whether begins on the device were recorded; ``first``: number before the first
        call of each group (modulo 2^32)."""
        result = {}
        for rank, states in self.run().items():
            count = dict.fromkeys(self.groups, first)
            entries = []
            for record, (call, state) in enumerate(zip(self.programs[rank], states, strict=False)):
                count[call.group] = (count[call.group] + 1) % (1 << 32)
                seen = timed and state != "scheduled"
                entries.append({
                    "record_id": record, "pg_id": list(self.groups).index(call.group), "op_id": record + 1,
                    "process_group": [str(list(self.groups).index(call.group)), call.group], "is_p2p": False,
                    "collective_seq_id": count[call.group], "p2p_seq_id": 0, "profiling_name": f"nccl:{call.name}",
                    "time_created_ns": 1_700_000_000_000_000_000 + record * 1_000_000 + rank,
                    "time_discovered_started_ns": 1_700_000_000_000_000_500 + record if seen else None,
                    "input_sizes": [[call.size, 16]], "output_sizes": [[call.size, 16]], "input_dtypes": [call.dtype],
                    "output_dtypes": [call.dtype], "retired": state == "completed", "timeout_ms": 600_000,
                    "state": "scheduled" if state == "started" and not timed else state,
                    "frames": [
                        {"name": call.name, "filename": "/opt/lib/site-packages/torch/distributed.py", "line": 7},
                        {"name": "step", "filename": "/home/me/train.py", "line": call.line}],
                })
            config = {str(number): {"name": str(number), "desc": group, "ranks": str(list(members))}
                      for number, (group, members) in enumerate(self.groups.items()) if rank in members}
            result[rank] = {"version": "2.10", "pg_config": config, "pg_status": {}, "entries": entries}
        return result


def job(seed: int, ranks: int = 8) -> tuple[Job, random.Random]:
    """A healthy job: a world, data-parallel and tensor-parallel groups of two columns, forty calls a rank."""
    draw = random.Random(seed)
    groups = {"default_pg": tuple(range(ranks)), "dp": tuple(range(0, ranks, 2)), "ep": tuple(range(1, ranks, 2))}
    names = ["all_reduce", "_all_gather_base", "_reduce_scatter_base", "broadcast"]
    common = [Call(draw.choice(("default_pg", "side", "side")), draw.choice(names), draw.choice((64, 128, 256)),
                   line=draw.randrange(50, 99)) for _ in range(40)]
    programs = {rank: [call._replace(group="ep" if rank % 2 else "dp") if call.group == "side" else call
                       for call in common] for rank in range(ranks)}
    return Job(groups, programs), draw


def main(folder: Path) -> None:
    """Rank 2 of four stops before the seventh call."""
    groups = {"default_pg": (0, 1, 2, 3), "dp": (0, 2)}
    programs = {rank: [Call(*call) for call in [
        ("default_pg", "broadcast", 64, "Float", 31), *[("default_pg", "all_reduce", 256)] * 3, ("dp",),
        ("default_pg", "_all_gather_base", 128, "BFloat16", 93), *[("default_pg", "all_reduce", 256)] * 2,
    ] if rank in groups[call[0]]] for rank in range(4)}
    folder.mkdir(parents=True, exist_ok=True)
    for rank, content in Job(groups, programs, {2: 6}).dumps().items():
        (folder / f"nccl_trace_rank_{rank}.json").write_text(json.dumps(content, indent=0) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "flight_recorder")
