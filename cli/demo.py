"""The command ``demo``: the bundled pair of runs, opened like any other pair."""

from __future__ import annotations

import argparse
from pathlib import Path

from .arguments import Command
from .open import app_arguments, open_runs_in_app

DEMO = Path(__file__).resolve().parents[1] / "samples" / "demo"


def _demo(arguments: argparse.Namespace) -> int:
    arguments.runs = [str(DEMO / "normal.json.gz"), str(DEMO / "abnormal.json.gz")]
    return open_runs_in_app(arguments)


COMMAND = Command("demo", "Open the bundled pair of runs; it is generated, not recorded.", app_arguments, _demo)
