"""What is said of a recording: whether it opens, the first sentence of its overview, or why no kernel is in it."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from ...loaders.trace import Trace

_GRAPH = r"^(cuda|hip|cu)GraphLaunch"
_LAUNCH = r"^(cuda|hip|cu)(Ext)?(Module)?Launch"


class Reading(Struct, frozen=True):
    """One recording that was opened: a sentence on it, or why it cannot be opened."""

    sentence: str = ""
    fault: str = ""


def read(path: Path) -> Reading:
    """Open the recording as the app and the report do."""
    from ...library import UsageError, table
    from ...loaders.errors import Unreadable
    from ...loaders.ingest.opening import open_run

    try:
        run = open_run(str(path))[0]
    except Unreadable as error:
        return Reading(fault=f"{error.path}: {error.reason}")
    except OSError as error:
        return Reading(fault=f"{path}: {error.strerror or error}")
    if without := why_no_kernel(run):
        return Reading(without)
    from ...analysis.contract.options import Options

    with contextlib.suppress(UsageError):
        summary = table("overview", (run,), Options()).summary
        return Reading(summary[0] if summary else "")
    return Reading("")


def why_no_kernel(run: Trace) -> str:
    """Why the recording has no kernels, in a sentence; empty if it has some."""
    import polars as pl

    if run.has("kernels") or run.has("kernel_stats"):
        return ""
    if not run.has("host"):
        return "No kernel was recorded: no operator ran while it was recorded."
    calls = run.host.filter(pl.col("kind") == "runtime").select(
        pl.col("name").cast(pl.String).str.contains(_GRAPH).sum().alias("graphs"),
        pl.col("name").cast(pl.String).str.contains(_LAUNCH).sum().alias("launches"),
        pl.len().alias("calls"),
    ).collect().row(0, named=True)
    if calls["launches"]:
        return (f"No kernel was recorded, although {calls['launches']:,} were launched: another profiler has the GPU's "
                "tracing (CUPTI: DCGM, Nsight or a second PyTorch profiler), or it is not permitted.")
    if calls["graphs"]:
        return (f"No kernel was recorded, although {calls['graphs']:,} graphs were launched: this driver does not "
                "trace the kernels of graphs.")
    if run.info.devices:
        return ("No kernel was recorded: the GPU's activities are switched off in this profiler." if not calls["calls"]
                else "No kernel was recorded: the job launched none while it was recorded.")
    return "No kernel was recorded: the process has no GPU."
