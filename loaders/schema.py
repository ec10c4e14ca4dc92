"""The columns of every table of a Trace: name, dtype, unit and a one-line description.

This is the only definition of the tables: the README's data model section is generated from it, and the conformance
test checks every loader against it. Times are Int64 nanoseconds from the start of the trace. A value that was not
measured is null, never 0. Names are stored exactly as recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

import polars as pl
from msgspec import Struct

NAME = pl.Categorical()  # Strings with few distinct values in many rows: kernel names, metric names, devices.


class Field(Struct, frozen=True):
    """One column of a table: name, polars dtype, unit ('' if it has none) and meaning."""

    name: str
    dtype: pl.DataType
    unit: str
    meaning: str


def _f(name: str, dtype: pl.DataType | type[pl.DataType], unit: str, meaning: str) -> Field:
    return Field(name, dtype() if isinstance(dtype, type) else dtype, unit, meaning)


TABLES: dict[str, tuple[Field, ...]] = {
    "kernels": (
        _f("index", pl.Int64, "", "recorded order of launches, from 0"),
        _f("start_ns", pl.Int64, "ns", "start; null where the format has no timestamps"),
        _f("dur_ns", pl.Int64, "ns", "duration"),
        _f("name", NAME, "", "name as recorded"),
        _f("kind", NAME, "", "kernel, collective, memcpy, memset or sync"),
        _f("device", NAME, "", "device, as 'GPU 0'; null where the input names none"),
        _f("stream", pl.Int64, "", "stream or queue"),
        _f("pid", pl.Int64, "", "process that launched it, where recorded"),
        _f("rank", pl.Int64, "", "rank of the job this recording belongs to"),
        _f("correlation", pl.Int64, "", "ties the activity to the runtime call that launched it"),
        _f("op_id", pl.Int64, "", "external id of the operator that launched it"),
        _f("graph", pl.Int64, "", "id of the graph (or graph launch) it was replayed by; null outside graphs"),
        _f("grid", NAME, "", "grid size as 'x,y,z'"),
        _f("block", NAME, "", "block size as 'x,y,z'"),
        _f("registers", pl.Int32, "", "registers per thread"),
        _f("shared_bytes", pl.Int64, "B", "shared memory per block"),
        _f("occupancy", pl.Float32, "fraction", "estimated achieved occupancy, 0-1"),
        _f("blocks_per_sm", pl.Float32, "", "blocks per multiprocessor"),
        _f("bytes", pl.Int64, "B", "bytes moved by a copy or set"),
        _f("collective", NAME, "", "what a collective does, as recorded: allreduce, _allgather_base, all_to_allv"),
        _f("process_group", NAME, "", "process group of a collective, as recorded"),
        _f("group_ranks", NAME, "", "ranks of that group as '0,1,2', as far as recorded"),
        _f("group_size", pl.Int64, "", "how many ranks the group has"),
        _f("dtype", NAME, "", "type of a collective's elements, as recorded: Float, BFloat16"),
        _f("in_elements", pl.Int64, "", "elements a rank gives to the collective"),
        _f("out_elements", pl.Int64, "", "elements a rank gets from it"),
        _f("seq", pl.Int64, "", "number of the collective within its process group"),
        _f("tensor", pl.Float32, "fraction", "tensor-core utilisation, fraction of peak 0-1"),
        _f("dram", pl.Float32, "fraction", "DRAM throughput, fraction of peak 0-1"),
        _f("op_type", NAME, "", "type of operator that the recorder files it under, as Ascend's OP Type"),
        _f("core", NAME, "", "unit of the device that ran it, as recorded: AI_CORE, AI_VECTOR_CORE"),
        _f("offset", pl.Int64, "B", "where its arguments are: byte offset in the (decompressed) source, or its number"),
    ),
    "host": (
        _f("start_ns", pl.Int64, "ns", "start"),
        _f("dur_ns", pl.Int64, "ns", "duration"),
        _f("name", NAME, "", "name as recorded"),
        _f("kind", NAME, "", "op, runtime, driver, python, annotation, sched, io, overhead or dataloader"),
        _f("pid", pl.Int64, "", "process"),
        _f("tid", pl.Int64, "", "thread"),
        _f("rank", pl.Int64, "", "rank of the job this recording belongs to"),
        _f("correlation", pl.Int64, "", "ties a runtime call to the device activity it launched"),
        _f("external_id", pl.Int64, "", "ties an operator to calls and activities; negative where an arrow did"),
        _f("sequence", pl.Int64, "", "number that a backward operator shares with the forward operator it belongs to"),
        _f("forward_tid", pl.Int64, "", "thread of the forward operator; null where it is no backward operator"),
        _f("parent", pl.Int64, "", "row of the slice in this table that encloses it most closely on its thread"),
        _f("depth", pl.Int32, "", "nesting depth on its thread, 0 outermost; null where it is no call"),
        _f("self_ns", pl.Int64, "ns", "time in which it is the innermost slice of its thread"),
        _f("kernel", NAME, "", "kernel that a launch call launches, where the recorder names it there"),
        _f("shapes", NAME, "", "shapes of an operator's inputs as recorded, JSON; null where they were not"),
        _f("types", NAME, "", "types of these inputs, JSON"),
        _f("inputs", NAME, "", "values of the inputs that are no tensors, JSON of texts"),
        _f("crosses", pl.Boolean, "", "whether it ends after the slice in which it begins, and so is no call of it"),
        _f("offset", pl.Int64, "B", "byte offset of the event in the (decompressed) source, for full arguments"),
    ),
    "metrics": (
        _f("ts_ns", pl.Int64, "ns", "time of the sample"),
        _f("metric", NAME, "", "counter name"),
        _f("device", NAME, "", "device, 'GPU 0' or 'Host'"),
        _f("value", pl.Float64, "", "value in its natural unit"),
        _f("unit", NAME, "", "unit of the value: MHz, B/s, W, %, C, B or ''"),
        _f("pid", pl.Int64, "", "process the sample is of, null for the whole machine"),
        _f("rank", pl.Int64, "", "rank of the job this recording belongs to"),
    ),
    "call_chains": (
        _f("start_ns", pl.Int64, "ns", "time of the CPU sample, or start of the call"),
        _f("dur_ns", pl.Int64, "ns", "duration of the call; null of a sample"),
        _f("call", NAME, "", "call of the operating system's library; null of a sample"),
        _f("pid", pl.Int64, "", "process"),
        _f("tid", pl.Int64, "", "thread"),
        _f("rank", pl.Int64, "", "rank of the job this recording belongs to"),
        _f("state", NAME, "", "state of the sampled thread, as recorded"),
        _f("function", NAME, "", "innermost function; '[module]' where it has no symbol"),
        _f("stack", NAME, "", "its callers, one line per frame ('function (module)'), innermost first"),
    ),
    "launch_metrics": (
        _f("index", pl.Int64, "", "launch it was measured of (kernels.index)"),
        _f("section", NAME, "", "section of the tool's report, or block of the hardware; null where it names none"),
        _f("metric", NAME, "", "name as recorded"),
        _f("value", pl.Float64, "", "value in its unit; null where it is not a number"),
        _f("unit", NAME, "", "ns, B, B/s, Hz, % or as recorded; null for a plain number"),
        _f("text", NAME, "", "value as recorded where it is not a number: n/a, Not Available"),
    ),
    "launch_rules": (
        _f("index", pl.Int64, "", "launch that the tool's rule speaks of (kernels.index)"),
        _f("section", NAME, "", "section of the report that the rule belongs to, as recorded"),
        _f("rule", NAME, "", "name of the rule; null in text reports, which name none"),
        _f("kind", NAME, "", "OPT, WRN or INF, as recorded"),
        _f("message", pl.String, "", "what the rule says"),
        _f("speedup", pl.Float64, "fraction", "speed-up that the tool itself estimates, 0-1; null where it gives none"),
        _f("scope", NAME, "", "what that is of: global (the kernel's run time) or local (the one bottleneck)"),
    ),
    "allocations": (
        _f("start_ns", pl.Int64, "ns", "when it was allocated; null before what was recorded"),
        _f("dur_ns", pl.Int64, "ns", "until it was freed, from its start or that of the recording; null while held"),
        _f("bytes", pl.Int64, "B", "requested size; the block's size where that is not recorded"),
        _f("block_bytes", pl.Int64, "B", "size of its block on the device; null where it is not recorded"),
        _f("device", NAME, "", "device"),
        _f("stream", pl.Int64, "", "stream it was allocated on"),
        _f("address", pl.Int64, "", "address on the device"),
        _f("pid", pl.Int64, "", "process that allocated it, where its host slices give the stack"),
        _f("tid", pl.Int64, "", "thread that allocated it"),
        _f("stack", NAME, "", "Python stack, one line per frame (file:line function), innermost first"),
        _f("rank", pl.Int64, "", "rank of the job this recording belongs to"),
    ),
    "cycles": (
        _f("cycle", pl.Int64, "", "number of the cycle as recorded"),
        _f("start_ns", pl.Int64, "ns", "start; null for runs of launches without timestamps"),
        _f("dur_ns", pl.Int64, "ns", "duration"),
        _f("first_index", pl.Int64, "", "first launch in it (kernels.index); null where not counted"),
        _f("last_index", pl.Int64, "", "last launch in it"),
        _f("label", NAME, "", "what was recorded: ProfilerStep#5, Scheduler.run_batch"),
        _f("kind", NAME, "", "step, prefill or decode"),
        _f("rank", pl.Int64, "", "rank of the job this recording belongs to"),
        _f("source", NAME, "", "where the cycle was taken from: recorded, annotation, anchor, execution, pattern"),
        _f("complete", pl.Boolean, "", "false where the recorder did not see the whole cycle"),
    ),
    "profile": (
        _f("cycle", pl.Int64, "", "number of the cycle"),
        _f("cycle_ns", pl.Int64, "ns", "duration of the cycle (of its anchor)"),
        _f("cycle_start_ns", pl.Int64, "ns", "start of the cycle"),
        _f("anchor", NAME, "", "function the cycle was taken from"),
        _f("pid", pl.Int64, "", "process"),
        _f("host", NAME, "", "host name"),
        _f("function", NAME, "", "function as recorded"),
        _f("kind", NAME, "", "kind of function as recorded: kernel, collective, memcpy, oncpu, runq, disk, ..."),
        _f("metric", NAME, "", "metric; null where none belongs to the function"),
        _f("device", NAME, "", "device, 'GPU 0' or 'Host'"),
        _f("beta", pl.Float64, "%", "summed duration of the function in the cycle / cycle duration x 100"),
        _f("mu", pl.Float64, "", "mean of the metric during the function, on the reference's scale (100 x unit)"),
        _f("sigma", pl.Float64, "", "pooled standard deviation, same scale"),
        _f("dur_ns", pl.Int64, "ns", "summed duration of the function in the cycle"),
        _f("instances", pl.Int64, "", "launches of the function in the cycle"),
        _f("interpolated", pl.Boolean, "", "true where fewer than three samples fell inside an event"),
        _f("rank", pl.Int64, "", "rank of the job this recording belongs to"),
    ),
    "operators": (
        _f("name", NAME, "", "operator"),
        _f("calls", pl.Int64, "", "calls"),
        _f("device_self_ns", pl.Int64, "ns", "device time of kernels launched by the operator itself"),
        _f("device_total_ns", pl.Int64, "ns", "device time including its children"),
        _f("host_self_ns", pl.Int64, "ns", "host time outside its children"),
        _f("host_total_ns", pl.Int64, "ns", "host time"),
        _f("tc_eligible", pl.Boolean, "", "whether the operator may use tensor cores"),
        _f("tc_self_ratio", pl.Float64, "fraction", "tensor-core share of its own kernels' time"),
        _f("tc_total_ratio", pl.Float64, "fraction", "tensor-core share of its and its children's kernels' time"),
    ),
    "kernel_stats": (
        _f("name", NAME, "", "name as recorded"),
        _f("kind", NAME, "", "kernel, collective, memcpy or memset"),
        _f("device", NAME, "", "device"),
        _f("count", pl.Int64, "", "launches"),
        _f("total_ns", pl.Int64, "ns", "summed duration"),
        _f("mean_ns", pl.Float64, "ns", "mean duration"),
        _f("p50_ns", pl.Int64, "ns", "median duration"),
        _f("min_ns", pl.Int64, "ns", "shortest"),
        _f("max_ns", pl.Int64, "ns", "longest"),
        _f("bytes", pl.Int64, "B", "bytes moved by copies or sets"),
        _f("tensor_cores", pl.Boolean, "", "whether the report says it uses tensor cores"),
        _f("rank", pl.Int64, "", "rank of the job; this and what follows only in a reduced dataset"),
        _f("p99_ns", pl.Int64, "ns", "99% of the launches take at most this long (nearest rank)"),
        _f("tensor", pl.Float64, "fraction", "tensor-core utilisation weighted by duration, 0-1"),
        _f("dram", pl.Float64, "fraction", "DRAM throughput weighted by duration, 0-1"),
        _f("trend", pl.List(pl.Int64), "", "launches by latency, log axis from shortest to longest"),
        _f("groups", pl.Int64, "", "groups of clearly different launches under the name"),
        _f("op", NAME, "", "operator that launched it most often"),
    ),
    "host_stats": (
        _f("name", NAME, "", "call or range as recorded"),
        _f("kind", NAME, "", "as in host: runtime, driver, sched, io or annotation"),
        _f("count", pl.Int64, "", "calls or ranges"),
        _f("total_ns", pl.Int64, "ns", "summed duration"),
        _f("mean_ns", pl.Float64, "ns", "mean duration"),
        _f("p50_ns", pl.Int64, "ns", "median duration"),
        _f("min_ns", pl.Int64, "ns", "shortest"),
        _f("max_ns", pl.Int64, "ns", "longest"),
    ),
    "breakdown": (
        _f("step", NAME, "", "step the time belongs to; null for the mean per step"),
        _f("category", NAME, "", "Kernel, Memcpy, Memset, Communication, Runtime, DataLoader, CPU Exec or Other"),
        _f("time_ns", pl.Int64, "ns", "time"),
        _f("rank", pl.Int64, "", "rank of the job, in a reduced dataset"),
    ),
    "comparison": (
        _f("function", NAME, "", "function"),
        _f("metric", NAME, "", "metric"),
        _f("device", NAME, "", "device"),
        *(
            _f(name, pl.Float64, "", "column of a finished comparison, on the reference's scale")
            for name in (
                "suspicion beta_a beta_b delta_beta z_beta p_beta u_beta mu_a mu_b delta_mu z_mu z_log_mu p_mu u_mu"
            ).split()
        ),
        _f("pid_a", pl.Int64, "", "process in A"),
        _f("pid_b", pl.Int64, "", "process in B"),
    ),
    "rank_sums": (
        _f("rank", pl.Int64, "", "rank of the job; this and the tables below are those of a reduced dataset"),
        _f("host", pl.String, "", "machine it ran on"),
        _f("source", pl.String, "", "recording it was reduced from"),
        _f("epoch_ns", pl.Int64, "ns", "absolute time of the zero its times count from; null where not recorded"),
        _f("bytes", pl.Int64, "B", "size of that recording"),
        _f("label", pl.String, "", "what its cycles were taken from"),
        _f("before", pl.Int64, "", "device activities before its first cycle"),
        _f("elsewhere", pl.Int64, "", "device activities between or after its cycles"),
        _f("in_cycles_ns", pl.Int64, "ns", "device time that belongs to its cycles"),
        _f("activities_ns", pl.Int64, "ns", "device time in all"),
        _f("windows", pl.Int64, "", "windows its breakdown is over: cycles seen whole, or the recording as one"),
        _f("windows_ns", pl.Int64, "ns", "time in those windows"),
        _f("whole_run", pl.Boolean, "", "whether the recording is the one window, for want of cycles"),
        _f("launched", pl.Int64, "", "device activities whose launch is recorded"),
        _f("early", pl.Int64, "", "of those, how many begin before their launch"),
        _f("host_recorded", pl.Boolean, "", "whether anything was recorded on its host"),
    ),
    "device_sums": (
        _f("rank", pl.Int64, "", "rank of the job"),
        _f("device", NAME, "", "device"),
        _f("window_ns", pl.Int64, "ns", "from its first to its last activity"),
        _f("busy_ns", pl.Int64, "ns", "time in which it ran anything"),
        _f("idle_ns", pl.Int64, "ns", "time between in which it ran nothing"),
        _f("gaps", pl.Int64, "", "stretches of idle time"),
        _f("comm_ns", pl.Int64, "ns", "time in which a collective ran; null where it ran no kernel"),
        _f("exposed_ns", pl.Int64, "ns", "of it while nothing was computed"),
        _f("steps_ns", pl.Int64, "ns", "time of the windows the gauges are over; null where it has none"),
        _f("steps_busy_ns", pl.Int64, "ns", "time in them with a kernel running"),
        _f("steps_kernel_ns", pl.Int64, "ns", "summed kernel time in them"),
        _f("steps_comm_ns", pl.Int64, "ns", "time in them in which a collective ran"),
        _f("steps_exposed_ns", pl.Int64, "ns", "of it while nothing was computed"),
        _f("sm_efficiency", pl.Float64, "fraction", "estimated, over those windows, 0-1"),
        _f("occupancy", pl.Float64, "fraction", "estimated, over kernel time, 0-1"),
        _f("tensor_share", pl.Float64, "fraction", "of the kernel time on tensor cores, 0-1"),
        _f("memory_peak", pl.Float64, "B", "most device memory allocated, where sampled"),
        _f("memory_reserved", pl.Float64, "B", "most device memory the allocator had taken, where sampled"),
        _f("memory_total", pl.Float64, "B", "memory the device has, where recorded"),
    ),
    "cycle_device_sums": (
        _f("rank", pl.Int64, "", "rank of the job"),
        _f("device", NAME, "", "device"),
        _f("cycle", pl.Int64, "", "number of the cycle; figures are of the activities launched in it"),
        _f("busy_ns", pl.Int64, "ns", "time in which any of them ran"),
        _f("comm_ns", pl.Int64, "ns", "time in which a collective ran; null where no kernel belongs to the cycle"),
        _f("exposed_ns", pl.Int64, "ns", "of it while nothing was computed"),
        _f("memory_peak", pl.Float64, "B", "most device memory allocated in the cycle's window, where sampled"),
        _f("memory_reserved", pl.Float64, "B", "most device memory the allocator had taken in it, where sampled"),
        _f("memory_total", pl.Float64, "B", "memory the device has, where recorded"),
    ),
    "cycle_sums": (
        _f("rank", pl.Int64, "", "rank of the job"),
        _f("cycle", pl.Int64, "", "number of the cycle; a row of this table is one of the table cycles"),
        _f("start_ns", pl.Int64, "ns", "start of the cycle"),
        _f("window_start_ns", pl.Int64, "ns", "where its window begins: its start, or the end of the window before"),
        _f("window_end_ns", pl.Int64, "ns", "its end, or that of the last activity launched in it"),
        _f("records", pl.Int64, "", "device activities that belong to it"),
        _f("busy_ns", pl.Int64, "ns", "time in its window in which devices ran anything, mean of devices"),
    ),
    "collectives": (
        _f("index", pl.Int64, "", "number of the launch in its recording"),
        _f("start_ns", pl.Int64, "ns", "start"),
        _f("dur_ns", pl.Int64, "ns", "duration"),
        _f("name", NAME, "", "name of the kernel as recorded"),
        _f("device", NAME, "", "device"),
        _f("stream", pl.Int64, "", "stream or queue"),
        _f("rank", pl.Int64, "", "rank of the job"),
        _f("cycle", pl.Int64, "", "cycle it was launched in; null outside of cycles"),
        _f("collective", NAME, "", "what it does, as recorded"),
        _f("process_group", NAME, "", "process group, as recorded"),
        _f("group_ranks", NAME, "", "ranks of that group, as far as recorded"),
        _f("group_size", pl.Int64, "", "how many ranks the group has"),
        _f("dtype", NAME, "", "type of its elements, as recorded"),
        _f("in_elements", pl.Int64, "", "elements a rank gives"),
        _f("out_elements", pl.Int64, "", "elements a rank gets"),
        _f("seq", pl.Int64, "", "number of it within its process group"),
        _f("exposed_ns", pl.Int64, "ns", "of it while its device computed nothing"),
        _f("before_ns", pl.Int64, "ns", "from the end of the device's previous collective to its start"),
        _f("work_ns", pl.Int64, "ns", "of that, computing"),
        _f("copies_ns", pl.Int64, "ns", "of that, copying and not computing"),
        _f("loading_ns", pl.Int64, "ns", "of that, with the host waiting for input"),
        _f("unlaunched_ns", pl.Int64, "ns", "of that, until the host had launched the collective"),
    ),
    "idle_causes": (
        _f("rank", pl.Int64, "", "rank of the job"),
        _f("device", NAME, "", "device that waited"),
        _f("cause", NAME, "", "why"),
        _f("total_ns", pl.Int64, "ns", "idle time with that cause"),
    ),
    "idle_gaps": (
        _f("rank", pl.Int64, "", "rank of the job"),
        _f("device", NAME, "", "device that waited"),
        _f("start_ns", pl.Int64, "ns", "start; the longest gaps of each rank are here, not all"),
        _f("dur_ns", pl.Int64, "ns", "length"),
        _f("cause", NAME, "", "the cause most of it had"),
        _f("cause_ns", pl.Int64, "ns", "how much of it had that cause"),
        _f("before", NAME, "", "activity that ended when it began"),
        _f("after", NAME, "", "activity that ended it"),
        _f("call", NAME, "", "call that launched that one"),
        _f("op", NAME, "", "operator that launched it"),
        _f("frame", NAME, "", "Python frame around the operator"),
        _f("drained_by", NAME, "", "what last waited for the device before it"),
        _f("drain_ns", pl.Int64, "ns", "how long that waited"),
        _f("cycle", pl.Int64, "", "cycle of the activity that ended it"),
        _f("index", pl.Int64, "", "number of that launch in its recording"),
    ),
    "findings": (
        _f("rank", pl.Int64, "", "rank of the job"),
        _f("rule", NAME, "", "rule that found it"),
        _f("severity", NAME, "", "problem, hint, fact or unchecked"),
        _f("sentence", pl.String, "", "what it says of this rank"),
        _f("cost_ns", pl.Float64, "ns", "time it is about, where there is one: orders findings, predicts nothing"),
        _f("view", NAME, "", "view that shows it"),
        _f("filter", pl.String, "", "filter that shows it there"),
    ),
    "history": (
        _f("run", pl.Int64, "", "which of many runs, from 0 in their order"),
        _f("cycle_kind", NAME, "", "kind of the cycles: step, prefill, decode; recording where a run has none"),
        _f("kind", NAME, "", "kernel, collective, copy, op or idle"),
        _f("name", NAME, "", "name as recorded; of idle time its cause"),
        _f("ns", pl.Float64, "ns", "time per cycle and rank"),
        _f("count", pl.Float64, "", "launches or calls per cycle and rank"),
    ),
}


@cache
def empty(table: str) -> pl.LazyFrame:
    """The table with its columns and no rows; always the same object, so callers can test for it with ``is``."""
    return pl.LazyFrame(schema=polars_schema(table))


@cache
def polars_schema(table: str) -> Mapping[str, pl.DataType]:
    """Column → dtype of one table, in order."""
    return MappingProxyType({field.name: field.dtype for field in TABLES[table]})


def columns_of(frame: pl.LazyFrame | pl.DataFrame) -> pl.Schema:
    """Column → dtype of a frame that other threads may be using. ``frame.collect_schema()`` on the frame itself can
    deadlock: polars locks the frame and waits for the GIL, held by a thread that waits for the frame (``pl.concat``,
    polars 2.1). A clone has its own lock."""
    return frame.clone().collect_schema()


def conform(table: str, frame: pl.LazyFrame) -> pl.LazyFrame:
    """The frame with exactly the table's columns, in order: missing ones null, all cast to the table's dtypes. A frame
    without columns becomes an empty table."""
    if not (have := columns_of(frame)):
        return empty(table)  # selecting only literals would produce one row of nulls
    return frame.select(_column(field, have.get(field.name)) for field in TABLES[table])


def _column(field: Field, dtype: pl.DataType | None) -> pl.Expr:
    if dtype is None:
        return pl.lit(None, field.dtype).alias(field.name)
    column = pl.col(field.name)
    return column if dtype == field.dtype else column.cast(field.dtype)
