"""Output of commands: tables in a format, on stdout or in a file; capped where a person reads them."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ..library import UsageError

if TYPE_CHECKING:
    from ..analysis.table.table import Table

_READ = ("text", "md")
"""Formats read by people and assistants: capped on stdout unless more rows are requested."""
JUNIT = "junit"
"""The format of a gate, which writes its own file."""
MOST_ROWS, MOST_BYTES = 50, 24_500
_ACTING = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]")
"""Characters that JSON does not escape but a terminal may act on."""


def format_of(arguments: argparse.Namespace, tables: Sequence[Table]) -> str:
    """The requested format, else that of the file suffix, else text (markdown for a page)."""
    if arguments.format:
        return str(arguments.format)
    suffixes = Path(arguments.output).suffixes if arguments.output else []
    chosen = {
        ".speedscope.json": "speedscope", ".folded.txt": "folded", ".md": "md", ".json": "json", ".svg": "svg",
        ".csv": "csv", ".parquet": "parquet", ".folded": "folded",
    }
    by_suffix = chosen.get("".join(suffixes[-2:])) or chosen.get("".join(suffixes[-1:]))
    return by_suffix or ("md" if any(table.page for table in tables) else "text")


def emit(tables: Sequence[Table], arguments: argparse.Namespace) -> None:
    """Render the requested number of rows of the tables to stdout or the output file."""
    from ..analysis.table.export import WrongFormat, pieces, render
    from ..analysis.table.parts import unfolded

    chosen = format_of(arguments, tables)
    if chosen == JUNIT:
        return
    if getattr(arguments, "ids", False):
        tables = [table.with_ids() for table in tables]
    if chosen == "parquet" and not arguments.output and sys.stdout.isatty():
        raise UsageError("parquet is binary; name a file with -o")
    to_file = arguments.output and arguments.output != "-"
    if chosen != "text":
        tables = [unfolded(table) for table in tables]
    if chosen in _READ:
        tables = [table.without_empty_rows() for table in tables]
    is_read = not to_file and arguments.top is None and chosen in _READ
    try:
        if is_read:
            result: Iterable[bytes] = [_some_rows(tables, partial(render, format=chosen))]
        else:
            result = pieces([table.head(arguments.top) if arguments.top else table for table in tables], chosen)
    except WrongFormat as error:
        raise UsageError(str(error)) from error
    if not to_file and sys.stdout.isatty():
        result = (_for_terminal(piece, chosen) for piece in result)
    write(result, arguments)


def write(pieces: Iterable[bytes], arguments: argparse.Namespace) -> None:
    """Write the pieces of one text to the output file or to stdout."""
    from ..analysis.core.text import display
    from ..loaders import files

    if arguments.output and arguments.output != "-":
        files.write(arguments.output, pieces)
        print(f"wrote {display(arguments.output)}", file=sys.stderr)
    else:
        sys.stdout.buffer.writelines(pieces)
        sys.stdout.buffer.flush()


def _some_rows(tables: Sequence[Table], render: Callable[[Sequence[Table]], bytes]) -> bytes:
    """The first rows within ``MOST_ROWS`` and ``MOST_BYTES``, and how to print the rest."""
    rows = MOST_ROWS
    result = render([table if len(table) <= rows else table.head(rows) for table in tables])
    while len(result) > MOST_BYTES and rows > 1 and any(len(table) > 1 for table in tables):
        rows //= 2
        result = render([table if len(table) <= rows else table.head(rows) for table in tables])
    if len(result) > MOST_BYTES:  # sentences and notes alone exceed the limit
        result = result[:MOST_BYTES].rpartition(b"\n")[0] + b"\n"
    elif all(len(table) <= rows for table in tables):
        return result
    return result + b"\nOutput truncated; --top 0 prints all rows.\n"


def _for_terminal(output: bytes, format: str) -> bytes:
    """The output with control characters neutralised for a terminal: by JSON escapes, else by visible symbols."""
    import json

    from ..analysis.core.text import visible

    text = output.decode(errors="replace")
    if format == "json":
        text = _ACTING.sub(lambda match: json.dumps(match[0])[1:-1], text)
    return "\n".join(visible(line) for line in text.split("\n")).encode()


def print_path(path: Path) -> None:
    """Print a path: its raw bytes for a script, display text on a terminal."""
    from ..analysis.core.text import display

    shown = display(str(path)).encode() if sys.stdout.isatty() else os.fsencode(path)
    sys.stdout.buffer.write(shown + b"\n")
    sys.stdout.buffer.flush()
