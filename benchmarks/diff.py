"""Accuracy of the diff and speed of the reference comparison: the figures of the README.

    python benchmarks/diff.py [--data FOLDER] [--trials 200] [--splits 40] [--only speed many causes]

Uses labelled pairs of cycle profiles: random halves of a normal run must raise no alarm, and a function slowed
artificially in one half must be found, its true change within the interval. Times are measured next to the peer's.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl
from scipy import stats

from warplens.analysis.diff.stats.reference import compare
from warplens.analysis.query.ask import ask
from warplens.analysis.views.diff import VIEW
from warplens.loaders.ingest.opening import open_run
from warplens.loaders.trace import Trace

CHANGED = ("slower", "faster", "new", "gone")
CAUSES = {
    "gpu_instability": ("gpu_frequency", "gpu_sm_frequency"), "cpu_frequency_reduction": ("cpu_frequency",),
    "cpu_compute_squeeze_out": ("host_cpu_usage",), "NVLink": ("gpu_link_receive", "gpu_link_transmit"),
    "PCIe": ("gpu_pcie_transmit", "gpu_pcie_receive"),
}
FACTORS = (1.0, 1.1, 1.3, 2.0)


def pairs(data: Path) -> list[Path]:
    return sorted((data / "latencyprism").iterdir())


def run(path: Path) -> Trace:
    return open_run(str(path), use_cache=False)[0]


def part(whole: Trace, rows: pl.DataFrame) -> Trace:
    """The run with these rows as its profile, and only the cycles they belong to."""
    lengths = rows.group_by("cycle").agg(pl.col("cycle_ns").first().alias("_ns"))
    kept = whole.cycles.join(lengths.lazy(), on="cycle").with_columns(pl.col("_ns").alias("dur_ns")).drop("_ns")
    return whole.with_tables(profile=rows.lazy(), cycles=kept, metrics=whole.metrics.head(0))


def halves(rows: pl.DataFrame, draw: np.random.Generator) -> tuple[pl.DataFrame, pl.DataFrame]:
    cycles = rows["cycle"].unique().sort().to_numpy()
    first = draw.permutation(cycles)[: len(cycles) // 2].tolist()
    chosen = pl.col("cycle").is_in(first)
    return rows.filter(chosen), rows.filter(~chosen)


def slowed(rows: pl.DataFrame, function: str, device: str, factor: float) -> pl.DataFrame:
    """The rows with the function slowed by ``factor``, its cycles lengthened accordingly, and all shares adjusted."""
    mine = (pl.col("function") == function) & (pl.col("device") == device)
    extra = rows.filter(mine).group_by("cycle", "pid").agg(((factor - 1) * pl.col("dur_ns").first()).alias("more"))
    longer = rows.join(extra, on=["cycle", "pid"], how="left", maintain_order="left").with_columns(
        dur_ns=pl.when(mine).then(pl.col("dur_ns") * factor).otherwise(pl.col("dur_ns")).cast(pl.Int64),
        cycle_ns=(pl.col("cycle_ns") + pl.col("more").fill_null(0.0)).cast(pl.Int64),
    )
    return longer.with_columns(beta=100 * pl.col("dur_ns") / pl.col("cycle_ns")).drop("more")


def steady(rows: pl.DataFrame) -> list[tuple[str, str, float]]:
    """GPU functions over 0.1% of the cycle whose time per launch varies by less than 5%, with ms per cycle."""
    each = rows.filter(pl.col("device") != "Host").unique(["function", "device", "cycle"]).with_columns(
        per=pl.col("dur_ns") / pl.col("instances").clip(1)
    )
    middle = each.group_by("function", "device", maintain_order=True).agg(
        pl.len().alias("n"), pl.col("beta").median(), pl.col("dur_ns").median(), pl.col("per").median().alias("m"),
        (1.48 * (pl.col("per") - pl.col("per").median()).abs().median()).alias("spread"),
    )
    kept = middle.filter((pl.col("n") >= 6) & (pl.col("beta") > 0.1) & (pl.col("spread") < 0.05 * pl.col("m")))
    named = kept.sort("function", "device").select("function", "device", "dur_ns")
    return [(function, device, ns / 1e6) for function, device, ns in named.rows()]


def plain(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.with_columns(pl.col("function", "device", "kind", "metric").cast(pl.String))


def false_alarms(data: Path, splits: int) -> None:
    draw = np.random.default_rng(20261121)
    for case in pairs(data):
        whole = run(case / "normal")
        rows = plain(whole.profile.collect())
        alarms = 0
        which: dict[str, int] = {}
        for _ in range(splits):
            a, b = halves(rows, draw)
            table = ask(VIEW, (part(whole, a), part(whole, b))).frame
            called = table.filter(pl.col("verdict").is_in(CHANGED))
            alarms += not called.is_empty()
            for name in called["function"]:
                which[name[:40]] = which.get(name[:40], 0) + 1
        print(f"false alarms  {case.name:<40} {alarms}/{splits} splits  {which or ''}", flush=True)


def injected(data: Path, trials: int) -> None:
    cases = []
    for case in pairs(data):
        whole = run(case / "normal")
        rows = plain(whole.profile.collect())
        pool = steady(rows)
        if rows["cycle"].n_unique() >= 12 and pool:
            cases.append((whole, rows, pool))
    for factor in FACTORS:
        draw = np.random.default_rng(7)
        top = slower = inside = any_called = 0
        for trial in range(trials):
            whole, rows, pool = cases[trial % len(cases)]
            a, b = halves(rows, draw)
            function, device, ms = pool[int(draw.integers(len(pool)))]
            changed = slowed(b, function, device, factor)
            table = ask(VIEW, (part(whole, a), part(whole, changed))).frame
            first = next((r for r in table.iter_rows(named=True) if r["device"] != "Host"), None)
            mine = next(r for r in table.iter_rows(named=True) if (r["function"], r["device"]) == (function, device))
            top += bool(first and (first["function"], first["device"]) == (function, device))
            slower += mine["verdict"] == "slower"
            true = (factor - 1) * ms
            low, high = mine["ci_low_ms"], mine["ci_high_ms"]
            inside += low is not None and low - 0.02 * true <= true <= high + 0.02 * true
            any_called += bool(table["verdict"].is_in(CHANGED).any())
        print(
            f"injected      {factor - 1:+.0%}: top {top / trials:.1%}, slower {slower / trials:.1%}, "
            f"true change inside {inside / trials:.1%}, any row called {any_called / trials:.1%} of {trials}",
            flush=True,
        )


def causes(data: Path) -> None:
    hits = 0
    for case in pairs(data):
        table = ask(VIEW, (run(case / "normal"), run(case / "abnormal")))
        first = table.facts["resources"][0]["metric"] if table.facts["resources"] else None
        expected = next(names for fault, names in CAUSES.items() if fault in case.name)
        hits += first in expected
        print(f"cause         {case.name:<40} {first}")
        print("".join(f"              | {line}\n" for line in table.summary), end="")
    print(f"cause first   {hits}/{len(pairs(data))}")


def enlarged(rows: pl.DataFrame, functions: int, metrics: int, cycles: int) -> pl.DataFrame:
    """The rows with the number of functions, metrics and cycles multiplied, with slightly different values."""
    columns = ["function", "metric", "device", "cycle", "beta", "mu"]
    some = rows.filter(pl.col("metric").is_not_null()).select(columns)
    wider = pl.concat([some.with_columns(pl.col("function") + f" #{i}") for i in range(functions)])
    wider = pl.concat([wider.with_columns(pl.col("metric") + f" #{i}") for i in range(metrics)])
    longest = max(rows["cycle"].to_list()) + 1
    longer = pl.concat([wider.with_columns(pl.col("cycle") + i * longest) for i in range(cycles)])
    draw = np.random.default_rng(1)
    return longer.with_columns(
        beta=pl.col("beta") * np.exp(draw.normal(0, 0.01, longer.height)),
        mu=pl.col("mu") * np.exp(draw.normal(0, 0.001, longer.height)),
    )


def per_triplet(a: pl.DataFrame, b: pl.DataFrame) -> dict[tuple[object, ...], tuple[float, ...]]:
    """The reference's method, a loop over triplets with SciPy; only its expensive part."""
    keys = ["function", "metric", "device"]
    sides = [dict(iter(frame.group_by(keys))) for frame in (a, b)]
    found = {}
    for key in dict.fromkeys([*sides[0], *sides[1]]):
        one, other = (side.get(key) for side in sides)
        if one is None or other is None:
            continue
        numbers: list[float] = []
        for column in ("beta", "mu"):
            x, y = (frame[column].fill_null(0.0).to_numpy() for frame in (one, other))
            flat = x.std() == 0 and y.std() == 0
            numbers.append(1.0 if flat else stats.ttest_ind(x, y, equal_var=False).pvalue)
            numbers.append(stats.mannwhitneyu(x, y, method="auto").pvalue)
        found[key] = tuple(numbers)
    return found


