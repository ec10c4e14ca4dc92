"""One row of the diff: a function's time in both runs, whether the difference is significant, and its possible cause.

Every way to compare two runs (cycles, launches, repeated runs, totals, a finished comparison) makes these rows.
Launches and milliseconds are per cycle, or per run without cycles; unknown values are None.

Idle time is the part of a cycle in which a device ran nothing, so a millisecond more of it makes the cycle that much
longer. A cause of idle time explains the cycle if it changed significantly in the same direction and makes up most of
the cycle's change. Some rows are part of another: the host side of an idle cause, kernels swapped under one operator.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import UnionType
from typing import Literal, get_args, get_type_hints

import polars as pl
from msgspec import Struct
from msgspec.structs import asdict

from ..idle.cause_meanings import idle_name
from ..idle.causes import named_cause
from .cycle_time import CycleTime
from .prepare.idle_time import UNKNOWN
from .prepare.samples import HOST, IDLE

Call = Literal[
    "slower", "faster", "more launches", "fewer launches", "new", "gone", "~", "too few cycles", "not judged",
]
"""The verdict of a row; ``~`` is no significant change, ``not judged`` of runs not shown to do the same work."""
Category = Literal["device", "host", "communication", "idle"]
REGRESSIONS: tuple[Call, ...] = ("slower", "more launches", "new")
CALLED: tuple[Call, ...] = (*REGRESSIONS, "faster", "fewer launches", "gone")


class FunctionChange(Struct):
    """``sure_ms`` is the near end of the CI of the time lost or won per cycle, ``noise_ms`` the noise floor: the
    difference between two halves of A. ``lost_here_ms`` is the function's own part of the loss, without calls inside
    it and waiting for a device; rows rank by it, but by ``sure_ms`` if that is less or it is None. ``parts`` counts the
    rows that are part of this one; those name it in ``part_of`` and ``part_on`` (function and device)."""

    function: str
    device: str | None = None
    kind: str | None = None
    category: Category = "device"
    pid_a: int | None = None
    pid_b: int | None = None
    launches_a: float | None = None
    launches_b: float | None = None
    launch_us_a: float | None = None
    launch_us_b: float | None = None
    ratio: float | None = None
    a_ms: float | None = None
    b_ms: float | None = None
    delta_ms: float | None = None
    ci_low_ms: float | None = None
    ci_high_ms: float | None = None
    p: float | None = None
    q: float | None = None
    verdict: Call | None = "~"
    path: str | None = None
    metric: str | None = None
    mu_a: float | None = None
    mu_b: float | None = None
    unit: str | None = None
    suspicion: float | None = None
    noise_ms: float | None = None
    sure_ms: float = 0.0
    lost_here_ms: float | None = None
    cycles_a: int | None = None
    cycles_b: int | None = None
    wait_a_ms: float | None = None
    wait_b_ms: float | None = None
    function_b: str | None = None
    match: str | None = None
    parts: int = 0
    part_of: str | None = None
    part_on: str | None = None
    rank: int | None = None


_TYPES: dict[type, pl.DataType] = {int: pl.Int64(), float: pl.Float64(), str: pl.String()}


def _schema() -> dict[str, pl.DataType]:
    result: dict[str, pl.DataType] = {}
    for name, hint in get_type_hints(FunctionChange).items():
        kinds = [kind for kind in get_args(hint) if kind in _TYPES] if isinstance(hint, UnionType) else [hint]
        result[name] = _TYPES.get(kinds[0], pl.String())
    return result


SCHEMA = _schema()


def frame_of(changes: Iterable[FunctionChange]) -> pl.DataFrame:
    """The rows as a table, one column per field."""
    return pl.DataFrame([asdict(change) for change in changes], schema=SCHEMA)


def category(kind: str | None, device: str | None) -> Category:
    """Where the function runs: on a device, on the host, or between devices; 'idle' for a device's idle time."""
    if kind == IDLE:
        return "idle"
    if kind == "collective":
        return "communication"
    return "host" if device == "Host" else "device"


