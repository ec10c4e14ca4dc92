"""The command ``views``: every view with its key, its question and its columns."""

from __future__ import annotations

import argparse

from ..analysis.views import VIEWS
from .arguments import FINE, Command, no_arguments


def _views(arguments: argparse.Namespace) -> int:
    for entry in VIEWS:
        one = entry.load()
        print(f"{entry.name:<10} {entry.key:<2} {entry.question}")
        if one.one_run:
            print(f"{'':13} columns: {' '.join(column.name for column in one.columns)}")
        if one.two_runs:
            print(f"{'':13} two runs: {' '.join(column.name for column in one.columns_for(2))}")
    return FINE


COMMAND = Command("views", "List the views and their columns.", no_arguments, _views)
