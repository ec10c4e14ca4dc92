"""``samples/make_flight.py`` as a module: dumps of flight recorders of jobs that hang."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

_SCRIPT = Path(__file__).resolve().parents[2] / "samples" / "make_flight.py"
_spec = importlib.util.spec_from_file_location("make_flight", _SCRIPT)
assert _spec and _spec.loader
_module = importlib.util.module_from_spec(_spec)
sys.modules["make_flight"] = _module
_spec.loader.exec_module(_module)
Call, Job, job = _module.Call, _module.Job, _module.job
