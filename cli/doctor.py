"""The command ``doctor``: what this installation, machine and terminal can do; of a file, what was made of it."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterable

from .. import __version__
from .arguments import FINE, Command, open_runs, opening_arguments

_WIDTH = 110


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", nargs="?", metavar="RUN", help="a file or folder: say what was found, dropped, assumed")
    opening_arguments(parser)


def _doctor(arguments: argparse.Namespace) -> int:
    from ..loaders.ingest.advice.doctor import facts

    if arguments.run is None:
        _tell((("warplens", __version__), *facts()))
        return FINE
    runs = open_runs([arguments.run], arguments)
    from ..loaders.ingest.advice.examination import examined

    _tell(examined(runs))
    return FINE


def _tell(lines: Iterable[tuple[str, str]]) -> None:
    """Name and value, long values under themselves."""
    from ..analysis.core.text import display

    for name, value in lines:
        for at, part in enumerate(textwrap.wrap(display(value), _WIDTH) or [""]):
            print(f"{name if at == 0 else '':<12} {part}")


DOCTOR = Command(
    "doctor", "Show what this installation, machine and terminal can do; of a run, what was found in it, dropped, "
    "assumed.", _arguments, _doctor,
)
