"""Titles of report sections: rules name a section by identifier, pages by title, raw metrics by hardware unit."""

from __future__ import annotations

import re

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


def section_title(section: str | None, metric: str) -> str:
    """The title of a section; on a raw page, which has no sections, that of the metric's hardware unit."""
    if section:
        return _TITLES.get(section, section)
    unit = re.match(r"([a-z0-9]+?)_{2}", metric)
    return OTHER if unit is None else _UNITS.get(unit[1], unit[1])
