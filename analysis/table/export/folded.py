"""Folded stacks: one line per stack of modules, operators and kernels with its self time in ns, or of functions with
its CPU samples.

The format of Brendan Gregg's FlameGraph tools, which most viewers read. A ``;`` in a name would start another frame, so
it becomes a comma. Two runs give two figures per line, A before B, like ``difffolded.pl``.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...contract.options import SIDES, Side
from ...core.text import visible
from ..flame import Flame, flame_of, weights_of
from ..table import Table
from . import WrongFormat

NOT_A_TREE = "needs a tree: use --view ops --tree, or for one run --view stacks --tree"


def render(tables: Sequence[Table]) -> bytes:
    """The stacks by the table's flame-graph weight. Raises WrongFormat."""
    (table,) = tables
    if not weights_of(table):
        raise WrongFormat(f"folded {NOT_A_TREE}")
    sides: tuple[Side | None, ...] = SIDES if len(table.sources) > 1 else (None,)
    stacks: dict[str, list[int]] = {}
    for number, side in enumerate(sides):
        for stack, own in _stacks(flame_of(table, side=side)):
            stacks.setdefault(stack, [0] * len(sides))[number] += own
    lines = (f"{stack} {' '.join(map(str, own))}\n" for stack, own in stacks.items())
    return "".join(lines).encode("utf-8", "backslashreplace")


def _stacks(flame: Flame) -> list[tuple[str, int]]:
    result, names = [], list[str]()
    for frame, own in zip(flame.frames, flame.own(), strict=True):
        del names[frame.depth :]
        names.append(visible(frame.name).replace(";", ",") or "?")
        if own:
            result.append((";".join(names), own))
    return result
