"""Call chains of CPU samples and of OS runtime library calls.

A chain is several rows (``id``, ``stackDepth``), innermost frame first; samples (COMPOSITE_EVENTS) and calls (OSRT_API)
refer to it by id. Function and module are string ids. A function without symbols is exported as an address, a different
one in almost every sample: such frames are named by their module alone, and adjacent ones of one module are merged.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from ..schema import NAME
from . import lookups
from .database import NsysDatabase

MOST = 2_000_000
"""Maximum number of samples, and of calls: their chains stay in memory. One thread at 1 kHz exceeds it in an hour."""
_STATES = (
    "Unknown", "Running", "Interruptible", "Uninterruptible", "Stopped", "Terminated", "Unscheduled", "Waiting",
    "OS runtime", "Initialized", "Transition",
)
_FRAME = ("symbol", "module", "unresolved")


def blocks(database: NsysDatabase, strings: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """Pairs of table and block in the columns of ``call_chains``; rows without a chain are left out."""
    for table, chains, key in (("COMPOSITE_EVENTS", "SAMPLING_CALLCHAINS", "id"), ("OSRT_API", "OSRT_CALLCHAINS",
                                                                                   "callchainId")):
        if database.has(table, "start", "globalTid", key) and database.has(chains, "id", "symbol", "stackDepth"):
            if (rows := database.count(table)) > MOST:
                sentence = f"call chains are read for the first {MOST:,} of {rows:,} rows of {table} only"
                database.wrong.sentences.append(sentence)
            for block in _with_chains(database, strings, table, key, _stacks(database, strings, chains)):
                yield table, block


def _with_chains(
    database: NsysDatabase, strings: pl.DataFrame, table: str, key: str, stacks: pl.DataFrame
) -> Iterator[pl.DataFrame]:
    names = strings.select("id", call=pl.col("text").cast(NAME))

    def build(rows: pl.DataFrame) -> pl.DataFrame:
        rows = rows.join(stacks, left_on=key, right_on="id", how="inner", maintain_order="left")
        rows = rows.join(names, left_on="nameId", right_on="id", how="left", maintain_order="left")
        return rows.select(
            "start", "end", "call",
            lookups.pid("globalTid").alias("pid"), lookups.tid("globalTid").alias("tid"),
            pl.when(pl.col("threadState").is_not_null()).then(lookups.listed("threadState", _STATES)).alias("state"),
            "function", "stack",
        )

    columns = [key] if key != "id" else ["id"]
    taken = 0
    for block in database.blocks(table, (*columns, "start", "end", "globalTid", "nameId", "threadState"), build=build):
        yield block.head(MOST - taken)
        taken += block.height
        if taken >= MOST:
            return


def _stacks(database: NsysDatabase, strings: pl.DataFrame, table: str) -> pl.DataFrame:
    """One row per chain: its ``id``, innermost ``function`` and ``stack``."""
    done, rest = list[pl.DataFrame](), pl.DataFrame()
    for block in database.blocks(table, ("id", *_FRAME, "stackDepth")):
        rows = pl.concat([rest, block]) if rest.height else block
        last = pl.col("id") == rows["id"][-1] if rows.height else pl.lit(False)  # may continue in the next block
        done.append(_joined(rows.filter(~last), strings))
        rest = rows.filter(last)
    done.append(_joined(rest, strings) if rest.height else pl.DataFrame())
    whole = [one for one in done if one.height]
    empty = pl.DataFrame(schema={"id": pl.Int64, "function": NAME, "stack": NAME})
    return pl.concat([empty, *whole]).unique("id", keep="first")


def _joined(rows: pl.DataFrame, strings: pl.DataFrame) -> pl.DataFrame:
    """The chains of these rows: one line per frame, 'function (module)', or '[module]' for frames without symbols."""
    module = pl.col("text").str.split("/").list.last()
    frames = rows.select(_FRAME).unique()
    frames = frames.join(strings, left_on="symbol", right_on="id", how="left").rename({"text": "function"}).join(
        strings.select("id", module_name=module), left_on="module", right_on="id", how="left"
    )
    plain = (pl.col("unresolved").fill_null(0) != 0) | pl.col("function").str.starts_with("0x")
    of = pl.col("module_name").str.strip_chars("[]")
    named = pl.when(plain.fill_null(True)).then(pl.format("[{}]", of.fill_null("unknown"))).otherwise("function")
    frames = frames.select(
        *_FRAME, name=named, line=pl.when(named.str.starts_with("[") | of.is_null()).then(named).otherwise(
            pl.format("{} ({})", named, of)))
    rows = rows.join(frames, on=_FRAME, how="left", nulls_equal=True).sort("id", "stackDepth")
    again = (pl.col("line") == pl.col("line").shift(1)) & (pl.col("id") == pl.col("id").shift(1))
    rest = rows.filter(~(again.fill_null(False) & pl.col("line").str.starts_with("[")))
    return rest.group_by("id", maintain_order=True).agg(
        function=pl.col("name").first(), stack=pl.col("line").str.join("\n")
    ).with_columns(pl.col("function", "stack").cast(NAME))
