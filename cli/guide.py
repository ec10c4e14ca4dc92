"""The command ``guide``: two pages for scripts and assistants: the first queries to run, and what not to conclude."""

from __future__ import annotations

import argparse
from pathlib import Path

from .arguments import FINE, Command, no_arguments

GUIDE = Path(__file__).with_name("guide.md")


def _guide(arguments: argparse.Namespace) -> int:
    print(GUIDE.read_text(encoding="utf-8"), end="")
    return FINE


COMMAND = Command("guide", "Two pages for assistants and scripts: what to ask first, what not to conclude.",
                  no_arguments, _guide)
