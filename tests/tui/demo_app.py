"""The app on the bundled demo, as ``warplens demo`` opens it, for the pictures and the walk-through of the README."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from app_runs import Shelf, app_on

from warplens.loaders.ingest.opening import open_run
from warplens.loaders.trace import Trace
from warplens.tui.app.app import WarplensApp

DEMO = Path(__file__).resolve().parents[2] / "samples" / "demo"


@cache
def run_of_the_demo(name: str) -> Trace:
    """``normal`` or ``abnormal``, read once."""
    (trace,) = open_run(str(DEMO / f"{name}.json.gz"), use_cache=False)
    return trace


def demo_app(view: str = "") -> WarplensApp:
    """The demo's pair; the first view is the one a pair begins with where none is named."""
    shelf = Shelf(normal=run_of_the_demo("normal"), abnormal=run_of_the_demo("abnormal"))
    return app_on("normal", "abnormal", shelf=shelf, view=view)
