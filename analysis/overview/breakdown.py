"""Where the time of a step goes: each instant belongs to the first category that is active, else to Other.

Because a category gets only what those before it leave, its time is how much the union grows when it joins: Kernel
hides everything under it, and Communication is what no computation and no copy hides.
"""

from __future__ import annotations

import numpy as np

from ..core.intervals import EMPTY, Intervals, Ints, union
from .activities import Activities
from .host_times import HostTimes
from .windows import Windows


def breakdown(windows: Windows, activities: Activities | None, host: HostTimes) -> dict[str, Ints]:
    """Category → time in each window, ns; only categories the recording could have shown."""
    covered = EMPTY
    so_far = np.zeros(len(windows), dtype=np.int64)
    times: dict[str, Ints] = {}
    for category, moments in _moments(activities, host).items():
        covered = covered | moments
        now = covered.within(windows.starts, windows.ends)
        times[category], so_far = now - so_far, now
    times["Other"] = (windows.ends - windows.starts) - so_far
    return times


def _moments(activities: Activities | None, host: HostTimes) -> dict[str, Intervals]:
    found: dict[str, Intervals] = {}
    communication = host.communication
    if activities is not None:
        found["Kernel"] = activities.union(activities.kernels & ~activities.communicates)
        found["Memcpy"] = activities.union(activities.of("memcpy"))
        found["Memset"] = activities.union(activities.of("memset"))
        communication = communication | activities.union(activities.kernels & activities.communicates)
    found["Communication"] = communication
    calls = host.calls.timed
    if len(calls.starts):
        found["Runtime"] = union(calls.starts, calls.starts + calls.dur)
    if host.any:
        found["DataLoader"] = host.loader
        found["CPU Exec"] = host.op
    return found
