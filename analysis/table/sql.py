"""Polars SQL over a run's tables, for questions that no view answers.

Used by the command ``sql`` and by the app's view. A result is a table like any other: it sorts, filters and exports. A
query that cannot run ends in one sentence.

A query may come from somebody else, as a trace may, so it can read the run's tables only: polars' table functions,
which open any file or URL (``read_csv`` and others), are refused unless the caller allows them.
"""

from __future__ import annotations

import difflib
import re

import polars as pl

from ...loaders.schema import TABLES
from ...loaders.trace import TABLE_NAMES, Trace
from ..contract.column import Column, Role, Unit
from ..contract.options import Options
from ..contract.view import Answer, CannotAnswer, Runs, View
from ..core.names.display_names import short_names_of
from .rows import Rows
from .table import Table, names_of, sources

_PREFIXES = {1: ("",), 2: ("a_", "b_")}
_WIDEST = 44
_RELATION = re.compile(r"relation '(.*)' was not found")
_COLUMN = re.compile(r'unable to find column "(.*?)"')
_EXPECTED = re.compile(r"sql parser error: (.*?)(?: at Line: 1, Column: (\d+))?$")
_FILE_FUNCTION = re.compile(r"""\b((?:read|scan)_\w+)["`]?\s*\(""", re.IGNORECASE)
_COMMENT = re.compile(r"/\*|--")
_FILE_WORD = re.compile(r"((?:read|scan)_\w+)", re.IGNORECASE)
"""Used if the statement has a comment, which may separate a function's name from its bracket: the name alone is
refused. String literals are searched too: only the parser knows where one ends, and a false match costs an option."""
Words = dict[str, tuple[str, ...]]  # Table → its columns.


class BadQuery(ValueError):
    """The query cannot run; the message is one sentence that says what is wrong and what to use instead."""


def filled(runs: Runs) -> list[str]:
    """The tables that have rows in any of the runs."""
    return [name for name in TABLE_NAMES if any(run.has(name) for run in runs)]


def tables(runs: int) -> Words:
    """The tables a query may name, with their columns; with two runs the names begin with a_ and b_."""
    return {f"{prefix}{name}": tuple(field.name for field in TABLES[name])
            for prefix in _PREFIXES[runs] for name in TABLE_NAMES}


def query(runs: tuple[Trace, ...], statement: str, most: int | None = None, *, allow_files: bool = False) -> Table:
    """The result as a table, limited to ``most`` rows if given. Raises BadQuery. ``allow_files`` lets the query read
    files and URLs beside the runs' tables. Categorical columns are strings here, so that SQL's text functions work on
    them."""
    frames = {
        f"{prefix}{name}": run.table(name).with_columns(pl.col(pl.Categorical).cast(pl.String))
        for prefix, run in zip(_PREFIXES[len(runs)], runs, strict=True)
        for name in TABLE_NAMES
    }
    statement = statement.strip().removesuffix(";").strip()
    if not statement:
        raise BadQuery("The query is empty; try: select * from kernels limit 10.")
    reading = (_FILE_WORD if _COMMENT.search(statement) else _FILE_FUNCTION).search(statement)
    if reading and not allow_files:
        raise BadQuery(f"{reading[1]} reads files: a query reads the tables of the run only, unless `warplens sql "
                       "--allow-files` runs it.")
    try:
        result = pl.SQLContext(frames, eager=False).execute(statement)
        frame = (result if most is None else result.head(most + 1)).collect(engine="streaming")
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError) as error:
        raise BadQuery(_sentence(str(error), statement, tables(len(runs)))) from error
    capped = most is not None and frame.height > most
    frame = _plain(frame if not capped else frame.head(most or 0))
    columns = tuple(_column(name, frame, at) for at, name in enumerate(frame.columns))
    cut = f"The result is cut to its first {frame.height:,} rows; add a limit or a where."
    named = [column.name for column in columns if column.role == "name"]
    rows = Rows(frame, named=named)
    return Table("sql", columns, rows, frame.height, sources=sources(runs), summary=(statement,),
                 notes=(cut,) if capped else (), names=names_of(short_names_of(runs), rows, columns))


