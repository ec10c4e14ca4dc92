"""Completion of an SQL query while it is typed: tables, columns of the tables it names, keywords and functions.

It looks at words only, not at the grammar, so that it is never in the way; the likeliest words come first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

KEYWORDS = (
    "select", "from", "where", "group by", "order by", "limit", "join", "left join", "on", "as", "and", "or", "not",
    "in", "is null", "is not null", "like", "between", "having", "distinct", "desc", "asc", "case", "when", "then",
    "else", "end", "with", "union all", "using", "offset", "over", "partition by", "cast",
)
FUNCTIONS = (
    "count(", "sum(", "avg(", "min(", "max(", "median(", "quantile_cont(", "stddev(", "variance(", "first(", "last(",
    "round(", "abs(", "coalesce(", "nullif(", "lower(", "upper(", "length(", "substr(", "regexp_like(", "starts_with(",
    "ends_with(", "replace(", "row_number(", "lag(", "lead(", "corr(", "greatest(", "least(",
)
_FIRST = ("select", "with", "show tables", "explain")
_WORD = re.compile(r"[\w.]*\Z")
_AFTER_TABLE_WORD = re.compile(r"\b(?:from|join)\s+(?:[\w.]+\s*(?:as\s+)?\w*\s*,\s*)*[\w.]*\Z", re.IGNORECASE)
_NAMED = re.compile(r"\b(?:from|join|,)\s*(\w+)(?:\s+(?:as\s+)?(\w+))?", re.IGNORECASE)
_TEXT = re.compile(r"'[^']*'")


def completions(before: str, tables: Mapping[str, tuple[str, ...]], after: str = "") -> tuple[int, tuple[str, ...]]:
    """Start of the word at the cursor, and its possible completions, likeliest first; none inside a string literal.
    ``before`` and ``after`` are the query left and right of the cursor."""
    if before.count("'") % 2:
        return len(before), ()
    word = _WORD.search(before)
    begin = word.start() if word else len(before)
    typed = before[begin:].lower()
    whole = _TEXT.sub("''", before + " " + after)
    if "." in typed:
        owner, _, typed = typed.rpartition(".")
        return begin + len(owner) + 1, _beginning(typed, tables.get(_aliases(whole, tables).get(owner, owner), ()))
    if _AFTER_TABLE_WORD.search(before):
        return begin, _beginning(typed, tables)
    if not before[:begin].strip():
        return begin, _beginning(typed, _FIRST)
    if not typed:
        return begin, ()
    used = list(dict.fromkeys(_aliases(whole, tables).values()))
    columns = dict.fromkeys(column for table in used or tables for column in tables[table])
    return begin, _beginning(typed, dict.fromkeys((*columns, *KEYWORDS, *FUNCTIONS, *tables)))


def _aliases(statement: str, tables: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """The tables that the statement reads, by name and by alias."""
    tables_named = {}
    for name, alias in _NAMED.findall(statement):
        if name.lower() in tables:
            tables_named[name.lower()] = name.lower()
            if alias:
                tables_named[alias.lower()] = name.lower()
    return tables_named


def _beginning(typed: str, words: Iterable[str]) -> tuple[str, ...]:
    return tuple(word for word in words if word.lower().startswith(typed) and word.lower() != typed)
