"""Findings of Nsight Compute's rules over all launches, ranked by their own estimates, and their bottleneck verdicts.

Estimates are NVIDIA's and are passed on as such. A global estimate is of the kernel's run time, so findings are ranked
by estimate × kernel time; a local one is of a single bottleneck and says nothing about the run time.
Sentences attribute them to the profiler. Rules name a section by identifier, pages by title, raw metrics by unit.
"""

from __future__ import annotations

import re

import polars as pl
from msgspec import Struct

from ...loaders.trace import Trace
from ..core import units
from ..core.names.short_name import fit_name
from ..core.text import display

_TITLES = {
    "SpeedOfLight": "GPU Speed Of Light Throughput", "ComputeWorkloadAnalysis": "Compute Workload Analysis",
    "MemoryWorkloadAnalysis": "Memory Workload Analysis", "SchedulerStats": "Scheduler Statistics",
    "WarpStateStats": "Warp State Statistics", "InstructionStats": "Instruction Statistics",
    "LaunchStats": "Launch Statistics", "SourceCounters": "Source Counters", "PmSampling": "PM Sampling",
    "WorkloadDistribution": "GPU and Memory Workload Distribution", "NumaAffinity": "NUMA Affinity",
    "SpeedOfLight_RooflineChart": "GPU Speed Of Light Roofline Chart",
    "MemoryWorkloadAnalysis_Tables": "Memory Workload Analysis Tables",
    "MemoryWorkloadAnalysis_Chart": "Memory Workload Analysis Chart",
}
"""Identifier of a section in Nsight Compute → its title; from the section files that come with the tool."""
_UNITS = {
    "dram": "DRAM", "fbpa": "Frame buffer", "gpc": "GPC", "gpu": "GPU", "l1tex": "L1/TEX cache", "lts": "L2 cache",
    "ltc": "L2 cache", "launch": "Launch", "device": "Device", "sm": "SM", "smsp": "SM sub-partition",
    "idc": "Constant cache", "sys": "System", "pcie": "PCIe", "nvlrx": "NVLink", "nvltx": "NVLink", "tpc": "TPC",
    "derived": "Derived", "profiler": "Profiler", "pmsampling": "PM Sampling", "group": "Groups",
}
"""Hardware unit of a raw metric, the part of its name before ``__`` → its display name (Kernel Profiling Guide)."""
OTHER = "Other metrics"
_KERNEL = 40
_VERDICTS = (
    (r"typically indicates? latency", "latency"), (r"grid is too small", "grid too small"),
    (r"well-balanced", "compute and memory alike"), (r"(?i)compute is more\b.*utilized than memory", "compute"),
    (r"(?i)memory is more\b.*utilized than compute", "memory"),
    (r"greater than [\d.]+%? of the available", "near peak"),
)
"""Message of the rule SOLBottleneck → the bottleneck it names; from ``SpeedOfLight.py``, which comes with the tool."""
_SENTENCE = re.compile(r"(?<=[.!?]) +(?=[A-Z])")
_LONGEST = 200


class RuleFinding(Struct, frozen=True):
    """The finding of one rule for one kernel in ``launches`` of its launches: ``speedup`` (0-1, of ``scope``) and
    ``message`` of the launch with most time to save. ``kernel_ns`` is the time of those launches that have one."""

    kernel: str
    section: str
    rule: str | None
    severity: str | None
    message: str
    speedup: float | None
    scope: str | None
    launches: int
    kernel_ns: int | None

    @property
    def saves_ns(self) -> float | None:
        """The estimated speed-up times the kernel's time; 0 for a local one, None if one of them is unknown."""
        if self.scope == "local":
            return 0.0
        return None if self.speedup is None or self.kernel_ns is None else self.speedup * self.kernel_ns

    @property
    def brief(self) -> str:
        """The first sentences of the message; for theoretical occupancy the one that names the limiter."""
        sentences = _SENTENCE.split(self.message)
        limited = [one for one in sentences if " is limited by " in one]
        text, *more = limited or sentences
        while more and len(text) + len(more[0]) < _LONGEST:
            text = f"{text} {more.pop(0)}"
        return display(text, _LONGEST + 40)