def in_order(
    table: pl.DataFrame, first: tuple[str, str | None, str | None] | None = None, judged: bool = True
) -> pl.DataFrame:
    """The table sorted: ``first`` (function, device, kind), the first cause of the cycle's change, then regressions,
    then improvements, then the rest by size of change, without one by their time. Where the runs are not ``judged``,
    for nothing shows that both do the same work, all rows by size of change, those of the host last."""
    groups = dict.fromkeys(REGRESSIONS, 0) | dict.fromkeys(("faster", "fewer launches", "gone"), 1)
    group = pl.col("verdict").replace_strict(groups, default=2, return_dtype=pl.Int8)
    if not judged:
        group = 2 + (pl.col("device") == "Host").fill_null(False).cast(pl.Int8)
    sure = pl.when(group < 2).then("sure_ms").fill_null(0.0)
    here = pl.min_horizontal(sure, pl.col("lost_here_ms").fill_null(float("inf")))
    foremost = []
    if first is not None:
        function, device, kind = first
        top = (pl.col("function") == function) & pl.col("device").eq_missing(pl.lit(device, pl.String)) & (
            pl.col("kind").eq_missing(pl.lit(kind, pl.String))) & (group < 2)
        foremost.append(~top.fill_null(False))
    return table.sort(
        *foremost, group, -here, -sure, -pl.col("delta_ms").abs().fill_null(0.0),
        -pl.max_horizontal("a_ms", "b_ms"), "function", "rank", "device", "pid_a", "pid_b",
        maintain_order=True, nulls_last=True,
    )


MOST = 0.5  # Share of the cycle's change that a cause must make up to explain it.


class IdleChange(Struct, frozen=True):
    """Idle time of one device by one cause, ms per cycle; ``function`` is the row's name. ``share`` is its part of the
    cycle's change (1: all); None if the cycle kept its length, and for idle time without a recorded cause."""

    function: str
    device: str | None
    rank: int | None
    a_ms: float
    b_ms: float
    delta_ms: float
    ci_low_ms: float | None
    ci_high_ms: float | None
    q: float | None
    share: float | None

    @property
    def explains_cycle(self) -> bool:
        """Whether it makes up most of the cycle's change."""
        return self.share is not None and self.share >= MOST

    @property
    def label(self) -> str:
        """The cause in words: 'DataLoader (input)'."""
        return self.function.removeprefix("idle: ")


def idle_changes(rows: Sequence[FunctionChange], cycles: CycleTime) -> list[IdleChange]:
    """The causes that changed significantly: those that explain the cycle first, then by size of change."""
    made = []
    for row in rows:
        if row.kind == IDLE and row.verdict in ("slower", "faster") and row.a_ms is not None and row.b_ms is not None:
            delta = row.b_ms - row.a_ms
            caused = row.function != idle_name(UNKNOWN)
            share = delta / cycles.mean_delta_ms if cycles.called and caused and cycles.mean_delta_ms else None
            made.append(IdleChange(
                row.function, row.device, row.rank, row.a_ms, row.b_ms, delta, row.ci_low_ms, row.ci_high_ms, row.q,
                share,
            ))
    return sorted(made, key=lambda one: (not one.explains_cycle, -abs(one.delta_ms)))


MOSTLY = 0.75
"""Share of a host function's change that idle time must make up to account for all of it: the rest was hidden."""


def fold_into_idle(rows: Sequence[FunctionChange]) -> None:
    """Mark host rows as part of the idle row that has them as its cause, if that row accounts for their change."""
    waited = [row for row in rows if row.kind == IDLE and row.verdict in CALLED]
    for idle in sorted(waited, key=lambda row: -abs(row.delta_ms or 0.0)):
        mine = [
            row for row in rows
            if row.device == HOST and row.part_of is None and row.verdict in CALLED
            and (row.pid_a, row.pid_b) == (idle.pid_a, idle.pid_b)
            and (cause := named_cause(row.function, row.kind)) is not None and idle_name(cause) == idle.function
        ]
        moved, change = sum(row.delta_ms or 0.0 for row in mine), idle.delta_ms or 0.0
        if mine and change * moved > 0 and abs(change) >= MOSTLY * abs(moved):
            for row in mine:
                row.part_of, row.part_on = idle.function, idle.device
            idle.parts = len(mine)


def under_their_rows(table: pl.DataFrame) -> pl.DataFrame:
    """The sorted table with every part moved below the row it is part of."""
    numbered = table.with_row_index("at")
    keys = ["function", "device", "pid_a", "pid_b"]
    parents = numbered.filter(pl.col("part_of").is_null()).select(*keys, pl.col("at").alias("parent"))
    placed = numbered.join(
        parents, left_on=["part_of", "part_on", "pid_a", "pid_b"], right_on=keys, how="left", nulls_equal=True,
        maintain_order="left",
    ).with_columns(pl.when(pl.col("part_of").is_null()).then("at").otherwise("parent").alias("under"))
    return placed.sort("under", pl.col("part_of").is_not_null(), "at").drop("at", "parent", "under")
