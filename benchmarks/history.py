"""Detection rate, false alarms and cost of a history of many runs.

``python benchmarks/history.py`` prints, with fixed seeds: the share of 2% steps found within a night, by noise of the
series; false alarms with and without drift; common steps; the time of the statistics; and, with ``--runs N`` (200), the
wall and CPU time of the command over that many runs, uncached and cached, next to opening each run. The synthetic
nights are those of the tests.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from measured import MEASURE

from warplens.analysis.history.steps import KERNEL, SeriesOfRuns, judge

TESTS = Path(__file__).parents[1] / "tests" / "analysis"
NOISES = (0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.5, 3.0)
OPEN_EACH = "import sys; from warplens.loaders.ingest.opening import open_run\nfor path in sys.argv[1:]: open_run(path)"


def module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    made = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


made_nights = module(TESTS / "history" / "made_nights.py")


def told(nights: Any) -> tuple[list[tuple[int, int, float]], float]:
    count = len(nights.logarithms)
    series = SeriesOfRuns((KERNEL,) * count, tuple(map(str, range(count))), np.exp(nights.logarithms), 1e9)
    began = time.process_time()
    steps = judge(series).steps
    return [(step.series, step.index, step.change) for step in steps], time.process_time() - began


def found_steps(lists: int) -> None:
    cells: dict[float, list[bool]] = {noise: [] for noise in NOISES}
    spent = []
    for seed in range(lists):
        nights = made_nights.nights(seed, sizes=(0.02,), recent=0.0)
        steps, seconds = told(nights)
        spent.append(seconds)
        verdict = made_nights.verdict([one for one in steps if one[0] >= 0], nights)
        for one in nights.steps:
            if nights.last[one.series] - one.night >= 4:
                noise = next(noise for noise in NOISES if 100 * nights.noise[one.series] <= noise + 1e-9)
                cells[noise].append(one in verdict.found)
    print("noise up to %       " + "".join(f"{noise:8g}" for noise in NOISES))
    print("2% found, share     " + "".join(f"{np.mean(cells[noise]):8.3f}" for noise in NOISES))
    print("of so many steps    " + "".join(f"{len(cells[noise]):8}" for noise in NOISES))
    quiet = [one for noise in NOISES[:4] for one in cells[noise]]
    print(f"noise 0.6% or less: {np.mean(quiet):.3f} of {len(quiet)}; goal 0.95")
    print(f"statistics of 200 runs × 300 series: {statistics.median(spent):.2f} s of CPU")


def false_alarms(lists: int, drift: float) -> None:
    false = misplaced = values = common = 0
    for seed in range(lists):
        nights = made_nights.nights(1000 + seed, drift=drift)
        steps, _ = told(nights)
        verdict = made_nights.verdict([one for one in steps if one[0] >= 0], nights)
        false, misplaced = false + verdict.false, misplaced + verdict.misplaced
        common += sum(one[0] < 0 for one in steps)
        values += nights.logarithms.size
    print(f"drift {100 * drift:g}%: {1e4 * false / values:.2f} false in 10,000 series-nights (goal 1), "
          f"{misplaced / lists:.1f} misplaced and {common / lists:.1f} false common steps per list")


def common_steps(lists: int, size: float) -> None:
    right, at_once, others = 0, 0, 0
    for seed in range(lists):
        nights = made_nights.nights(2000 + seed, common_step=size, stepping=0.0)
        steps, _ = told(nights)
        right += any(row < 0 and abs(night - nights.common_at) <= 1 for row, night, _ in steps)
        near = [abs(night - nights.common_at) <= 3 for row, night, _ in steps if row >= 0]
        at_once, others = at_once + sum(near), others + len(near) - sum(near)
    print(f"common step of {100 * size:g}%: its own row in {right} of {lists} lists; per list {at_once / lists:.1f} "
          f"kernels told within 3 nights of it, {others / lists:.1f} elsewhere")


def command(runs: int) -> None:
    write_run = module(TESTS / "history_runs.py").write_run
    with tempfile.TemporaryDirectory() as place:
        os.environ["XDG_CACHE_HOME"] = f"{place}/cache"
        rng = random.Random(1)
        paths = [
            str(write_run(Path(place) / f"night-{number:04}.json", {"gemm_c": 1.05 if number >= runs // 2 else 1.0},
                          rng.randrange(10**6)))
            for number in range(runs)
        ]
        history = [sys.executable, "-m", "warplens", "history", *paths, "--format", "json", "-o", f"{place}/out.json"]
        for name, words in (("read", history), ("cached", history), ("cached", history), ("cached", history),
                            ("open each, cached", [sys.executable, "-c", OPEN_EACH, *paths])):
            done = subprocess.run([sys.executable, "-c", MEASURE, *words], capture_output=True, text=True, check=True)
            status, wall, cpu, peak, _ = json.loads(done.stdout)
            failed = f" (exit {status})" if status else ""
            print(f"{runs} runs, {name}: {wall:.2f} s, {cpu:.2f} s of CPU, {peak:.0f} MiB{failed}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--lists", type=int, default=10)
    parser.add_argument("--runs", type=int, default=200)
    options = parser.parse_args()
    found_steps(options.lists)
    for amount in (0.0, 0.01, 0.02):
        false_alarms(options.lists, amount)
    for change in (0.03, 0.08):
        common_steps(max(4, options.lists // 2), change)
    command(options.runs)
