"""The command ``help``: the help of warplens or of one command, by the name people type first."""

from __future__ import annotations

import argparse

from ..library import UsageError
from .arguments import FINE, Command


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("command", nargs="?", help="a command; without one, the help of warplens itself")


def _help(arguments: argparse.Namespace) -> int:
    from ..analysis.core.text import nearest
    from .main import NAMES, command_of, parser_of

    name = arguments.command or NAMES[0]
    if name not in NAMES:
        raise UsageError(f"no command {name}", nearest(name, NAMES[1:]))
    parser_of(command_of(name)).print_help()
    return FINE


COMMAND = Command("help", "Print the help, or that of a command.", _arguments, _help)
