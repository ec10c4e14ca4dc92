"""The filter language: ``f`` in the app and ``--filter`` on the command line.

A filter is a list of terms separated by spaces, all of which must match. A term is ``column OP value`` with OP one of
``= != > >= < <= ~`` (``~``: regular expression), where a value may have a unit (``total_ns>1.5ms``, ``share>5%``); or
it is plain text, searched in all text columns, ignoring case. ``!`` before a term negates it; quotes keep spaces
together (``device=GPU 1`` needs none where a device is "GPU 1" and none is "GPU"). ``family=gemm`` (or its letter,
``family=g``) selects the kernel family that lists show before a name, if rows have a name and a kind.
"""

from __future__ import annotations

import math
import operator
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any

import polars as pl
from msgspec import Struct

from ..contract.column import Column
from ..core.text import nearest
from ..kernels.family import LETTERS, WITH_FAMILY, family, family_column
from .rows import Rows

_TERM = re.compile(r"^(?P<column>[A-Za-z_]\w*)\s*(?P<op>!=|>=|<=|=|>|<|~)\s*(?P<value>.+)$", re.DOTALL)
_SCALE = {"ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9}
_NUMBER = re.compile(r"^(?P<number>[-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(?P<unit>ns|us|µs|ms|s|%)?$")
_COMPARISONS: dict[str, Callable[[Any, Any], pl.Series]] = {
    "=": operator.eq, "!=": operator.ne, ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le,
}

_SIDES = ("_a", "_b", "_delta")


class BadFilter(ValueError):
    """The filter is invalid; the message says which term and why."""


class Filter(Struct, frozen=True):
    """A parsed filter; ``text`` is what the user typed and what exports show."""

    text: str
    invert: bool = False
    literal: bool = False

    @staticmethod
    def containing(text: str) -> Filter:
        """A filter that searches for the text literally, whatever characters it contains."""
        return Filter(text, literal=True)

    def mask(self, rows: Rows, columns: Sequence[Column]) -> pl.Series:
        """One boolean per row. Raises BadFilter."""
        if self.literal:
            mask = rows.containing(self.text)
            return ~mask if self.invert else mask
        mask = pl.Series([True]).new_from_index(0, rows.height)
        for term in _terms(_split(self.text), rows, columns):
            try:
                mask = mask & _term(term, rows, columns)
            except pl.exceptions.PolarsError as error:
                if "regex" in str(error):
                    raise BadFilter(f"{term}: what follows ~ is not a regular expression") from error
                raise BadFilter(f"{self.text}: {error}") from error
        mask = mask.fill_null(False)
        return ~mask if self.invert else mask


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text) if any(quote in text for quote in "\"'") else text.split()
    except ValueError as error:
        raise BadFilter(f"{text}: {error}") from error


def _terms(words: Sequence[str], rows: Rows, columns: Sequence[Column]) -> Iterator[str]:
    """The terms that words make: of ``column=value`` the value goes on over the next words if only then it exists."""
    at = 0
    while at < len(words):
        several = at + 1 < len(words) and _TERM.match(words[at].removeprefix("!"))
        longer = range(at + 1, len(words) + 1) if several else ()
        end = next((end for end in longer if _exists(" ".join(words[at:end]), rows, columns)), at + 1)
        yield " ".join(words[at:end])
        at = end


def _exists(term: str, rows: Rows, columns: Sequence[Column]) -> bool:
    """Whether a term is ``=`` or ``!=`` and a text that is in the column."""
    match = _TERM.match(term.removeprefix("!"))
    texts = [one for one in _columns(match["column"], columns) if one.unit == "text"] if match else []
    return any(match is not None and match["op"] in ("=", "!=") and _passes(
        term, "=", match["value"], column, rows).any() for column in texts)


def _term(term: str, rows: Rows, columns: Sequence[Column]) -> pl.Series:
    """Mask of the rows that match a term; null where the value was not measured."""
    if term.startswith("!") and len(term) > 1 and not term.startswith("!="):
        return ~_term(term[1:], rows, columns)
    match = _TERM.match(term)
    asked = _columns(match["column"], columns) if match else []
    if match and (name := _family_of(match, asked, columns)):
        return _of_family(term, match["op"], match["value"], name, rows)
    if match is None or not asked:
        return rows.containing(term)
    return reduce(operator.or_, (_passes(term, match["op"], match["value"], column, rows) for column in asked))


def _family_of(match: re.Match[str], asked: Sequence[Column], columns: Sequence[Column]) -> str | None:
    """The name column for a ``family`` term; None if the term is another, or ``family`` is itself a column."""
    return family_column(columns) if match["column"] == "family" and not asked else None