def _plain(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with decimals as floats, and as text whatever is not a number, text, boolean or list of numbers."""
    frame = frame.with_columns(pl.selectors.decimal().cast(pl.Float64))
    odd = [
        name for name, dtype in frame.schema.items()
        if not (_is_number(dtype) or dtype in (pl.String, pl.Boolean, pl.Null) or _is_list(dtype))
    ]
    return frame.with_columns(
        pl.Series(name, [None if value is None else str(value) for value in frame[name]], dtype=pl.String)
        for name in odd
    )


def _is_list(dtype: pl.DataType) -> bool:
    return isinstance(dtype, pl.List | pl.Array) and _is_number(dtype.inner)


def _is_number(dtype: object) -> bool:
    return isinstance(dtype, pl.DataType) and (dtype.is_integer() or dtype.is_float())


def _column(name: str, frame: pl.DataFrame, at: int) -> Column:
    """The display of a result column. A name that follows our tables' naming gets their unit."""
    dtype = frame.schema[name]
    unit: Unit = "number"
    role: Role = "value"
    if dtype in (pl.String, pl.Null):
        unit, role = "text", "name" if name == "name" else "label"
    elif dtype == pl.Boolean:
        unit = "bool"
    elif _is_list(dtype):
        unit = "list"
    elif name.endswith("_ns"):
        unit = "ns"
    elif name == "bytes" or name.endswith("_bytes"):
        unit = "bytes"
    elif name in ("tensor", "dram", "occupancy"):
        unit = "fraction"
    elif dtype.is_integer():
        unit = "count"
    width = max(len(name), 10)
    if unit == "text":
        longest = frame[name].head(1000).cast(pl.String).str.len_chars().max()
        width = min(max(len(name), int(longest) if isinstance(longest, int) else 1), _WIDEST)
    return Column(name, name, unit, f"{name}, as the query gives it", width=width, order=0 if at == 0 else at,
                  pinned=at == 0, role=role, elastic=unit == "text" and width == _WIDEST,
                  of="as the query gives it" if unit == "fraction" else "")


def _sentence(message: str, statement: str, words: Words) -> str:
    """The engine's message as one sentence, with suggestions."""
    first = message.strip().splitlines()[0] if message.strip() else "the query cannot be run"
    if match := _RELATION.search(first):
        return f"There is no table {match[1]}{_instead(match[1], words)}; there are {', '.join(words)}."
    if match := _COLUMN.search(first):
        named = [table for table in words if re.search(rf"\b{table}\b", statement, re.IGNORECASE)]
        columns = sorted({column for table in named or words for column in words[table]})
        listed = f"; {named[0]} has {', '.join(words[named[0]])}" if len(named) == 1 else ""
        return f"There is no column {match[1]}{_instead(match[1], columns)}{listed}."
    if match := _EXPECTED.search(first):
        where = f" at character {match[2]}" if match[2] else ""
        return f"This is not SQL: {match[1][:1].lower()}{match[1][1:].rstrip('.')}{where}."
    if first.startswith("one (and only one) statement"):
        return "One statement at a time."
    if first.startswith("statement type is not supported"):
        return "Only queries are run here: select, with, show tables, explain."
    return f"{first[:1].upper()}{first[1:300].rstrip('. ')}."


def _instead(name: str, among: Words | list[str]) -> str:
    near = difflib.get_close_matches(name, list(among), 2, cutoff=0.6)
    if len(near) == 2 and near[0].partition("_")[2] != near[1].partition("_")[2]:
        near = near[:1]  # both are suggested only if they are the same table of the two runs
    return f" (did you mean {' or '.join(sorted(near))}?)" if near else ""


def build(runs: Runs, options: Options) -> Answer:
    """Raises CannotAnswer: this view needs a query."""
    named, places = ("kernels", "RUN") if len(runs) == 1 else ("a_kernels", "A B")
    raise CannotAnswer(f'This view takes a query: warplens sql {places} "select name, dur_ns from {named} limit 10".')


VIEW = View("sql", (), build, free_columns=True, noun="rows")
