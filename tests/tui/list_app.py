"""A tiny app around the list, for tests of the list and of the wire: no screens, no files."""

from __future__ import annotations

import sys
from typing import Any

import polars as pl
from textual.app import ComposeResult

from warplens.analysis.contract.column import Column
from warplens.analysis.table.rows import Rows
from warplens.analysis.table.table import Table
from warplens.tui.list import glyphs
from warplens.tui.list.table_list import TableList
from warplens.tui.session import themes
from warplens.tui.session.jobs import Answered
from warplens.tui.terminal import textual_hooks
from warplens.tui.terminal.writer import Wired

COLUMNS = (
    Column("name", "kernel", "text", "kernel name", width=31, order=0, elastic=True, role="name"),
    Column("total_ns", "total", "ns", "summed duration", width=9, order=0, role="time"),
    Column("share", "share", "fraction", "share of the time", width=6, order=1, role="share"),
    Column("count", "count", "count", "launches", width=6, order=2),
    Column("p50_ns", "p50", "ns", "median", width=8, order=4),
    Column("p99_ns", "p99", "ns", "99th percentile", width=8, order=5),
    Column("trend", "latency", "trend", "distribution", width=12, order=6),
    Column("tensor", "tensor", "fraction", "tensor cores", width=12, order=3, bar="tensor"),
    Column("dram", "DRAM", "fraction", "memory", width=12, order=3, bar="dram"),
    Column("bound", "bound", "text", "what holds it", width=8, order=7),
)
HOSTILE = [
    "\x1b]0;PWNED\x07title", "[red]markup[/red]", "[/nope]", "[@click=app.bell]x[/]", "\x9b2Jclear", "a\x08\x08b",
    "\u202eevil", "", "核函数_" * 20, "e\u0301" * 40, "\x1b[31mred", "tab\tnew\nline\rreturn\x00nul", "👩‍👩‍👧‍👦 family",
]
"""Names that would act on a terminal, or on a renderer, if they got there as they are."""


def kernels(rows: int, names: list[str] | None = None) -> Table:
    """A made-up kernels table, largest first."""
    names = names or [
        "Kernel", "elementwise_kernel", "vectorized_elementwise_kernel", "multi_tensor_apply_kernel",
        "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x128_32x4_tn_align8>(T1::Params)",
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    ]
    total = [26_500_000 // (i + 1) + (i * 7919) % 1000 for i in range(rows)]
    whole = sum(total)
    frame = pl.DataFrame(
        {
            "name": pl.Series([names[i % len(names)] for i in range(rows)], dtype=pl.Categorical),
            "total_ns": total, "share": [t / whole for t in total], "count": [293 + i % 1000 for i in range(rows)],
            "p50_ns": [58_100 + i * 31 % 90_000 for i in range(rows)],
            "p99_ns": [162_900 + i * 37 % 2_000_000 for i in range(rows)],
            "trend": [[(i + k) * 5 % 11 for k in range(12)] for i in range(rows)],
            "tensor": [None if i % 5 == 2 else (i * 13 % 101) / 100 for i in range(rows)],
            "dram": [(i * 29 % 100) / 100 for i in range(rows)],
            "bound": [("compute", "low", "memory", None)[i % 4] for i in range(rows)],
        }
    )
    return Table("kernels", COLUMNS, Rows(frame), frame.height)


class ListApp(Wired):
    """The list and nothing else."""

    ENABLE_COMMAND_PALETTE = False

    def __init__(self, table: Table, theme: str = themes.DEFAULT, ascii_only: bool = False) -> None:
        super().__init__()
        self.shown = table
        for name in themes.names():
            self.register_theme(themes.theme(name))
        self.theme = theme
        self.ascii_only = ascii_only

    def get_line_filters(self) -> list[Any]:
        filters = list(super().get_line_filters())
        return [*filters, glyphs.Plain()] if self.ascii_only else filters

    def compose(self) -> ComposeResult:
        yield TableList(id="list")

    def on_mount(self) -> None:
        self.list.show(self.shown)
        self.list.focus()

    def on_answered(self, event: Answered) -> None:
        event.deliver()

    @property
    def list(self) -> TableList:
        return self.query_one("#list", TableList)


if __name__ == "__main__":
    if "plain" in sys.argv:  # as with a Textual the hooks do not know
        textual_hooks.OLDEST = (99,)
    ListApp(kernels(int(sys.argv[1]), HOSTILE if "hostile" in sys.argv else None)).run()
