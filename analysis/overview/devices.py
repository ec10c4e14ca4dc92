"""How well each device was used while the steps ran: the gauges of torch_tb_profiler, as fractions.

Utilisation is the share of time in which at least one kernel runs; SM efficiency weights it with the share of SMs for
which the running kernels have blocks; occupancy and tensor-core share are means over kernel time, the latter from
kernel names, and unknown where these are ambiguous.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...loaders.trace import Device
from ..core.batches import ABSENT
from ..core.intervals import Intervals, Ints
from ..kernels.tensor_cores import UNSURE
from .activities import Activities, Floats, Places

GAUGES = ("utilisation", "sm_efficiency", "occupancy", "tensor_share")
"""The gauges of a device: fractions 0-1, None where not recorded."""


def gauges(activities: Activities, window: Intervals, devices: tuple[Device, ...]) -> list[dict[str, Any]]:
    """One dict per device that ran kernels: ``device``, product ``name``, the ``GAUGES`` and the times behind them."""
    products = {device.id: device.name for device in devices}
    rows: list[dict[str, Any]] = []
    if not window.length:
        return rows
    kernels = np.flatnonzero(activities.kernels)
    order = np.argsort(activities.device[kernels], kind="stable")  # one sort for all devices
    kernels, numbers = kernels[order], activities.device[kernels[order]]
    for own in np.split(kernels, np.flatnonzero(np.diff(numbers)) + 1) if len(kernels) else ():
        device = activities.devices[activities.device[own[0]]]
        inside = np.maximum(window.within(activities.starts[own], activities.ends[own]), 0)
        busy = activities.union(own) & window
        total = int(inside.sum())
        rows.append({
            "device": device, "rank": None if (rank := int(activities.rank[own[0]])) == ABSENT else rank,
            "name": products.get(device or ""),
            "utilisation": busy.length / window.length,
            "sm_efficiency": _sm_efficiency(activities, own, window),
            "occupancy": _mean(activities.occupancy[own], inside),
            **_on_tensor_cores(activities, own, inside),
            "busy_ns": busy.length, "kernel_ns": total, "window_ns": window.length,
        })
    return rows


def _on_tensor_cores(activities: Activities, own: Places, inside: Ints) -> dict[str, float | None]:
    """``tensor_share`` of the kernel time, None where kernel names are ambiguous; ``tensor_least``, its lower bound."""
    total = int(inside.sum())
    used, unsure = (int(inside[mask[own]].sum()) for mask in (activities.on_tensor_cores, activities.may_use_them))
    least = used / total if total else 0.0
    return {"tensor_share": least if unsure <= UNSURE * total else None, "tensor_least": least}


def _mean(values: Floats, weights: Ints) -> float | None:
    measured = ~np.isnan(values) & (values >= 0) & (weights > 0)
    total = weights[measured].sum()
    return float((values[measured].astype(np.float64) * weights[measured]).sum() / total) if total else None


def _sm_efficiency(activities: Activities, own: Places, window: Intervals) -> float | None:
    """Mean over the window of min(1, blocks per SM summed over the kernels running at each instant)."""
    blocks = activities.blocks_per_sm[own].astype(np.float64)
    measured = blocks > 0
    if not measured.any():
        return None
    starts, ends, blocks = activities.starts[own][measured], activities.ends[own][measured], blocks[measured]
    moments = np.concatenate((starts, ends))
    order = np.argsort(moments, kind="stable")
    level = np.cumsum(np.concatenate((blocks, -blocks))[order])[:-1]
    # where nothing runs, the cumulative sum is a rounding error rather than 0
    running = np.cumsum(np.where(order < len(starts), 1, -1))[:-1] > 0
    covered = np.diff(window.before(moments[order]))
    return float((np.clip(level, 0.0, 1.0) * covered * running).sum() / window.length)
