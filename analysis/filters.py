"""The filter language: what ``f`` in the app and ``--filter`` on the command line understand.

A filter is terms separated by spaces, all of which must hold. A term is ``column OP value`` with OP one of
``= != > >= < <= ~`` (``~`` is a regular expression), where a value may carry a unit (``total_ns>1.5ms``,
``share>5%``), or plain text, found in any text column without regard to case. ``!`` before a term inverts it; quotes
keep spaces together.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from .column import Column

_TERM = re.compile(r"^(?P<column>[A-Za-z_]\w*)\s*(?P<op>!=|>=|<=|=|>|<|~)\s*(?P<value>.+)$", re.DOTALL)
_SCALE = {"ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9}
_NUMBER = re.compile(r"^(?P<number>[-+]?[\d_.]+(?:[eE][-+]?\d+)?)\s*(?P<unit>ns|us|µs|ms|s|%)?$")


class BadFilter(ValueError):
    """The filter cannot be understood; the message says which term and why."""


@dataclass(frozen=True, slots=True)
class Filter:
    """A parsed filter; ``text`` is what the user typed and what exports show."""

    text: str
    invert: bool = False
    literal: bool = False

    @staticmethod
    def containing(text: str) -> Filter:
        """A filter that only looks for the text, whatever characters it holds."""
        return Filter(text, literal=True)

    def mask(self, frame: pl.DataFrame, columns: Sequence[Column]) -> pl.Series:
        """One boolean a row of ``frame``. Raises BadFilter."""
        if self.literal:
            mask = frame.select(_contains(self.text, frame).alias("m"))["m"]
            return ~mask if self.invert else mask
        expression = pl.lit(True)
        for term in _split(self.text):
            expression = expression & _term(term, frame, columns)
        try:
            mask = frame.select(expression.alias("m")).get_column("m")
        except pl.exceptions.PolarsError as error:
            raise BadFilter(f"{self.text}: {error}") from error
        if len(mask) != frame.height:
            mask = mask.new_from_index(0, frame.height)
        mask = mask.fill_null(False)
        return ~mask if self.invert else mask


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text) if any(quote in text for quote in "\"'") else text.split()
    except ValueError as error:
        raise BadFilter(f"{text}: {error}") from error


def _contains(text: str, frame: pl.DataFrame) -> pl.Expr:
    found = pl.lit(False)
    for name, dtype in frame.schema.items():
        if dtype == pl.Categorical:
            # match the few distinct names once, then look rows up: 8 ms at 5 million rows
            unique = frame[name].unique().cast(pl.String)
            hits = unique.filter(unique.str.to_lowercase().str.contains(text.lower(), literal=True))
            found = found | pl.col(name).is_in(hits.cast(pl.Categorical)).fill_null(False)
        elif dtype == pl.String:
            found = found | pl.col(name).str.to_lowercase().str.contains(text.lower(), literal=True).fill_null(False)
    return found


def _term(term: str, frame: pl.DataFrame, columns: Sequence[Column]) -> pl.Expr:
    if term.startswith("!") and len(term) > 1 and not term.startswith("!="):
        return ~_term(term[1:], frame, columns)
    match = _TERM.match(term)
    column = _column(match["column"], columns) if match else None
    if match is None or column is None:
        return _contains(term, frame)
    values = pl.col(column.name)
    if frame.schema[column.name] in (pl.Categorical, pl.String):
        text = values.cast(pl.String)
        if match["op"] == "~":
            return text.str.contains(match["value"])
        wanted = match["value"]
        return {"=": text == wanted, "!=": text != wanted}.get(match["op"], text.str.contains(wanted, literal=True))
    number = _NUMBER.match(match["value"])
    if frame.schema[column.name] == pl.Boolean:
        truth = match["value"].lower() in ("true", "yes", "1")
        return values == truth if match["op"] == "=" else values != truth
    if number is None:
        raise BadFilter(f"{term}: {column.name} is a number, {match['value']!r} is not")
    wanted_number = float(number["number"].replace("_", "")) * _factor(number["unit"], column)
    return {
        "=": values == wanted_number, "!=": values != wanted_number, ">": values > wanted_number,
        ">=": values >= wanted_number, "<": values < wanted_number, "<=": values <= wanted_number,
        "~": values.cast(pl.String).str.contains(match["value"]),
    }[match["op"]]


def _column(name: str, columns: Sequence[Column]) -> Column | None:
    """The column of that name, or of that header, or the only one whose name begins so (``total`` for ``total_ns``)."""
    for column in columns:
        if name in (column.name, column.header.lower()):
            return column
    close = [column for column in columns if column.name.startswith(name)]
    return close[0] if len(close) == 1 else None


def _factor(unit: str | None, column: Column) -> float:
    if unit is None:
        return 1.0
    if unit == "%":
        return 0.01 if column.unit == "fraction" else 1.0
    base = {"ns": 1.0, "us": 1e3, "ms": 1e6}.get(column.unit)
    if base is None:
        raise BadFilter(f"{column.name} is no duration, so it cannot be compared with one in {unit}")
    return _SCALE[unit] / base
