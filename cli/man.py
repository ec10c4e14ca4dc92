"""The command ``man``: the man page on a terminal, else the help of every command."""

from __future__ import annotations

import argparse
import subprocess
import sys
import sysconfig
from pathlib import Path

from .arguments import FINE, Command, no_arguments

_MAN = Path("/usr/bin/man")  # never another program of that name from a relative part of PATH


def _man(arguments: argparse.Namespace) -> int:
    installed = Path(sysconfig.get_path("data")) / "share" / "man" / "man1" / "warplens.1"
    checkout = Path(__file__).resolve().parent.parent / "docs" / "warplens.1"
    page = installed if installed.exists() else checkout
    if sys.stdout.isatty() and page.exists() and _MAN.exists():
        return subprocess.run([_MAN, "-l", page], check=False).returncode
    from .main import NAMES, command_of, parser_of

    for name in NAMES:
        parser_of(command_of(name)).print_help()
        print()
    return FINE


COMMAND = Command("man", "Show the man page; without a terminal, the help of every command.", no_arguments, _man)
