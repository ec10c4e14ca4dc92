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
    loads, asks, step = named(slices, DATA_LOADER, COMMUNICATION, _STEP)
    loader = (pl.col("kind") == "dataloader") | loads
    group = pl.when(loader).then(0).when(asks).then(1).when((pl.col("kind") == "op") & ~step).then(2)
    rows = slices.select(
        "start_ns", (pl.col("start_ns") + pl.col("dur_ns")).alias("end_ns"), group.cast(pl.UInt8).alias("group")
    ).drop_nulls().collect(engine="streaming")
    of = rows["group"].to_numpy()
    starts, ends = rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy()
    loader_time, communication, op = (union(starts[of == number], ends[of == number]) for number in range(3))
    return {"loader": loader_time, "communication": communication, "op": op, "any": loader_time | communication | op}
