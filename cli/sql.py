"""The command ``sql``: polars SQL over the tables of one run or two."""

from __future__ import annotations

import argparse

from ..library import UsageError
from .arguments import FINE, Command, open_runs, opening_arguments, output_arguments
from .output import emit


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUN", help="one run or two, then the query in quotes")
    opening_arguments(parser)
    output_arguments(parser)
    parser.add_argument(
        "--allow-files", action="store_true",
        help="let the query read other files and URLs too: read_csv, read_parquet, read_ipc, read_json, read_ndjson",
    )


def _sql(arguments: argparse.Namespace) -> int:
    from ..analysis.table.sql import BadQuery, query

    *paths, statement = arguments.runs
    if not 1 <= len(paths) <= 2:
        raise UsageError('give one run or two, then the query: warplens sql A "select count(*) from kernels"')
    try:
        table = query(open_runs(paths, arguments), statement, allow_files=arguments.allow_files)
    except BadQuery as error:
        raise UsageError(str(error)) from error
    emit([table], arguments)
    return FINE


COMMAND = Command("sql", "Run polars SQL over the tables (of two runs: a_kernels, b_kernels, …).", _arguments, _sql)
