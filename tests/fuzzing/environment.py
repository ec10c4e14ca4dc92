"""What ``python tests/fuzzing`` needs before anything else is imported; nothing where tests import the targets."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import __main__

HERE = Path(__file__).resolve().parent

if Path(getattr(__main__, "__file__", None) or "").resolve() == HERE / "__main__.py":
    os.environ.setdefault("POLARS_MAX_THREADS", "1")  # tables of some rows: threads only wait for each other
    os.environ["WARPLENS_DEBUG"] = "1"
    sys.path[:0] = [str(HERE), str(HERE.parent / "loaders"), str(HERE.parents[1] / ".dev")]