def speed(data: Path) -> None:
    case = pairs(data)[1]
    a, b = (plain(run(case / side).profile.collect()) for side in ("normal", "abnormal"))
    big = [enlarged(rows, 5, 5, 2) for rows in (a, b)]
    print(f"speed         {big[0].height + big[1].height:,} rows, 50 times the recorded pair")
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        table = compare(big[0], big[1])
        times.append(time.perf_counter() - begin)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    begin = time.perf_counter()
    loop = per_triplet(big[0], big[1])
    slow = time.perf_counter() - begin
    worst = 0.0
    for row in table.iter_rows(named=True):
        if (want := loop.get((row["function"], row["metric"], row["device"]))) is not None:
            mine = (row["p_beta"], row["u_beta"], row["p_mu"] if row["p_mu"] is not None else 1.0, row["u_mu"])
            worst = max(worst, *(abs(x - y) for x, y in zip(mine, want, strict=True)))
    fast = float(np.median(times))
    times_as_fast = f"{slow / fast:.0f}×"
    print(f"speed         {fast * 1e3:.0f} ms, a loop over {table.height:,} triplets {slow:.1f} s: {times_as_fast}")
    print(f"speed         largest difference of a p-value {worst:.1e}; peak memory {memory:.0f} MiB")


_ASKED = """
import resource, sys, time
import polars as pl
from warplens.analysis.views.diff import VIEW
from warplens.analysis.query.ask import ask
from warplens.loaders.trace import Info, Trace
from warplens.loaders import schema
runs = tuple(
    Trace(Info(source=path, label=path, format="made up"), profile=schema.conform("profile", pl.scan_ipc(path)),
          cycles=schema.conform("cycles", pl.scan_ipc(path + ".cycles")))
    for path in sys.argv[1:]
)
table = ask(VIEW, runs)
called = table.frame["verdict"].is_in(["slower", "faster"]).sum()
used = resource.getrusage(resource.RUSAGE_SELF)
seconds = used.ru_utime + used.ru_stime
print(f"{len(table):,} rows, {called} called; {seconds:.1f} CPU s, {used.ru_maxrss / 1024:.0f} MiB")
"""


