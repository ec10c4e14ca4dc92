"""Two runs made ready to be compared: the same devices, kinds of cycles and names, collectives without their waiting.

The table and the details of a suspect both begin here, so that they speak of the same numbers.
"""

from __future__ import annotations

import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from ...contract.options import Options
from ...core import device_pairs as devices
from . import collectives, renamed
from .idle_time import with_idle_time
from .samples import Matched, Work, match
from .stratify import same_kind
from .swapped import Key, with_swapped


class Prepared(Struct, frozen=True):
    """``names`` are those B has for functions of A called otherwise there, ``moved`` B's devices under A's names.

    ``works`` are without their rows: these are the matrices of ``matched`` now, and take three times the memory.

    ``waits`` and ``timings`` are what was taken out of collectives, ``notes`` what was done, in sentences. ``parts``
    are the kernels that were swapped, with the operator's row that each is a part of.
    """

    works: tuple[Work, Work]
    matched: list[Matched]
    names: dict[tuple[str, str | None], str]
    moved: dict[str, str]
    waits: collectives.CollectiveWaits
    timings: list[collectives.CollectiveTiming]
    notes: tuple[str, ...]
    parts: dict[Key, Key]


def prepared(a: Work, b: Work, options: Options) -> Prepared:
    """Match the work of two runs. Raises CannotAnswer for a process that is not there."""
    a, b, moved = _on_one_device(a, b)
    a, b, excluded = same_kind(a, b)
    works, names = _under_one_name(a, b, moved, options)
    matched, waits, timings = collectives.split(match(*works, options))
    matched, parts = with_swapped(matched, works, names, moved, options)
    matched = with_idle_time(matched, works, moved, options)
    works = replace(works[0], rows=works[0].rows.clear()), replace(works[1], rows=works[1].rows.clear())
    return Prepared(works, matched, names, moved, waits, timings, (*devices.note(moved), *excluded), parts)


def _on_one_device(a: Work, b: Work) -> tuple[Work, Work, dict[str, str]]:
    """B's devices under the names of A's where the runs used different ones."""
    pairs = devices.mapped(a.rows["device"].unique(), b.rows["device"].unique())
    if not pairs:
        return a, b, pairs
    under = devices.under(pairs)
    return a, replace(b, rows=b.rows.with_columns(under), metrics=b.metrics.with_columns(under)), pairs


def _under_one_name(
    a: Work, b: Work, moved: dict[str, str], options: Options
) -> tuple[tuple[Work, Work], dict[tuple[str, str | None], str]]:
    """Functions that only changed their name get A's in B; what they are called there is returned beside."""
    pairs = renamed.renamed(a, b, moved, options)
    if not pairs:
        return (a, b), {}
    table = pl.DataFrame(
        [(now, device, was) for (now, device), was in pairs.items()],
        schema={"function": pl.String, "device": pl.String, "was": pl.String}, orient="row",
    )

    def under(frame: pl.DataFrame) -> pl.DataFrame:
        function = frame.schema["function"]
        renames = table.cast({"function": function, "device": frame.schema["device"], "was": function})
        joined = frame.join(renames, on=["function", "device"], how="left", nulls_equal=True, maintain_order="left")
        return joined.with_columns(pl.coalesce("was", "function").alias("function")).drop("was")

    back = {(was, device): now for (now, device), was in pairs.items()}
    return (a, replace(b, rows=under(b.rows), metrics=under(b.metrics))), back
