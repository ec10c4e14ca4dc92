"""What a column is, and the tables of reduced runs: sums by rank, device and cycle, their causes and findings."""

from __future__ import annotations

import polars as pl
from msgspec import Struct

NAME = pl.Categorical()  # Strings with few distinct values in many rows: kernel names, metric names, devices.


class Field(Struct, frozen=True):
    """One column of a table: name, polars dtype, unit ('' if it has none) and meaning."""

    name: str
    dtype: pl.DataType
    unit: str
    meaning: str


def column(name: str, dtype: pl.DataType | type[pl.DataType], unit: str, meaning: str) -> Field:
    """A column whose dtype may be a class."""
    return Field(name, dtype() if isinstance(dtype, type) else dtype, unit, meaning)


_f = column
REDUCED_TABLES: dict[str, tuple[Field, ...]] = {
    "rank_sums": (
        _f("rank", pl.Int64, "", "rank of the job; this table and those below are in a reduced dataset"),
        _f("host", pl.String, "", "machine it ran on"),
        _f("source", pl.String, "", "recording it was reduced from"),
        _f("epoch_ns", pl.Int64, "ns", "absolute time of its time zero; null where not recorded"),
        _f("bytes", pl.Int64, "B", "size of that recording"),
        _f("label", pl.String, "", "what marks its cycles"),
        _f("before", pl.Int64, "", "device activities before its first cycle"),
        _f("elsewhere", pl.Int64, "", "device activities between or after its cycles"),
        _f("in_cycles_ns", pl.Int64, "ns", "device time that belongs to its cycles"),
        _f("activities_ns", pl.Int64, "ns", "total device time"),
        _f("windows", pl.Int64, "", "number of windows its breakdown covers: whole cycles, or the recording as one"),
        _f("windows_ns", pl.Int64, "ns", "time in those windows"),
        _f("whole_run", pl.Boolean, "", "whether the recording is the one window, because it has no cycles"),
        _f("launched", pl.Int64, "", "device activities whose launch is recorded"),
        _f("early", pl.Int64, "", "of those, the ones that begin before their launch"),
        _f("host_recorded", pl.Boolean, "", "whether any host activity was recorded"),
    ),
    "device_sums": (
        _f("rank", pl.Int64, "", "rank of the job"),
        _f("device", NAME, "", "device"),
        _f("window_ns", pl.Int64, "ns", "time from its first to its last activity"),
        _f("busy_ns", pl.Int64, "ns", "time with any activity running"),
        _f("idle_ns", pl.Int64, "ns", "time in between with none"),
        _f("gaps", pl.Int64, "", "number of idle gaps"),
        _f("comm_ns", pl.Int64, "ns", "time with a collective running; null if it ran no kernel"),
        _f("exposed_ns", pl.Int64, "ns", "part of it not overlapped with computation"),
        _f("steps_ns", pl.Int64, "ns", "time of the windows behind the gauges; null if there are none"),
        _f("steps_busy_ns", pl.Int64, "ns", "time in them with a kernel running"),
        _f("steps_kernel_ns", pl.Int64, "ns", "summed kernel time in them"),
        _f("steps_comm_ns", pl.Int64, "ns", "time in them with a collective running"),
        _f("steps_exposed_ns", pl.Int64, "ns", "part of it not overlapped with computation"),
        _f("sm_efficiency", pl.Float64, "fraction", "estimated SM efficiency over those windows, 0-1"),
        _f("occupancy", pl.Float64, "fraction", "estimated achieved occupancy over kernel time, 0-1"),
        _f("tensor_share", pl.Float64, "fraction", "share of kernel time on tensor cores, 0-1"),
        _f("memory_peak", pl.Float64, "B", "peak device memory allocated, where sampled"),
        _f("memory_reserved", pl.Float64, "B", "peak device memory reserved by the allocator, where sampled"),
        _f("memory_total", pl.Float64, "B", "memory size of the device, where recorded"),
    ),
    "cycle_device_sums": (
        _f("rank", pl.Int64, "", "rank of the job"),
        _f("device", NAME, "", "device"),
        _f("cycle", pl.Int64, "", "number of the cycle; figures cover the activities launched in it"),
        _f("busy_ns", pl.Int64, "ns", "time with any of them running"),
        _f("comm_ns", pl.Int64, "ns", "time with a collective running; null if no kernel belongs to the cycle"),
        _f("exposed_ns", pl.Int64, "ns", "part of it not overlapped with computation"),
        _f("memory_peak", pl.Float64, "B", "peak device memory allocated in the cycle's window, where sampled"),
        _f("memory_reserved", pl.Float64, "B", "peak device memory reserved by the allocator in it, where sampled"),
        _f("memory_total", pl.Float64, "B", "memory size of the device, where recorded"),
    ),
    "cycle_sums": (
        _f("rank", pl.Int64, "", "rank of the job"),
        _f("cycle", pl.Int64, "", "number of the cycle; one row per row of the table cycles"),
        _f("start_ns", pl.Int64, "ns", "start of the cycle"),
        _f("window_start_ns", pl.Int64, "ns", "start of its window: its start, or the end of the previous window"),
        _f("window_end_ns", pl.Int64, "ns", "end of its window: its end, or that of the last activity launched in it"),
        _f("records", pl.Int64, "", "device activities that belong to it"),
        _f("main_device", NAME, "", "the device with most of its work, which the times below are of"),
        _f("host_ns", pl.Int64, "ns", "duration of its mark"),
        _f("device_ns", pl.Int64, "ns", "device time: from the first start to the last end of its own work"),
        _f("lead_ns", pl.Int64, "ns", "part of the step before its device time"),
        _f("tail_ns", pl.Int64, "ns", "part of the step after its device time"),
        _f("step_ns", pl.Int64, "ns", "lead, device time and tail"),
        _f("period_ns", pl.Int64, "ns", "from the end of the device time before to the end of its own"),
        _f("busy_ns", pl.Int64, "ns", "time in its device time in which its own work ran"),
        _f("other_ns", pl.Int64, "ns", "time of the step in which only work of other steps, or of none, ran"),
        _f("idle_ns", pl.Int64, "ns", "time of the step in which the device ran nothing"),
        _f("comm_ns", pl.Int64, "ns", "time in which its own collectives ran"),
        _f("exposed_ns", pl.Int64, "ns", "its communication while nothing was computed"),
        _f("from_ns", pl.Int64, "ns", "begin of its device time"),
        _f("to_ns", pl.Int64, "ns", "end of its device time"),
    ),
    "collectives": (
        _f("index", pl.Int64, "", "number of the launch in its recording"),
        _f("start_ns", pl.Int64, "ns", "start"),
        _f("dur_ns", pl.Int64, "ns", "duration"),
        _f("name", NAME, "", "name of the kernel as recorded"),
        _f("device", NAME, "", "device"),
        _f("stream", pl.Int64, "", "stream or queue"),
        _f("rank", pl.Int64, "", "rank of the job"),
        _f("cycle", pl.Int64, "", "cycle it was launched in; null outside cycles"),
        _f("by", NAME, "", "what makes it a collective: record, setting, name, shape"),
        _f("collective", NAME, "", "operation, as recorded"),
        _f("process_group", NAME, "", "process group, as recorded"),
        _f("group_ranks", NAME, "", "ranks of that group, as far as recorded"),
        _f("group_size", pl.Int64, "", "number of ranks in the group"),
        _f("dtype", NAME, "", "element type, as recorded"),
        _f("in_elements", pl.Int64, "", "elements each rank contributes"),
        _f("out_elements", pl.Int64, "", "elements each rank receives"),
        _f("seq", pl.Int64, "", "sequence number in its process group"),
        _f("src_rank", pl.Int64, "", "rank in its group that sends, of a send or receive"),
        _f("dst_rank", pl.Int64, "", "rank in its group that receives"),
        _f("exposed_ns", pl.Int64, "ns", "part of it not overlapped with computation on its device"),
        _f("before_ns", pl.Int64, "ns", "time from the end of the device's previous collective to its start"),
        _f("work_ns", pl.Int64, "ns", "part of that spent computing"),
        _f("copies_ns", pl.Int64, "ns", "part of that copying but not computing"),
        _f("loading_ns", pl.Int64, "ns", "part of that with the host waiting for input"),
        _f("unlaunched_ns", pl.Int64, "ns", "part of that until the host had launched the collective"),
        _f("to_start_ns", pl.Int64, "ns", "time computing from the device's last start or end of a collective to its "
           "start"),
        _f("to_end_ns", pl.Int64, "ns", "the same to its end"),
    ),
    "idle_causes": (
        _f("rank", pl.Int64, "", "rank of the job"),
        _f("device", NAME, "", "device that waited"),
        _f("cause", NAME, "", "cause of the idle time"),
        _f("total_ns", pl.Int64, "ns", "idle time with that cause"),
    ),
    "idle_gaps": (
        _f("rank", pl.Int64, "", "rank of the job"),
        _f("device", NAME, "", "device that waited"),
        _f("start_ns", pl.Int64, "ns", "start; only the longest gaps of each rank are listed"),
        _f("dur_ns", pl.Int64, "ns", "length of the gap"),
        _f("cause", NAME, "", "cause of most of the gap"),
        _f("cause_ns", pl.Int64, "ns", "part of the gap with that cause"),
        _f("before", NAME, "", "activity that ended when it began"),
        _f("after", NAME, "", "activity that ended it"),
        _f("call", NAME, "", "call that launched the activity after the gap"),
        _f("op", NAME, "", "operator that launched that activity"),
        _f("frame", NAME, "", "Python frame around the operator"),
        _f("drained_by", NAME, "", "last call before the gap that waited for the device"),
        _f("drain_ns", pl.Int64, "ns", "duration of that wait"),
        _f("cycle", pl.Int64, "", "cycle that the gap lies in (its middle, if it spans two)"),
        _f("index", pl.Int64, "", "number of that launch in its recording"),
    ),
    "findings": (
        _f("rank", pl.Int64, "", "rank of the job"),
        _f("rule", NAME, "", "rule that produced it"),
        _f("severity", NAME, "", "problem, hint, fact or unchecked"),
        _f("sentence", pl.String, "", "the sentence about this rank"),
        _f("cost_ns", pl.Float64, "ns", "time the finding is about, where there is one: orders findings, predicts "
           "nothing"),
        _f("view", NAME, "", "view that shows it"),
        _f("filter", pl.String, "", "filter that shows it in that view"),
    ),
    "history": (
        _f("run", pl.Int64, "", "number of the run, from 0 in their order"),
        _f("cycle_kind", NAME, "", "kind of cycle: step, prefill, decode; recording where a run has none"),
        _f("kind", NAME, "", "kernel, collective, copy, op or idle"),
        _f("name", NAME, "", "name as recorded; for idle time its cause"),
        _f("ns", pl.Float64, "ns", "time per cycle and rank"),
        _f("count", pl.Float64, "", "launches or calls per cycle and rank"),
    ),
}
