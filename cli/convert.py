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
    from ..loaders.converted import write

    if Path(arguments.output).is_file():
        raise UsageError(f"{arguments.output} is a file; name a folder to write the tables to")
    try:
        for path in write(Path(arguments.output), open_runs(arguments.runs, arguments)):
            print_path(path)
    except FileExistsError as error:
        raise UsageError(f"{error.filename} {error.strerror}") from None
    return FINE


COMMAND = Command(
    "convert", "Write a run's tables as Parquet files; their folder opens as the run.", _arguments, _convert)
