"""The command ``views``: every view with its key, question, columns and facts."""

from __future__ import annotations

import argparse
from typing import Any

from ..analysis.views import VIEWS, Entry
from .arguments import FINE, Command


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--format", choices=("text", "json"), default="text",
                        help="json says what every column and fact means")


def _views(arguments: argparse.Namespace) -> int:
    if arguments.format == "json":
        return _as_json()
    for entry in VIEWS:
        one = entry.load()
        print(f"{entry.name:<10} {entry.key:<2} {entry.question}")
        if one.one_run:
            print(f"{'':13} columns: {' '.join(column.name for column in one.columns)}")
        if one.two_runs:
            print(f"{'':13} two runs: {' '.join(column.name for column in one.columns_for(2))}")
    return FINE


def _as_json() -> int:
    import json
    import tomllib
    from pathlib import Path

    from ..analysis import views
    from ..analysis.table.export.json import SCHEMA

    facts = tomllib.loads(Path(views.__file__).with_name("facts.toml").read_text(encoding="utf-8"))
    described = [_described(entry, {**facts.get(entry.name, {}), **facts["every"]}) for entry in VIEWS]
    print(json.dumps({"schema": SCHEMA, "views": described}, ensure_ascii=False))
    return FINE


def _described(entry: Entry, facts: dict[str, str]) -> dict[str, Any]:
    """A view with its columns for one run and for two; the columns of ``sql`` depend on the query."""
    from ..analysis.table.row_ids import row_ids

    one = entry.load()
    columns: dict[str, list[dict[str, str]]] = {}
    runs = [count for count, answers in ((1, one.one_run), (2, one.two_runs)) if answers]
    for count in runs:
        columns["columns_of_two_runs" if columns else "columns"] = [
            {"name": column.name, "unit": column.unit, "type": column.dtype, "meaning": column.help,
             **({"of": column.of} if column.of else {})}
            for column in one.columns_for(count)
        ] or [{"name": "*", "unit": "", "type": "", "meaning": "what the query selects"}]
    ids = [named.word for count in runs if (named := row_ids(one, count)) is not None]
    return {
        "name": entry.name, "key": entry.key, "question": entry.question, "runs": runs,
        "ids": list(dict.fromkeys(ids)), **columns, "facts": facts,
    }


COMMAND = Command("views", "List the views and their columns.", _arguments, _views)
