"""The command ``convert``: a run's columnar tables as Parquet files, in a folder that opens as the run."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..library import UsageError
from .arguments import FINE, Command, open_runs, opening_arguments
from .output import print_path


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs=1, metavar="RUN", help="a file, a directory of ranks, or - for stdin")
    parser.add_argument("-o", "--output", metavar="DIR", required=True, help="folder to write the files to")
    opening_arguments(parser)


def _convert(arguments: argparse.Namespace) -> int:
    from ..loaders.converted import SECOND, describe
    from ..loaders.trace import TABLE_NAMES

    if Path(arguments.output).is_file():
        raise UsageError(f"{arguments.output} is a file; name a folder to write the tables to")
    for number, run in enumerate(open_runs(arguments.runs, arguments)):
        folder = Path(arguments.output) if number == 0 else Path(arguments.output) / SECOND
        folder.mkdir(parents=True, exist_ok=True)
        for name in TABLE_NAMES:
            if run.has(name):
                run.table(name).sink_parquet(folder / f"{name}.parquet")
                print_path(folder / f"{name}.parquet")
        print_path(describe(folder, run))
    return FINE


COMMAND = Command(
    "convert", "Write a run's tables as Parquet files; their folder opens as the run.", _arguments, _convert)
