"""The command ``slice``: a cycle or a window of a run as a Chrome trace that other viewers open."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..library import UsageError
from .arguments import FINE, Command, named_file, open_runs, opening_arguments, options_of, scope_arguments
from .output import print_path


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs=1, metavar="RUN", help="a file, a directory of ranks, or - for stdin")
    parser.add_argument("-o", "--output", metavar="FILE", required=True, type=named_file,
                        help="file to write; .gz compresses it")
    opening_arguments(parser)
    scope_arguments(parser)


def _slice(arguments: argparse.Namespace) -> int:
    from ..analysis.contract.view import CannotAnswer
    from ..analysis.timeline.chrome_trace import gzipped, sliced
    from ..loaders import files

    if arguments.output == "-":
        raise UsageError("slice writes a file that other tools open; name one with -o")
    options = options_of(arguments)
    run = open_runs(arguments.runs, arguments)[0]
    try:
        pieces = sliced(run, options)
    except CannotAnswer as error:
        raise UsageError(str(error)) from None
    path = Path(arguments.output)
    try:
        files.write(path, gzipped(pieces) if path.suffix == ".gz" else pieces)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {(error.strerror or str(error)).lower()}") from None
    print_path(path)
    return FINE


COMMAND = Command("slice", "Write a cycle or a window as a Chrome trace (opens in Perfetto).", _arguments, _slice)
