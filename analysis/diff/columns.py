"""The columns of the diff. Names are fixed: scripts rely on them. ``order`` ranks columns for narrow screens.

A list shows a pair of numbers in one cell, ``313 → 1,072``; each number has its own column for exports and sorting.
"""

from __future__ import annotations

import polars as pl

from ..contract.column import Column
from ..core import units
from ..core.metrics import change

COLUMNS: tuple[Column, ...] = (
    Column("function", "kernel", "text", "short form of the name in A", width=28,
           order=0, elastic=True, pinned=True, role="name"),
    Column("device", "device", "text", "device, or Host", width=6, order=6, role="where"),
    Column("parts", "parts", "kinds", "rows grouped under it (swapped kernels, the host side); + opens, - closes",
           width=3, order=5),
    Column("kind", "kind", "text", "kernel, collective, memcpy, idle, oncpu, …", width=10, order=9, role="where"),
    Column("pid_a", "pid A", "text", "process in A", width=8, order=None, role="where"),
    Column("pid_b", "pid B", "text", "process in B", width=8, order=None),
    Column("launches_a", "launches A", "number", "launches per cycle in A", width=10, order=None),
    Column("launches_b", "launches B", "number", "launches per cycle in B", width=10, order=None),
    Column("launch_us_a", "µs/launch A", "us", "time per launch in A, µs", width=11, order=None),
    Column("launch_us_b", "µs/launch B", "us", "time per launch in B, µs", width=11, order=None),
    Column("launches", "launches", "text", "launches per cycle, A → B where they differ", width=8, order=5,
           sorts="launches_a"),
    Column("launch_us", "µs/launch A → B", "text", "time per launch, µs", width=17, order=2, sorts="launch_us_b"),
    Column("ratio", "×", "ratio", "time per launch, B over A", width=5, order=1),
    Column("us_per_gflop_a", "µs/GFLOP A", "us", "time per 10⁹ FLOPs in A, where launches of B do different work",
           width=10, order=None),
    Column("us_per_gflop_b", "µs/GFLOP B", "us", "time per 10⁹ FLOPs in B", width=10, order=None),
    Column("per_gflop", "µs/GFLOP", "text", "time per 10⁹ FLOPs, where launches of A and B do different work", width=13,
           order=3, sorts="us_per_gflop_b"),
    Column("a_ms", "A ms", "ms", "ms per cycle in A, mean of the compared cycles", width=9,
           order=8),
    Column("b_ms", "B ms", "ms", "ms per cycle in B", width=9, order=8, role="time"),
    Column("delta_ms", "Δ ms", "ms", "B − A in ms per cycle; per step, call or recording where cycles are too "
           "few", width=8, order=0, signed=True),
    Column("ci_low_ms", "from", "ms", "lower end of the 95% CI of Δ", width=8, order=7, signed=True),
    Column("ci_high_ms", "to", "ms", "upper end of the 95% CI of Δ", width=8, order=7, signed=True),
    Column("q", "q", "number", "false-alarm rate over the list: chance that noise moves any row this far", width=7,
           order=7),
    Column("lost", "lost", "fraction", "share of the change of the cycle, of its account", width=24,
           order=1, bar="lost", of="of the change"),
    Column("verdict", "verdict", "text", "slower, faster, more or fewer launches, new, gone, ~ (no significant "
           "change), too few cycles, not judged", width=7, order=4,
           brief=(("too few cycles", "too few"), ("more launches", "more"), ("fewer launches", "fewer"))),
    Column("path", "path", "text", "exposed: the cycle waits for it; hidden: nothing does", width=7, order=3),
    Column("metric", "metric", "text", "most telling metric sampled while it ran", width=16, order=7, role="where"),
    Column("change", "A → B", "text", "mean of the metric while it ran, with its unit", width=16, order=7,
           sorts="mu_b"),
    Column("mu_a", "metric A", "number", "mean of the metric in A, in its unit", width=9, order=None),
    Column("mu_b", "metric B", "number", "mean of the metric in B, in its unit", width=9, order=None),
    Column("unit", "unit", "text", "unit of the metric", width=5, order=None),
    Column("suspicion", "suspicion", "number", "the reference score of its most suspicious metric", width=10, order=9),
    Column("noise_ms", "noise", "ms", "noise floor: difference between two halves of A, ms per cycle", order=None),
    Column("sure_ms", "sure", "ms", "time lost or won per cycle at the near end of the 95% CI", width=8, order=None),
    Column("wait_a_ms", "wait A", "ms", "mean wait for other ranks per cycle in A (collectives)", width=8, order=None),
    Column("wait_b_ms", "wait B", "ms", "mean wait for other ranks per cycle in B", width=8, order=None),
    Column("cycles_a", "cycles A", "count", "cycles of A the row is based on", width=8, order=None),
    Column("cycles_b", "cycles B", "count", "cycles of B the row is based on", width=8, order=None),
    Column("category", "category", "text", "device, host or communication", width=13, order=None),
    Column("lost_here_ms", "lost here", "ms", "time lost in the function itself, without nested calls and waits for a "
           "device; rows rank by it", width=9, order=None),
    Column("rank", "rank", "number", "rank of both jobs, if both are jobs", width=5, order=2, role="where"),
    Column("function_b", "name in B", "text", "its name in B where it differs", width=20, order=None, role="name"),
    Column("match", "match", "text", "how it was matched: name, stem, replaced, operator, flops", width=8, order=None),
    Column("parent", "parent", "text", "id of the row it is part of", width=13, order=None),
)
PER_FLOP = ("us_per_gflop_a", "us_per_gflop_b")


def _number(value: float | None) -> str:
    if value is None:
        return units.MISSING
    return units.number(round(value) if abs(value) >= 1000 else float(f"{value:.3g}"))


def _pair(a: float | None, b: float | None, once: bool = False) -> str | None:
    """Both numbers as text; with ``once`` a single one if they read the same."""
    if a is None and b is None:
        return None
    left, right = _number(a), _number(b)
    return left if once and left == right else f"{left} → {right}"


def arrows(table: pl.DataFrame) -> pl.DataFrame:
    """The table with pairs of numbers as text: ``launches launch_us per_gflop change``."""
    empty = {"lost": pl.Float64(), "parent": pl.String()} | dict.fromkeys(PER_FLOP, pl.Float64())
    table = table.with_columns(
        pl.lit(None, dtype).alias(name) for name, dtype in empty.items() if name not in table.columns)
    launches = table.select("launches_a", "launches_b").rows()
    metrics = table.select("mu_a", "mu_b", pl.col("unit").cast(pl.String)).rows()
    return table.with_columns(
        pl.Series("launches", [_pair(a, b, once=True) for a, b in launches], pl.String),
        pl.Series("launch_us", [_pair(*pair) for pair in table.select("launch_us_a", "launch_us_b").rows()], pl.String),
        pl.Series("per_gflop", [_pair(*pair) for pair in table.select(PER_FLOP).rows()], pl.String),
        pl.Series("change", [
            None if a is None and b is None else change(a, b, unit or "") for a, b, unit in metrics], pl.String),
    )
