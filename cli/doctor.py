"""The command ``doctor``: what this installation, machine and terminal can do."""

from __future__ import annotations

import argparse

from .. import __version__
from .arguments import FINE, Command, no_arguments


def _doctor(arguments: argparse.Namespace) -> int:
    from ..analysis.core.text import display
    from ..loaders.ingest.doctor import facts

    for name, value in (("warplens", __version__), *facts()):
        print(f"{name:<12} {display(value)}")
    return FINE


DOCTOR = Command("doctor", "Show what this installation, machine and terminal can do.", no_arguments, _doctor)
