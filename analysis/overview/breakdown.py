"""Where the time of a step goes: each instant belongs to the first category that is active, else to Other.

The categories and their order are torch_tb_profiler's. Because a category gets only what those before it leave, its
time is how much the union grows when it joins: Kernel hides everything under it, and Communication is what no
computation and no copy hides.
"""

from __future__ import annotations

import re

import numpy as np
import polars as pl

from ...loaders.trace import Trace
from ..core.intervals import EMPTY, Intervals, Ints, union
from ..core.launch_calls import Calls
from ..operators.tree import DATA_LOADER
from .activities import COMMUNICATION, Activities, named
from .windows import Windows

CATEGORIES = ("Kernel", "Memcpy", "Memset", "Communication", "Runtime", "DataLoader", "CPU Exec", "Other")
"""In the order in which they claim an instant."""
MEANINGS = {
    "Kernel": "a kernel runs on a device",
    "Memcpy": "a copy runs, and no kernel",
    "Memset": "a set runs, and none of those",
    "Communication": "a collective runs that nothing above hides",
    "Runtime": "the host is in a runtime or driver call, and devices are idle",
    "DataLoader": "the host waits for input data, and devices are idle",
    "CPU Exec": "the host is in an operator, and devices are idle",
    "Other": "none of these",
}
_STEP = re.compile(r"ProfilerStep#")


def breakdown(run: Trace, windows: Windows, activities: Activities | None, calls: Calls) -> dict[str, Ints]:
    """Category → time in each window, ns; only categories the recording could have shown."""
    covered = EMPTY
    so_far = np.zeros(len(windows), dtype=np.int64)
    times: dict[str, Ints] = {}
    for category, moments in _moments(run, activities, calls).items():
        covered = covered | moments
        now = covered.within(windows.starts, windows.ends)
        times[category], so_far = now - so_far, now
    times["Other"] = (windows.ends - windows.starts) - so_far
    return times


def _moments(run: Trace, activities: Activities | None, calls: Calls) -> dict[str, Intervals]:
    host = _host(run)
    found: dict[str, Intervals] = {}
    communication = host["communication"]
    if activities is not None:
        found["Kernel"] = activities.union(activities.kernels & ~activities.communicates)
        found["Memcpy"] = activities.union(activities.of("memcpy"))
        found["Memset"] = activities.union(activities.of("memset"))
        communication = communication | activities.union(activities.kernels & activities.communicates)
    found["Communication"] = communication
    if len(calls.starts):
        found["Runtime"] = union(calls.starts, calls.ends)
    if host["any"].length:
        found["DataLoader"] = host["loader"]
        found["CPU Exec"] = host["op"]
    return found


def _host(run: Trace) -> dict[str, Intervals]:
    """When the host waits for data, asks for communication, is in another operator, and in anything at all."""
    slices = run.host.filter(pl.col("kind").is_in(["op", "annotation", "dataloader"]))
    loader = (pl.col("kind") == "dataloader") | named(slices, DATA_LOADER)
    asks = named(slices, COMMUNICATION)
    rows = (
        slices.select(
            "start_ns", (pl.col("start_ns") + pl.col("dur_ns")).alias("end_ns"),
            pl.when(loader).then(pl.lit("loader")).when(asks).then(pl.lit("communication"))
            .when((pl.col("kind") == "op") & ~named(slices, _STEP)).then(pl.lit("op")).alias("group"),
        )
        .drop_nulls().collect(engine="streaming")
    )
    def of(group: str | None) -> Intervals:
        some = rows if group is None else rows.filter(pl.col("group") == group)
        return union(some["start_ns"].to_numpy(), some["end_ns"].to_numpy())

    return {"loader": of("loader"), "communication": of("communication"), "op": of("op"), "any": of(None)}
