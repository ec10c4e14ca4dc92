"""The columns of the kernels view; names are fixed, scripts rely on them."""

from __future__ import annotations

from msgspec.structs import replace

from ..table.column import Column, side_by_side
from .bound import MEANINGS
from .sources import KEYS

COLUMNS = (
    Column("name", "kernel", "text", "name as recorded", width=34, order=0, elastic=True, pinned=True),
    Column("groups", "", "kinds", "clearly different kinds of launches behind the name, told by grid or duration",
           width=3, order=8),
    Column("kind", "kind", "text", "kernel, collective, memcpy or memset", width=10, order=9),
    Column("device", "device", "text", "device it ran on; empty where not recorded", width=7, order=8),
    Column("total_ns", "total", "ns", "summed duration", width=10, order=0),
    Column("share", "share", "fraction", "of the summed duration of all device activities", width=6, order=0),
    Column("count", "count", "count", "launches", width=7, order=2),
    Column("mean_ns", "mean", "ns", "mean duration", width=9, order=7),
    Column("min_ns", "min", "ns", "shortest launch", width=9, order=None),
    Column("p50_ns", "p50", "ns", "median duration (nearest rank)", width=9, order=4),
    Column("p99_ns", "p99", "ns", "duration 99% of the launches do not pass (nearest rank)", width=9, order=5),
    Column("max_ns", "max", "ns", "longest launch", width=9, order=None),
    Column("trend", "latency", "trend", "launches by latency, log axis from shortest to longest", width=12, order=6),
    Column("tensor", "tensor", "fraction", "tensor-core use of peak, by duration", width=12, order=3, bar=True),
    Column("dram", "DRAM", "fraction", "DRAM throughput of peak, weighted by duration", width=12, order=3, bar=True),
    Column("bound", "bound", "text", "; ".join(f"{k}: {v}" for k, v in MEANINGS.items()), width=7, order=3),
    Column("op", "operator", "text", "operator behind most of its launches; empty where not recorded", width=22,
           order=7),
)
PAIRED = tuple(column for column in COLUMNS if column.name != "groups")
"""What two runs are compared by: kinds of launches do not correspond."""
_ORDER = {
    "name": 0, "total_ns_delta": 0, "total_ns_a": 1, "total_ns_b": 1, "mean_ns_delta": 2, "share_b": 3, "share_a": 4,
    "count_a": 5, "count_b": 5, "mean_ns_a": 6, "mean_ns_b": 6, "bound_a": 7, "bound_b": 7, "tensor_a": 8,
    "tensor_b": 8, "dram_a": 8, "dram_b": 8, "op_a": 12, "op_b": 12, "trend_a": 9,
    "trend_b": 9, "share_delta": 9, "device": 10, "kind": 11,
}


def _for_two(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """Columns for two runs, of which a narrow terminal keeps what tells a change: totals, the mean's, where it went."""
    return tuple(replace(column, order=_ORDER.get(column.name, column.order and 9)) for column in columns)


PAIR_COLUMNS = _for_two(side_by_side(PAIRED, KEYS))