def _of_family(term: str, op: str, wanted: str, name: str, rows: Rows) -> pl.Series:
    """Mask of the rows in a family, given by name or letter; never true for rows that are no device activity."""
    asked = next((one for one, letter in LETTERS.items() if wanted.lower() in (one, letter)), None)
    if op not in ("=", "!=") or asked is None:
        known = ", ".join(f"{one} ({letter})" for one, letter in LETTERS.items())
        raise BadFilter(f"{term}: family is = or != one of {known}")

    def of(texts: pl.Series, test: Callable[[str | None], bool]) -> pl.Series:
        return pl.Series([test(text) for text in texts.cast(pl.String)], dtype=pl.Boolean)

    kernel = rows.matching("kind", lambda kinds: kinds == "kernel")
    by_name = rows.matching(name, lambda names: of(names, lambda text: family(text, "kernel") == asked))
    by_name = by_name.fill_null(family(None, "kernel") == asked)
    by_kind = rows.matching("kind", lambda kinds: of(kinds, lambda text: family(None, text) == asked))
    activity = rows.matching("kind", lambda kinds: kinds.is_in(list(WITH_FAMILY)))
    passed = (kernel & by_name) | (~kernel & by_kind)
    return (passed if op == "=" else ~passed) & activity


def _passes(term: str, op: str, wanted: str, column: Column, rows: Rows) -> pl.Series:
    dtype = rows.schema[column.name]
    if dtype in (pl.Categorical, pl.String) or isinstance(dtype, pl.Enum):
        return rows.matching(column.name, lambda texts: _name_test(texts, rows.shown(column.name, texts), op, wanted))
    if column.unit in ("trend", "list", "series"):
        raise BadFilter(f"{term}: {column.name} is a list, which a filter cannot compare")
    values = rows.column(column.name)
    if dtype == pl.Boolean:
        truth = wanted.lower() in ("true", "yes", "1")
        return values == truth if op == "=" else values != truth
    if op == "~":
        return values.cast(pl.String).str.contains(wanted)
    number = _NUMBER.match(wanted)
    if number is None:
        raise BadFilter(f"{term}: {column.name} is a number, {wanted!r} is not")
    return _compared(values, op, float(number["number"].replace("_", "")) * _factor(number["unit"], column))


def _compared(values: pl.Series, op: str, wanted: float) -> pl.Series:
    """Integers are compared with an integer: as floats, five million would take 80 ms and 40 MB."""
    if values.dtype.is_integer() and math.isfinite(wanted) and (op not in ("=", "!=") or wanted.is_integer()):
        bound = math.floor(wanted) if op in (">", "<=") else math.ceil(wanted)
        low, high = values.min(), values.max()
        if isinstance(low, int) and isinstance(high, int) and low <= bound <= high:
            return _COMPARISONS[op](values, bound)
    return _COMPARISONS[op](values, wanted)


def unknown_column(text: str, columns: Sequence[Column]) -> str | None:
    """A sentence for the first term that looks like a comparison but names no column, and so is searched as text."""
    for term in _split(text):
        match = _TERM.match(term.removeprefix("!"))
        asked = _columns(match["column"], columns) if match else []
        if match and not asked and not _family_of(match, asked, columns):
            near = nearest(match["column"], [column.name for column in columns], "Columns")
            return f"Unknown column '{match['column']}'. {near} Searched for {term} as text."
    return None


def _name_test(texts: pl.Series, shown: pl.Series, op: str, wanted: str) -> pl.Series:
    """The test on a text as recorded or as lists show it; for ``!=`` both must differ."""
    recorded = _text_test(texts, op, wanted)
    if shown is texts:
        return recorded
    other = _text_test(shown, op, wanted)
    return recorded & other if op == "!=" else recorded | other


def _text_test(texts: pl.Series, op: str, wanted: str) -> pl.Series:
    if op == "~":
        return texts.str.contains(wanted)
    if op in ("=", "!="):
        return (texts == wanted) if op == "=" else (texts != wanted)
    return texts.str.contains(wanted, literal=True)


def _columns(name: str, columns: Sequence[Column]) -> list[Column]:
    """The column of that name or header, or the only one whose name starts like that (``total`` for ``total_ns``). In a
    comparison of two runs, ``total_a`` is A's column and ``total`` means either: a row matches if one of them does."""
    for column in columns:
        if name == column.name:
            return [column]
    listed = [column for column in columns if column.order is not None]
    return _like(name, listed) or _like(name, columns)


def _like(name: str, columns: Sequence[Column]) -> list[Column]:
    for column in columns:
        if name == column.header.lower():
            return [column]
    stem, side = next(((name.removesuffix(side), side) for side in _SIDES if name.endswith(side)), (name, ""))
    close = [column for column in columns if column.name.endswith(side) and _begins(column, stem)]
    if len(close) == 1:
        return close
    both = [column for column in close if column.name.endswith(("_a", "_b"))]
    alike = {column.name.removesuffix(side) for column in close for side in _SIDES if column.name.endswith(side)}
    return both if len(alike) == 1 and len(both) == 2 else []


def _begins(column: Column, stem: str) -> bool:
    """Whether the name starts with ``stem``, or it is the header of a two-run column without its side."""
    header = column.header.lower().removeprefix("δ ").removesuffix(f" {column.side}").replace(" ", "_")
    return column.name.startswith(stem) or bool(column.per and header == stem)


def _factor(unit: str | None, column: Column) -> float:
    if unit is None:
        return 1.0
    if unit == "%":
        return 0.01 if column.unit == "fraction" else 1.0
    base = {"ns": 1.0, "us": 1e3, "ms": 1e6}.get(column.unit)
    if base is None:
        raise BadFilter(f"{column.name} is not a duration and cannot be compared with a time in {unit}")
    return _SCALE[unit] / base
