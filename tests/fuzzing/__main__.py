"""Fuzzing by hand: ``python tests/fuzzing TARGET... TRIES [SEED]``; every target of ``TARGETS`` is one, ``all`` is all.

Inputs are small samples with bytes, words and cells changed, in memory; a loader answers them with tables or with a
sentence. What fails is told, kept, and the exit status is 1. A second of CPU is 18 to 377 tries, by target.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import environment  # first: it says where the others are
import fuzz_ascend
import fuzz_counters
import fuzz_databases
import fuzz_flight
import fuzz_folders
import fuzz_kineto
import fuzz_memory
import fuzz_perfetto
import fuzz_rocm
import fuzz_text
import fuzz_xla
from fuzz_files import Target, fuzz, limit_memory

SAMPLES = environment.HERE.parents[1] / "samples"


def _samples(*patterns: str) -> list[Path]:
    return sorted(path for pattern in patterns for path in SAMPLES.glob(pattern))


TARGETS: dict[str, Callable[[], Target]] = {
    "kineto": lambda: fuzz_kineto.target(_samples("kineto.pt.trace.json")),
    "nsys-sqlite": lambda: fuzz_databases.nsys_sqlite(SAMPLES),
    "nsys-parquet": lambda: fuzz_folders.nsys_parquet(SAMPLES),
    "nsys-rep": lambda: fuzz_folders.nsys_report(SAMPLES),
    "nsys-stats": lambda: fuzz_text.target(_samples("nsys_*.csv", "nsys_stats.txt")),
    "ncu": lambda: fuzz_text.target(_samples("ncu_*.csv", "ncu_text.txt")),
    "ncu-rep": lambda: fuzz_folders.ncu_rep(SAMPLES),
    "perfetto": lambda: fuzz_perfetto.target(_samples("perfetto*")),
    "xla": lambda: fuzz_xla.target(_samples("xla*")),
    "ascend": lambda: fuzz_ascend.target(_samples("ascend/*_ascend_pt")),
    "ascend-db": lambda: fuzz_ascend.database_target(SAMPLES / "ascend_pytorch_profiler_1.db"),
    "amd": fuzz_rocm.target,
    "counters": lambda: fuzz_counters.target(_samples("counters/*")),
    "memory-snapshot": lambda: fuzz_memory.target(_samples("memory_snapshot.pickle")),
    "flight-recorder": lambda: fuzz_flight.target(_samples("flight_recorder/*")),
    "tables": lambda: fuzz_text.target(_samples("kernel_table*", "comparison.*", "tb_views.jsonl")),
    "cycle-profile": lambda: fuzz_folders.cycle_profile(SAMPLES),
    "dataset": lambda: fuzz_folders.dataset(SAMPLES),
    "converted": lambda: fuzz_folders.converted(SAMPLES),
    "archives": lambda: fuzz_folders.archive(SAMPLES),
}
"""Every target by name; the first use of one reads its samples."""


def main(arguments: list[str]) -> int:
    """Fuzz the targets named; the exit status."""
    numbers = [int(word) for word in arguments if word.isdecimal()]
    names = [word for word in arguments if not word.isdecimal()]
    tries, seed = (*numbers, int(time.time()))[:2] if numbers else (0, 0)
    if not tries or not names or not {*names} <= {*TARGETS, "all"}:
        print(f"python tests/fuzzing TARGET... TRIES [SEED]; targets: all {' '.join(TARGETS)}")
        return 2
    failed = 0
    for name in TARGETS if "all" in names else names:
        target = TARGETS[name]()
        limit_memory()
        began = time.process_time()
        done = fuzz(target, seed, lambda count: count >= tries)
        used = time.process_time() - began
        print(f"{name}: seed {seed}, {done.tries:,} tries, {done.opened:,} opened, {len(done.failures)} failures, "
              f"at most {done.mebibytes} MiB, {done.tries / used:,.0f} tries a CPU second", flush=True)
        failed += len(done.failures)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
