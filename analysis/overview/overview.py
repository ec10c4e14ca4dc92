"""The overview data structure, independent of its source table, and the figures that all sources share."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct, field
from msgspec.structs import replace

from ...loaders.trace import Trace
from ..contract.options import Options
from ..contract.view import CannotAnswer
from ..core import units
from ..cycles.detection import Cycles
from ..cycles.whole import Steps, in_steps
from ..findings.rule import Evidence, Finding
from ..findings.rules import finding_facts, findings
from ..findings.spread import share_text
from ..kernels.by_name import table as kernel_table
from ..kernels.family import device_families

CATEGORIES = ("Kernel", "Memcpy", "Memset", "Communication", "Runtime", "DataLoader", "CPU Exec", "Other")
"""In order of priority: an instant goes to the first active category."""
HOST = ("Runtime", "DataLoader", "CPU Exec")
"""Host categories, counted while devices are idle. The rest are device categories, except ``Other``."""
MEANINGS = {
    "Kernel": "a kernel runs on a device",
    "Memcpy": "a copy runs, no kernel",
    "Memset": "a memset runs, no kernel or copy",
    "Communication": "a collective runs, none of the above",
    "Runtime": "devices are idle, the host is in a runtime or driver call",
    "DataLoader": "devices are idle, the host waits for input data",
    "CPU Exec": "devices are idle, the host is in an operator",
    "Other": "none of these",
}


TOP = 10
SHOWN = 8  # Up to this many devices the headline names each.


class Overview(Struct, frozen=True):
    """Overview of one run: ``times`` per category (mean per cycle, ns); ``word``, the name of a cycle here ('step');
    headline, facts and notes. ``window_ns``: mean time that the categories divide, None without wall time. ``host``:
    ``on_cpu`` and ``queued`` where recorded, as shares of a cycle summed over threads."""

    times: dict[str, float]
    word: str
    headline: str
    facts: dict[str, Any]
    notes: tuple[str, ...] = ()
    host: dict[str, float] = field(default_factory=dict)
    window_ns: float | None = None
    findings: tuple[Finding, ...] = ()

    @property
    def of_recording(self) -> bool:
        """Whether the times cover the whole recording instead of a cycle."""
        return self.word in ("recording", "run")


class Basis(Struct, frozen=True):
    """Basis of the figures: number of windows, their mean length (``window_ns``), mean cycle time (``step_ns``), source
    of the cycles, cycles left out, median cycle time. ``held``: share of device time that belongs to the cycles, 0-1,
    None where not measured."""

    windows: int | None = None
    window_ns: float | None = None
    step_ns: float | None = None
    source: str | None = None
    left_out: int | None = None
    held: float | None = None
    median_ns: float | None = None


def overview(
    run: Trace, times: dict[str, float], word: str, headline: str, evidence: Evidence, basis: Basis,
    notes: tuple[str, ...] = (), host: dict[str, float] | None = None,
) -> Overview:
    """The overview with the findings of all rules; ``evidence`` holds the devices and the top kernels."""
    reported = findings(evidence)
    facts = {
        "devices": evidence.devices,
        **finding_facts(reported), "top_kernels": evidence.top, "families": evidence.families,
        "steps": basis.windows, "step_ns": basis.step_ns, "median_step_ns": basis.median_ns,
        "window_ns": basis.window_ns,
        "coverage": {"steps_left_out": basis.left_out, "activity_in_steps": basis.held, "source": run.info.coverage},
    }
    if host:
        facts["host"] = host
    line = " · ".join((headline, *_busy(evidence)))
    return Overview(times, word, line, facts, notes, host or {}, basis.window_ns, reported)


def span(cycles: Cycles, word: str) -> str:
    """Text with the number and mean duration of cycles: '6 steps, mean 174.8 ms', 'one step on each of 8 ranks, ...'
    Warm-up is counted but not in the mean."""
    spans = cycles.frame["dur_ns"].drop_nulls()
    count, ranks = len(spans), cycles.frame["rank"].drop_nulls().n_unique()
    per_rank = cycles.frame.group_by("rank").len()["len"].unique()
    number = int(per_rank[0]) if len(per_rank) == 1 else count
    many = f"one {word}" if number == 1 else f"{units.count(number)} {word}s"
    if ranks > 1:
        many += f" on each of {units.count(ranks)} ranks" if len(per_rank) == 1 else f" on {units.count(ranks)} ranks"
    kept = cycles.frame.filter(~pl.col("warm_up"))
    step = kept.filter("complete")["step_ns"].drop_nulls()  # step time, where devices were recorded
    steady = step if len(step) else kept["dur_ns"].drop_nulls()
    mean = units.duration(float(steady.to_numpy().mean())) if len(steady) else units.MISSING
    warm_up = count - len(kept["dur_ns"].drop_nulls())
    without = f" without {units.count(warm_up)} of warm-up" if warm_up else ""
    return f"{many} of {mean}" if count == 1 else f"{many}, mean {mean}{without}"


def median_length(cycles: Cycles) -> float | None:
    """Median duration of all cycles, ns, as in the cycles view."""
    spans = cycles.frame["dur_ns"].drop_nulls().to_numpy()
    return float(np.median(spans)) if len(spans) else None


def _busy_of(device: dict[str, Any]) -> str:
    """' of 45.00 µs': base of the busy share, if the device was active in only part of the steps; else ''."""
    return f" of {units.duration(device['of_ns'])}" if device["of_ns"] else ""


def _of_steps(evidence: Evidence) -> str:
    return f" of {units.each(evidence.step_word)}" if evidence.in_steps else ""


def _busy(evidence: Evidence) -> list[str]:
    """'GPU 0 busy 56% of a step' per device; for more than ``SHOWN`` devices the mean, least and most."""
    timed = [device for device in evidence.busy if device["busy"] is not None]
    if len(timed) <= SHOWN:
        of = _of_steps(evidence)
        return [f"{device['device'] or 'device'} busy {share_text(device['busy'])}{_busy_of(device)}{of}"
                for device in timed]
    timed.sort(key=lambda device: float(device["busy"]))
    mean = share_text(sum(device["busy"] for device in timed) / len(timed))
    least, most = (f"{device['device'] or 'device'} {share_text(device['busy'])}" for device in (timed[0], timed[-1]))
    return [f"{units.count(len(timed))} devices busy {mean}{_of_steps(evidence)}, least {least}, most {most}"]


def kernels(run: Trace, options: Options, steps: Steps | None = None) -> Evidence:
    """Evidence from the kernel table: ``top`` kernels of the recording; the rest, ``costliest`` included, in steps."""
    evidence = Evidence(0, 0.0, {}, [], [], serialised=run.info.serialised)
    whole = replace(options, cycle=None, cycle_b=None)
    within = in_steps(run, steps)
    try:
        everything, _ = kernel_table(run, whole)
        frame = everything if within is run else kernel_table(within, whole)[0]
    except CannotAnswer:
        return evidence
    top = _over_devices(everything).head(TOP).to_dicts()
    work = frame.filter(pl.col("kind").is_in(["kernel", "collective"]))
    total = int(frame["total_ns"].sum())
    bound = work.drop_nulls("bound").group_by("bound").agg(pl.col("total_ns").sum()).sort(
        "total_ns", descending=True).rows()
    return replace(
        evidence, top=top, costliest=_costliest(frame), bound={name: ns / total for name, ns in bound} if total else {},
        median_kernel_ns=_median(within), launches=float(work["count"].sum()), families=device_families(frame),
    )


def _costliest(frame: pl.DataFrame) -> dict[str, Any] | None:
    """The kernel with the most time over all devices, in the columns of ``_over_devices``, plus ``devices``."""
    sums = _over_devices(frame)
    devices = frame.select("rank", "device").n_unique()
    return None if sums.is_empty() else {**sums.row(0, named=True), "devices": devices}


def _over_devices(frame: pl.DataFrame) -> pl.DataFrame:
    """One row per kernel, most time first, in the columns of ``top_kernels``; ``device`` only if all rows share it."""
    return frame.group_by(pl.col("name", "kind").cast(pl.String)).agg(
        pl.when(pl.col("device").n_unique() == 1).then(pl.col("device").first()).cast(pl.String),
        pl.when(pl.col("count").null_count() == 0).then(pl.col("count").sum()), pl.col("total_ns", "share").sum(),
        pl.when(pl.col("bound").n_unique() == 1).then(pl.col("bound").first()),
    ).sort("total_ns", "name", descending=[True, False], nulls_last=True)


def _median(run: Trace) -> float | None:
    """Median duration of kernels and collectives, ns; None where only sums are recorded."""
    times = run.kernels.filter(pl.col("kind").is_in(["kernel", "collective"])).select(pl.col("dur_ns").median())
    median: float | None = times.collect(engine="streaming").item()
    return median