class RecordedRules(Struct, frozen=True):
    """The findings of the rules, most time to save first, and each verdict's share of the kernel time."""

    found: tuple[RuleFinding, ...]
    verdicts: dict[str, float]


def recorded_of(run: Trace) -> RecordedRules | None:
    """The findings of the rules over the run's launches; None if no rules were recorded."""
    if not run.has("launch_rules"):
        return None
    launches = run.kernels.select("index", pl.col("name").cast(pl.String).alias("kernel"), "dur_ns")
    rows = run.launch_rules.with_columns(pl.col("section", "rule", "kind", "scope").cast(pl.String)).join(
        launches, on="index").with_columns(pl.col("message").fill_null("")).collect()
    by = pl.col("speedup") * pl.col("dur_ns")
    ranked = rows.sort(by, "speedup", "index", descending=[True, True, False], nulls_last=True, maintain_order=True)
    numbered = ranked.with_columns(text=pl.col("message").str.replace_all(r"\d[\d.,]*", "#"))
    frame = numbered.with_columns(text=pl.when(pl.col("rule").is_null()).then("text")).group_by(
        "kernel", "section", "rule", "text", maintain_order=True
    ).agg(
        pl.col("kind", "message", "speedup", "scope").first(), launches=pl.col("index").n_unique(),
        kernel_ns=pl.when(pl.col("dur_ns").count() > 0).then(pl.col("dur_ns").sum()),
    )
    rules = [
        RuleFinding(row["kernel"], section_title(row["section"], ""), row["rule"], row["kind"], row["message"],
              row["speedup"], row["scope"], row["launches"], row["kernel_ns"]) for row in frame.to_dicts()
    ]
    rules.sort(key=lambda one: (one.saves_ns or 0.0, one.speedup or 0.0, one.severity == "OPT"), reverse=True)
    return RecordedRules(tuple(rules), _verdicts(rows, run))


def _verdicts(rows: pl.DataFrame, run: Trace) -> dict[str, float]:
    """The verdicts on launches with a time, each with its share of the time of all such kernels; largest first."""
    named = pl.coalesce(*(
        pl.when(pl.col("message").str.contains(pattern)).then(pl.lit(verdict)) for pattern, verdict in _VERDICTS
    ))
    about = rows.filter(pl.col("section").str.contains("(?i)speed ?of ?light")).with_columns(verdict=named)
    about = about.drop_nulls(["verdict", "dur_ns"]).unique("index", keep="first", maintain_order=True)
    total = run.kernels.select(pl.col("dur_ns").sum()).collect().item() or 0
    sums = about.group_by("verdict").agg(pl.col("dur_ns").sum()).sort("dur_ns", "verdict", descending=[True, False])
    return {verdict: ns / total for verdict, ns in sums.rows()} if total else {}


def section_title(section: str | None, metric: str) -> str:
    """The title of a section; on a raw page, which has no sections, that of the metric's hardware unit."""
    if section:
        return _TITLES.get(section, section)
    unit = re.match(r"([a-z0-9]+?)_{2}", metric)
    return OTHER if unit is None else _UNITS.get(unit[1], unit[1])


def rule_sentence(finding: RuleFinding) -> str:
    """One rule with its estimate: NVIDIA's rule on Occupancy of k, est. speed-up 80.3% (global): The theoretical ..."""
    about = f"NVIDIA's rule on {display(finding.section, 60)} of {fit_name(finding.kernel, _KERNEL)}"
    gain = estimate(finding.speedup, finding.scope)
    return f"{about}, {gain}{finding.brief}" if gain else f"{about}: {finding.brief}"


def estimate(speedup: float | None, scope: str | None) -> str:
    """The tool's estimate as a prefix of its message: 'est. speed-up 80.3% (global): '; '' if it has none."""
    of = f" ({scope})" if scope else ""
    return "" if speedup is None else f"est. speed-up {units.percent(100 * speedup)}{of}: "


def verdict_sentence(verdicts: dict[str, float]) -> str:
    """The tool's own bottleneck verdicts, by kernel time."""
    parts = ", ".join(f"{units.percent(100 * share, places=0)} {name}" for name, share in verdicts.items())
    return f"NVIDIA's verdict on the bottleneck, by kernel time: {parts}."