def many(sizes: list[tuple[int, int]]) -> None:
    """The view over synthetic cycle profiles, each in its own process; a tenth of the functions is 10% slower in B."""
    for functions, cycles in sizes:
        with tempfile.TemporaryDirectory() as folder:
            paths = [_made_up(Path(folder) / side, functions, cycles, side == "B") for side in "AB"]
            ask_them = [sys.executable, "-c", _ASKED, *paths]
            one_thread = os.environ | {"OPENBLAS_NUM_THREADS": "1"}  # as set by the command
            done = subprocess.run(ask_them, capture_output=True, text=True, check=True, env=one_thread)
        print(f"many          {functions:,} × {cycles:,}: {done.stdout.strip()}", flush=True)


def _made_up(path: Path, functions: int, cycles: int, slower: bool) -> str:
    """A profile with one row per function and cycle; every second function is on the device, with its SM clock."""
    draw = np.random.default_rng(1 + slower)
    names = [f"function_{n}" for n in range(functions)]
    on_device = np.arange(functions) % 2 == 0
    usual = np.exp(draw.normal(0, 0, functions) + np.random.default_rng(0).normal(11, 1, functions))
    usual[::10] *= 1.1 if slower else 1.0
    spans = (usual[None, :] * np.exp(draw.normal(0, 0.02, (cycles, functions)))).astype(np.int64)
    length = spans.sum(axis=1)
    starts = np.concatenate([[0], np.cumsum(length)[:-1]])
    numbers = np.arange(cycles)
    each = {
        "cycle": np.repeat(numbers, functions), "cycle_ns": np.repeat(length, functions),
        "cycle_start_ns": np.repeat(starts, functions), "dur_ns": spans.ravel(),
        "instances": np.tile(1 + np.arange(functions) % 7, cycles), "beta": (100 * spans / length[:, None]).ravel(),
    }
    on = np.tile(on_device, cycles)
    pl.DataFrame(each).with_columns(
        pl.Series("function", names).gather(pl.Series(np.tile(np.arange(functions), cycles))),
        pl.lit(1, pl.Int64).alias("pid"), pl.lit("step").alias("anchor"),
        pl.when(pl.lit(pl.Series(on))).then(pl.lit("GPU 0")).otherwise(pl.lit("Host")).alias("device"),
        pl.when(pl.lit(pl.Series(on))).then(pl.lit("kernel")).otherwise(pl.lit("op")).alias("kind"),
        pl.when(pl.lit(pl.Series(on))).then(pl.lit("gpu_sm_frequency")).alias("metric"),
        pl.when(pl.lit(pl.Series(on))).then(pl.lit(pl.Series(draw.normal(118_000, 500, len(on))))).alias("mu"),
    ).with_columns(pl.col(pl.String).cast(pl.Categorical)).write_ipc(path)
    pl.DataFrame({"cycle": numbers, "start_ns": starts, "dur_ns": length}).write_ipc(f"{path}.cycles")
    return str(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--splits", type=int, default=40)
    parser.add_argument("--only", nargs="*", default=["speed", "many", "causes", "false-alarms", "injected"])
    parser.add_argument("--many", default="3000x100,300x10000", help="functions x cycles of made-up runs, by commas")
    chosen = parser.parse_args()
    if "speed" in chosen.only:
        speed(chosen.data)
    if "many" in chosen.only:
        sizes = [[int(number) for number in size.split("x")] for size in chosen.many.split(",")]
        many([(functions, cycles) for functions, cycles in sizes])
    if "causes" in chosen.only:
        causes(chosen.data)
    if "false-alarms" in chosen.only:
        false_alarms(chosen.data, chosen.splits)
    if "injected" in chosen.only:
        injected(chosen.data, chosen.trials)


if __name__ == "__main__":
    main()
