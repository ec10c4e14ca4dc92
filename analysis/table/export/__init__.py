"""Table → bytes in a file format for people or scripts.

A format is one module here with ``render(tables) -> bytes``, or ``pieces(tables)`` that yields the bytes if rows are
written while they are read, and one entry in ``FORMATS``. Every export names its sources and its filter, order and
scope; machine formats carry raw numbers in the unit given by the column name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from ..table import Table


class Format(Struct, frozen=True):
    """An export format: its name on the command line, file suffix, module, and its line in lists. ``several``: whether
    one file can hold several views."""

    name: str
    suffix: str
    module: str
    title: str
    several: bool = True


FORMATS: tuple[Format, ...] = (
    Format("text", ".txt", "text", "aligned text for a terminal or a log"),
    Format("md", ".md", "markdown", "markdown for a ticket"),
    Format("json", ".json", "json", "rows, facts and notes with raw numbers"),
    Format("svg", ".svg", "svg", "a picture of what text shows"),
    Format("csv", ".csv", "csv", "rows with raw numbers", several=False),
    Format("parquet", ".parquet", "parquet", "rows, typed", several=False),
    Format("folded", ".folded", "folded", "a tree: one line per stack, for flame graph tools", several=False),
    Format("speedscope", ".speedscope.json", "speedscope", "a tree: flame graphs for speedscope", several=False),
    Format("kernel-table", ".txt", "kernel_table", "one row per launch: name, latency, tensor, DRAM", several=False),
)


class WrongFormat(ValueError):
    """This view cannot be written in this format; the message says why."""


def format_named(name: str) -> Format:
    """The format of that name; KeyError if there is none."""
    for one in FORMATS:
        if one.name == name:
            return one
    raise KeyError(name)


def render(table: Table | Sequence[Table], format: str) -> bytes:
    """The table, or several views of the same runs, in that format (UTF-8 if it is text). Raises WrongFormat."""
    return b"".join(pieces(table, format))


def pieces(table: Table | Sequence[Table], format: str) -> Iterable[bytes]:
    """Like ``render``, in chunks of rows if the format supports it: a million gaps are half a gigabyte of JSON."""
    from ..table import Table

    tables = (table,) if isinstance(table, Table) else tuple(table)
    chosen = format_named(format)
    if len(tables) > 1 and not chosen.several:
        raise WrongFormat(f"{chosen.name} holds one view; name it with --view")
    module = import_module(f".{chosen.module}", __package__)
    return module.pieces(tables) if hasattr(module, "pieces") else (module.render(tables),)
