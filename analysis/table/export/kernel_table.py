"""The four-column kernel table: name, latency in ns, tensor-core and DRAM utilisation as fractions of peak.

One row per launch. The layout is that of tables printed from ``ncu --csv``: the name is 50 cells wide, cut with
``...``; C++ names lose the return type, the usual namespaces and everything from the first ``<`` or ``(``. An
unmeasured utilisation is ``-``, never 0.00.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ...core.text import clean
from ..table import Table
from . import WrongFormat

_WIDTH = 50
_NOISE = ("at::native::", "<unnamed>::", "(anonymous namespace)::", "cutlass::")
_BLOCK = 50_000


@lru_cache(maxsize=65_536)
def without_namespaces(raw: str) -> str:
    """The demangled name without return type, namespaces, template arguments and parameters."""
    raw = raw.removeprefix("void ")
    for noise in _NOISE:
        raw = raw.replace(noise, "")
    ends = [at for at in (raw.find("<"), raw.find("(")) if at > 0]
    return raw[: min(ends)] if ends else raw


def _fit(name: str) -> str:
    return name if len(name) <= _WIDTH else name[: _WIDTH - 3] + "..."


def _share(value: float | None) -> str:
    return f"{'-':>6}" if value is None else f"{value:6.2f}"


def render(tables: Sequence[Table]) -> bytes:
    """The launches in the order shown. Raises WrongFormat for any other view."""
    (table,) = tables
    names = [column.name for column in table.columns]
    if not {"name", "dur_ns", "tensor", "dram"} <= set(names):
        raise WrongFormat(f"kernel-table has one row per launch: use it with --view launches, not {table.view}")
    name, dur, tensor, dram = (names.index(wanted) for wanted in ("name", "dur_ns", "tensor", "dram"))
    kind = names.index("kind") if "kind" in names else None
    printed = table.sources and table.sources[0].format == "kernel-table"
    out = [f"{'Kernel':<{_WIDTH}}  {'Latency':>10} {'Tensor':>6} {'DRAM':>6}\n"]
    for start in range(0, len(table), _BLOCK):
        for row in table.window(start, min(start + _BLOCK, len(table))):
            if kind is not None and row[kind] not in ("kernel", "collective", None):
                continue
            raw = row[name] or ""
            text = raw if printed else clean(without_namespaces(raw))
            out.append(f"{_fit(text):<{_WIDTH}}| {row[dur] or 0:>10} {_share(row[tensor])} {_share(row[dram])}\n")
    return "".join(out).encode("utf-8", "surrogateescape")
