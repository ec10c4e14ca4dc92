"""The command ``slice``: a cycle or a window of a run as a Chrome trace that other viewers open."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from .arguments import FINE, Command, Wrong, open_runs, opening_arguments, options_of, print_path, scope_arguments


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs=1, metavar="RUN")
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help="file to write; .gz compresses it")
    opening_arguments(parser)
    scope_arguments(parser)


def _slice(arguments: argparse.Namespace) -> int:
    from ..analysis.table.view import CannotAnswer
    from ..analysis.timeline.chrome_trace import sliced

    options = options_of(arguments)
    run = open_runs(arguments.runs, arguments)[0]
    try:
        pieces = sliced(run, options)
    except CannotAnswer as error:
        raise Wrong(str(error)) from None
    with _written(Path(arguments.output)) as out:
        for piece in pieces:
            out.write(piece)
    print_path(Path(arguments.output))
    return FINE


@contextmanager
def _written(path: Path) -> Iterator[BinaryIO]:
    """The file to write, under a name of its own until it is whole, so that no half trace is ever opened."""
    half = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if path.suffix == ".gz":
            from isal import igzip

            with igzip.open(half, "wb") as packed:  # type: ignore[no-untyped-call]
                yield packed
        else:
            with half.open("wb") as plain:
                yield plain
        half.replace(path)
    except OSError as error:
        raise Wrong(f"{path} cannot be written: {(error.strerror or str(error)).lower()}") from None
    finally:
        with suppress(OSError):
            half.unlink()


SLICE = Command("slice", "Write a cycle or a window as a Chrome trace (opens in Perfetto).", _arguments, _slice)
