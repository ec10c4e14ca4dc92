"""One row of the diff: what a function took in both runs, whether the difference is significant, and why it may be.

Every way to compare two runs (cycles, launches, repeated runs, sums, a finished comparison) makes these rows, so that
the table, the gate and the exports know one shape. Launches and milliseconds are per cycle, or per run where there are
no cycles. What is not known is None.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import UnionType
from typing import Literal, get_args, get_type_hints

import polars as pl
from msgspec import Struct
from msgspec.structs import asdict

from ..prepare.samples import IDLE

Call = Literal["slower", "faster", "new", "gone", "~", "too few cycles"]
"""The verdict of a row; ``~`` is no sure change."""
Category = Literal["device", "host", "communication", "idle"]
REGRESSIONS: tuple[Call, ...] = ("slower", "new")


class FunctionChange(Struct):
    """``sure_ms`` is the near end of the interval of what is lost or won per cycle, ``noise_ms`` what two halves of A
    differ by themselves.

    ``lost_here_ms`` is the part of ``sure_ms`` the function itself accounts for: without what the calls inside it take
    and without waiting for a device. Rows are ranked by it; None is all of ``sure_ms``. ``parts`` counts the rows that
    are part of this one, which has the name ``part_of`` and the device ``part_on`` for them.
    """

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
    verdict: Call = "~"
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
    renamed: str | None = None
    parts: int = 0
    part_of: str | None = None
    part_on: str | None = None
    rank: int | None = None


_TYPES: dict[type, pl.DataType] = {int: pl.Int64(), float: pl.Float64(), str: pl.String()}


def _schema() -> dict[str, pl.DataType]:
    found: dict[str, pl.DataType] = {}
    for name, hint in get_type_hints(FunctionChange).items():
        kinds = [kind for kind in get_args(hint) if kind in _TYPES] if isinstance(hint, UnionType) else [hint]
        found[name] = _TYPES.get(kinds[0], pl.String())
    return found


SCHEMA = _schema()


def frame_of(changes: Iterable[FunctionChange]) -> pl.DataFrame:
    """The rows as a table, one column per field."""
    return pl.DataFrame([asdict(change) for change in changes], schema=SCHEMA)


def category(kind: str | None, device: str | None) -> Category:
    """Where the function runs: on a device, on the host, or between devices; 'idle' is a device that waits."""
    if kind == IDLE:
        return "idle"
    if kind == "collective":
        return "communication"
    return "host" if device == "Host" else "device"


def in_order(table: pl.DataFrame) -> pl.DataFrame:
    """What explains the cycle, then regressions, then improvements, then the rest; each by ``sure_ms``.

    An idle cause that the cycle waits for in one run and not in the other is the difference, whichever way it went.
    """
    groups = {"slower": 0, "new": 0, "faster": 1, "gone": 1}
    here = pl.min_horizontal("sure_ms", pl.col("lost_here_ms").fill_null(float("inf")))
    explains = (pl.col("kind") == IDLE).fill_null(False) & (pl.col("path") == "exposed").fill_null(False)
    return table.sort(
        ~explains,
        pl.col("verdict").replace_strict(groups, default=2, return_dtype=pl.Int8),
        -here.fill_null(0.0), -pl.col("sure_ms").fill_null(0.0), -pl.col("delta_ms").abs().fill_null(0.0),
        "function", "rank", "device", "pid_a", "pid_b",
        maintain_order=True, nulls_last=True,
    )
