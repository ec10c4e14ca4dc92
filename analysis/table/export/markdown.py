"""Markdown to attach to a ticket: sources, findings, table, legend.

Recorded names are in code spans, so that nothing in them acts as markup; pipes are escaped; long names are cut in the
middle in the table and listed in full below it, the first ones.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

from .... import __version__
from ...contract.column import Column
from ...core import units
from ...core.histogram_lines import histogram_lines
from ...core.text import clean, cut
from ..table import Table
from .state import account_lines, base_line, findings, notes, repeats, state_line

_BLOCK = 20_000
_NAME = 88
NAMES = 20  # Most names written in full: a ticket of mangled names is read by nobody.
TYPED = "look"  # The column of a page whose text is typed into the app.
_SPECIAL = re.compile(r"([\\`*<>\[\]|])")


def escape(text: str) -> str:
    """Text escaped for markdown, so that it shows the same characters and has no other effect."""
    return _SPECIAL.sub(r"\\\1", clean(text))


def code(text: str) -> str:
    """A code span with the text, safe inside a table cell; nothing for no text, as empty fences would show."""
    text = clean(text)
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}".replace("|", "\\|") if text else ""


def _cell(row: Sequence[Any], at: int, table: Table, is_part: bool = False) -> str:
    column, value, shown = table.columns[at], row[at], table.display_text(row, at)
    if column.unit != "text" or shown == units.MISSING:
        return escape(shown)
    if column.role == "name":
        return ("└ " if is_part else "") + code(table.shown_name(value, _NAME))
    if column.role == "label" or not re.fullmatch(r"[\w .,:~→+-]*", shown):
        return code(cut(clean(shown), _NAME))
    return shown


def _filled(table: Table) -> list[tuple[int, Column]]:
    """The non-empty columns that a list shows, with their index among all columns."""
    sample = table.window(0, min(_BLOCK, len(table)))
    return [
        (at, column)
        for at, column in enumerate(table.columns)
        if column.order is not None
        and (not sample or any(table.display_text(row, at) not in units.NOTHING for row in sample))
    ]


def rows_as_markdown(table: Table) -> list[str]:
    """Header, alignment and one line per row; only non-empty columns that a list shows."""
    columns = _filled(table)
    lines = [
        "| " + " | ".join(escape(column.header or column.name) for _, column in columns) + " |",
        "|" + "|".join(":---" if column.is_left else "---:" for _, column in columns) + "|",
    ]
    parent = next((at for at, column in enumerate(table.columns) if column.name == "parent"), None)
    for start in range(0, len(table), _BLOCK):
        for row in table.window(start, min(start + _BLOCK, len(table))):
            is_part = parent is not None and row[parent] is not None
            lines.append("| " + " | ".join(_cell(row, at, table, is_part) for at, _ in columns) + " |")
    return lines


def _fenced(lines: Sequence[str]) -> list[str]:
    """Lines in a fenced block, with a fence longer than any run of backticks in them."""
    longest = max((len(run) for line in lines for run in re.findall(r"`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}text", *lines, fence, ""]


def _full_names(table: Table) -> list[str]:
    places = [at for at, column in enumerate(table.columns) if column.role == "name" and column.order is not None]
    long: dict[str, str] = {}
    for start in range(0, len(table), _BLOCK):
        for row in table.window(start, min(start + _BLOCK, len(table))):
            names = ((row[at], table.shown_name(row[at], _NAME)) for at in places if row[at])
            long.update((name, shown) for name, shown in names if shown != name)
    if not long:
        return []
    listed = [f"- {code(shown)}: {code(name)}" for name, shown in list(long.items())[:NAMES]]
    if len(long) > NAMES:
        listed.append(f"- {units.count(len(long) - NAMES)} more: with `--format json`")
    return ["", "<details><summary>Names in full</summary>", "", *listed, "", "</details>"]


def histogram_text(histogram: dict[str, Any], width: int = 32) -> list[str]:
    """The distribution of cycle times as text: one line per bin and run, on one axis; ⋮ stands for empty bins."""
    unit, lines = histogram_lines(histogram, most=24)
    labels = [f"{line.label} {unit}" if line.label else "" for line in lines]
    return [f"{label:<20} {line.side.upper()} {'█' * round(width * line.share)} {line.cycles}" if line.side else "⋮"
            for label, line in zip(labels, lines, strict=True)]


def section(table: Table, level: int = 2) -> list[str]:
    """One view as markdown lines."""
    if table.page:
        return _page(table, level)
    lines = [f"{'#' * level} {table.view.capitalize()}", ""]
    lines += [f"- {escape(line)}" for line in table.summary]
    answer = (table.facts.get("lines") or ()) if table.view == "overview" else ()
    said = [f"{one['mark']} {one['long']}" for one in answer if not repeats(str(one["long"]), table.summary)]
    lines += [f"- {escape(line)}" for line in said or findings(table)]
    if answer and (account := table.facts.get("account")) and "of_ns" in account:
        lines += ["", "```text", *account_lines(account), "```"]
    histogram = table.facts.get("histogram")
    if isinstance(histogram, dict) and histogram.get("edges_ns"):
        lines += ["", "```text", *histogram_text(histogram), "```"]
    lines += ["", f"*{escape(state_line(table) + base_line(table))}*", ""]
    if table.picture:
        lines += [line for block in table.picture for line in _fenced(block)]
    if len(table) and (table.rows_below or not table.picture):
        lines += rows_as_markdown(table)
        lines += _full_names(table)
    warnings = notes(table)
    if warnings:
        lines += ["", *(f"> ⚠ {escape(note)}  " for note in warnings)]
    legend = [column for _, column in _filled(table)]
    lines += ["", "<details><summary>Legend</summary>", ""]
    lines += [f"- **{escape(column.header or column.name)}**: {escape(column.help)}" for column in legend]
    return [*lines, "", "</details>", ""]


def _page(table: Table, level: int) -> list[str]:
    """A view made of sections: its summary, sections and notes; names are cut and there is no legend."""
    stated = {line for one in table.page for line in one.sentences}
    lines = [f"- {escape(line)}" for line in table.summary if line not in stated]
    if table.scope:
        lines.append(f"- {escape(table.scope)}")
    for one in table.page:
        lines += [*([""] if lines else []), f"{'#' * level} {escape(one.title)}", ""]
        if one.rows:
            names = [name if name in one.code else "" for name in one.header]
            lines += [
                "| " + " | ".join(map(escape, one.header)) + " |", "|" + "---|" * len(one.header),
                *(f"| {' | '.join(map(_page_cell, row, names))} |" for row in one.rows),
            ]
        if one.rows and one.sentences:
            lines.append("")
        lines += [f"- {escape(line)}" for line in one.sentences]
    warnings = [note for note in notes(table) if note not in stated]
    return [*lines, *([""] if warnings else []), *(f"> ⚠ {escape(note)}  " for note in warnings), ""]


def _page_cell(text: str, header: str) -> str:
    """A cell: of a column in ``code`` (its header, '' for others) as code, whole where it is to be typed."""
    if not text:
        return ""
    return escape(text) if not header else code(clean(text) if header == TYPED else cut(clean(text), _NAME))


def _near(path: str) -> str:
    """A path as one would type it here: a ticket need not say whose home it lies in."""
    try:
        here = os.path.join(os.getcwd(), "")
    except OSError:  # the folder is gone
        return path
    return path.removeprefix(here) or path


def render(tables: Sequence[Table]) -> bytes:
    """A document: the runs, then one section per view."""
    sources = tables[0].sources if tables else ()
    is_ticket = len(sources) == 2 and len(tables) == 1 and bool(tables[0].page)
    headline = tables[0].facts.get("headline") if is_ticket else None
    names = " → ".join(escape(source.label) for source in sources)
    lines = [f"# {names}: {escape(headline)}" if headline else f"# warplens: {names}", ""]
    said = []
    for letter, source in zip("AB", sources, strict=False):
        size = f", {units.size(source.bytes)}" if source.bytes else ""
        path = os.path.basename(os.path.normpath(source.path)) if is_ticket else _near(source.path)
        said.append(f"{letter}: " * (len(sources) > 1) + f"{code(path)} ({escape(source.format)}{size})")
    lines += [f"- {', '.join(said)}"] if is_ticket else [f"- {one}" for one in said]
    if commands := [table.command for table in tables if table.command]:
        for source in sources:
            commands = [command.replace(source.path, _near(source.path)) for command in commands]
        lines += [f"- {code(command)}" for command in commands]
        lines.append(f"- warplens {__version__}")
    lines.append("")
    for table in tables:
        lines += section(table)
    return ("\n".join(lines).rstrip() + "\n").encode("utf-8", "backslashreplace")
