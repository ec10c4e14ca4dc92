"""The page that lies in every dataset and says how to read it without warplens."""

from __future__ import annotations

from .. import schema
from .layout import LAYOUT, TABLES

_HEAD = f"""# A job reduced by warplens

Layout {LAYOUT}. `warplens PATH` opens this folder as a run. It is plain Parquet: a folder a table, in it a file a rank,
each with a column `rank`.

    import polars as pl
    cycles = pl.read_parquet("cycles/*.parquet")

    import pyarrow.dataset as ds
    cycles = ds.dataset("cycles").to_table()

Times are nanoseconds from the start of the rank's own recording; `rank_sums.epoch_ns` is the absolute time of that
zero, where it was recorded. A value nobody measured is null, never 0. `ranks/` says of each file what it was reduced
from, `packed/` repeats small tables in one file, `dataset.json` is what warplens opens.

Not in it: single launches that are no collectives, host slices, operators, samples of counters. They are in the
recordings.
"""


def readme() -> str:
    """The page, with the columns of every table."""
    parts = [_HEAD]
    for name in TABLES:
        rows = [
            f"| `{field.name}` | {str(field.dtype).split('(')[0]} | {field.unit} | {field.meaning} |"
            for field in schema.TABLES[name]
        ]
        parts.append("\n".join([f"## {name}", "", "| column | type | unit | meaning |", "|---|---|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"
