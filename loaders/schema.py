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

from .schema_reduced import NAME as NAME
from .schema_reduced import REDUCED_TABLES
from .schema_reduced import Field as Field
from .schema_reduced import column as _f

TABLES: dict[str, tuple[Field, ...]] = {
    "kernels": (
        _f("index", pl.Int64, "", "recorded order of launches, from 0"),
        _f("start_ns", pl.Int64, "ns", "start; null where the format has no timestamps"),
        _f("dur_ns", pl.Int64, "ns", "duration"),
        _f("name", NAME, "", "name as recorded"),
        _f("kind", NAME, "", "kernel, collective, memcpy, memset or sync"),
        _f("device", NAME, "", "device, as 'GPU 0'; null where the input names none"),
        _f("stream", pl.Int64, "", "stream or queue"),
        _f("lane", pl.Int64, "", "process id of its lane as recorded, where it is not the number of the device"),
        _f("pid", pl.Int64, "", "process that launched it, where recorded"),
        _f("rank", pl.Int64, "", "rank of the job this recording belongs to"),
        _f("correlation", pl.Int64, "", "correlation id, shared with the runtime call that launched it"),
        _f("op_id", pl.Int64, "", "External id as recorded, which may be that of an operator"),
        _f("flow", pl.Int64, "", "row in host of the call at which a recorded flow to it begins"),
        _f("graph", pl.Int64, "", "id of the graph (or graph launch) it was replayed by; null outside graphs"),
        _f("grid", NAME, "", "grid size as 'x,y,z'"),
        _f("block", NAME, "", "block size as 'x,y,z'"),
        _f("registers", pl.Int32, "", "registers per thread"),
        _f("shared_bytes", pl.Int64, "B", "shared memory per block"),
        _f("occupancy", pl.Float32, "fraction", "estimated achieved occupancy, 0-1"),
        _f("blocks_per_sm", pl.Float32, "", "blocks per SM"),
        _f("bytes", pl.Int64, "B", "bytes moved by a copy or memset"),
        _f("by", NAME, "", "what makes it a collective: record, setting, name, shape; null for other activities"),
        _f("collective", NAME, "", "what a collective does, as recorded: allreduce, _allgather_base, all_to_allv"),
        _f("process_group", NAME, "", "process group of a collective, as recorded"),
        _f("group_ranks", NAME, "", "ranks of that group as '0,1,2', as far as recorded"),
        _f("group_size", pl.Int64, "", "number of ranks in the group"),
        _f("dtype", NAME, "", "type of a collective's elements, as recorded: Float, BFloat16"),
        _f("in_elements", pl.Int64, "", "elements each rank contributes"),
        _f("out_elements", pl.Int64, "", "elements each rank receives"),
        _f("seq", pl.Int64, "", "sequence number of the collective in its process group"),
        _f("src_rank", pl.Int64, "", "rank in its group that sends, of a send or receive"),
        _f("dst_rank", pl.Int64, "", "rank in its group that receives"),
        _f("tensor", pl.Float32, "fraction", "tensor-core utilisation, share of peak, 0-1"),
        _f("dram", pl.Float32, "fraction", "DRAM throughput, share of peak, 0-1"),
        _f("op_type", NAME, "", "operator type as recorded (Ascend's OP Type)"),
        _f("op_module", NAME, "", "program of the XLA op that launched it, from the HLO that the profile carries"),
        _f("op_name", NAME, "", "that op: its instruction in the program"),
        _f("op_scope", NAME, "", "its scopes, as in jit(step)/layer_0/dot_general"),
        _f("op_dtype", NAME, "", "type that its matrix products multiply: bf16, fp32; null without any"),
        _f("op_flops", pl.Int64, "", "FLOPs of one execution of the op"),
        _f("op_bytes", pl.Int64, "B", "bytes of its operands and result"),
        _f("op_line", NAME, "", "line of the program that it came from, file:line"),
        _f("core", NAME, "", "core that ran it, as recorded: AI_CORE, AI_VECTOR_CORE"),
        _f("offset", pl.Int64, "B", "byte offset of its arguments in the (decompressed) source, or record number"),
    ),
    "host": (
        _f("index", pl.Int64, "", "recorded order of slices, from 0"),
        _f("start_ns", pl.Int64, "ns", "start"),
        _f("dur_ns", pl.Int64, "ns", "duration"),
        _f("name", NAME, "", "name as recorded"),
        _f("kind", NAME, "", "op, runtime, driver, python, annotation, sched, io, overhead or dataloader"),
        _f("pid", pl.Int64, "", "process"),
        _f("tid", pl.Int64, "", "thread"),
        _f("rank", pl.Int64, "", "rank of the job this recording belongs to"),
        _f("correlation", pl.Int64, "", "correlation id, shared with the device activity it launched"),
        _f("external_id", pl.Int64, "", "external id, shared with its calls and activities; negative: made by the "
           "reader from a link that the recording names"),
        _f("sequence", pl.Int64, "", "sequence number, shared by a backward operator and its forward operator"),
        _f("forward_tid", pl.Int64, "", "thread of the forward operator; null unless it is a backward operator"),
        _f("parent", pl.Int64, "", "row in this table of the innermost slice around it on its thread"),
        _f("depth", pl.Int32, "", "nesting depth on its thread, 0 outermost; null for slices that are not calls"),
        _f("self_ns", pl.Int64, "ns", "time as the innermost slice of its thread"),
        _f("kernel", NAME, "", "kernel that the call launches, where the recorder names it there"),
        _f("shapes", NAME, "", "input shapes of an operator as recorded, JSON; null where not recorded"),
        _f("types", NAME, "", "types of these inputs, JSON"),
        _f("inputs", NAME, "", "values of its non-tensor inputs, JSON array of strings"),
        _f("crosses", pl.Boolean, "", "true where it ends after the slice in which it begins, so not nested in it"),
        _f("offset", pl.Int64, "B", "byte offset of the event in the (decompressed) source, for full arguments"),
        _f("domain", NAME, "", "NVTX domain of a range; null for the default domain"),
        _f("category", NAME, "", "NVTX category of a range; null for none"),
    ),
    "metrics": (
        _f("ts_ns", pl.Int64, "ns", "time of the sample"),
        _f("metric", NAME, "", "counter name"),
        _f("device", NAME, "", "device, 'GPU 0' or 'Host'"),
        _f("value", pl.Float64, "", "value in its natural unit"),
        _f("unit", NAME, "", "unit of the value: MHz, B/s, W, %, C, B or ''"),
        _f("pid", pl.Int64, "", "process of the sample; null for the whole machine"),
        _f("rank", pl.Int64, "", "rank of the job this recording belongs to"),
        _f("dur_ns", pl.Int64, "ns", "how long the value holds; null for the value of a moment"),
        _f("kind", NAME, "", "event or mixed for numbers without a mean; null for all others"),
    ),
    "call_chains": (
        _f("start_ns", pl.Int64, "ns", "time of the CPU sample, or start of the call"),
        _f("dur_ns", pl.Int64, "ns", "duration of the call; null for a sample"),
        _f("call", NAME, "", "OS library call; null for a sample"),
        _f("pid", pl.Int64, "", "process"),
        _f("tid", pl.Int64, "", "thread"),
        _f("rank", pl.Int64, "", "rank of the job this recording belongs to"),
        _f("state", NAME, "", "state of the sampled thread, as recorded"),
        _f("function", NAME, "", "innermost function; '[module]' where it has no symbol"),
        _f("stack", NAME, "", "its callers, one line per frame ('function (module)'), innermost first"),
    ),
    "launch_metrics": (
        _f("index", pl.Int64, "", "launch it was measured on (kernels.index)"),
        _f("section", NAME, "", "section of the tool's report, or hardware block; null where none is named"),
        _f("metric", NAME, "", "name as recorded"),
        _f("value", pl.Float64, "", "value in its unit; null where it is not a number"),
        _f("unit", NAME, "", "ns, B, B/s, Hz, % or as recorded; null for a plain number"),
        _f("text", NAME, "", "value as recorded where it is not a number: n/a, Not Available"),
    ),
    "launch_rules": (
        _f("index", pl.Int64, "", "launch the rule refers to (kernels.index)"),
        _f("section", NAME, "", "section of the report the rule belongs to, as recorded"),
        _f("rule", NAME, "", "name of the rule; null in text reports, which have none"),
        _f("kind", NAME, "", "OPT, WRN or INF, as recorded"),
        _f("message", pl.String, "", "what the rule says"),
        _f("speedup", pl.Float64, "fraction", "speed-up estimated by the tool, 0-1; null where it gives none"),
        _f("scope", NAME, "", "scope of that estimate: global (the kernel's run time) or local (one bottleneck)"),
    ),
    "enqueued": (
        _f("rank", pl.Int64, "", "rank that called it"),
        _f("process_group", NAME, "", "process group, as recorded"),
        _f("description", NAME, "", "what the program calls the group"),
        _f("group_ranks", NAME, "", "ranks of the group as '0,1,2'"),
        _f("record", pl.Int64, "", "its place among the calls of the rank"),
        _f("seq", pl.Int64, "", "sequence number in the group, of messages in the pair"),
        _f("name", NAME, "", "collective, as recorded: all_reduce, _all_gather_base; send and recv"),
        _f("message", pl.Boolean, "", "whether it is a send or a receive"),
        _f("src_rank", pl.Int64, "", "source of a message, counted in the group"),
        _f("dst_rank", pl.Int64, "", "target of a message, counted in the group"),
        _f("sizes", NAME, "", "sizes of its inputs"),
        _f("dtype", NAME, "", "types of its inputs"),
        _f("state", NAME, "", "scheduled, started or completed; status: a row on how far a group is"),
        _f("timed", pl.Boolean, "", "whether its begin on the device was seen"),
        _f("start_ns", pl.Int64, "ns", "when it was called"),
        _f("line", NAME, "", "line of the program that called it"),
        _f("stack", NAME, "", "its callers, one line per frame, innermost first"),
        _f("last_scheduled", pl.Int64, "", "of a status: number of the last collective of the group that was called"),
        _f("last_started", pl.Int64, "", "of a status: number of the last one that began"),
        _f("last_completed", pl.Int64, "", "of a status: number of the last one that ended"),
    ),
    "allocations": (
        _f("start_ns", pl.Int64, "ns", "time of allocation; null if before the recording"),
        _f("dur_ns", pl.Int64, "ns", "time until it was freed, from its allocation or the start of the recording; null "
           "while held"),
        _f("bytes", pl.Int64, "B", "requested size; the block's size where that is not recorded"),
        _f("block_bytes", pl.Int64, "B", "size of its block on the device; null where not recorded"),
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
        _f("label", NAME, "", "recorded name: ProfilerStep#5, Scheduler.run_batch"),
        _f("kind", NAME, "", "step, prefill or decode"),
        _f("rank", pl.Int64, "", "rank of the job this recording belongs to"),
        _f("source", NAME, "", "how the cycle was found: recorded, annotation, anchor, execution, pattern"),
        _f("complete", pl.Boolean, "", "false where the cycle was only partly recorded"),
    ),
    "profile": (
        _f("cycle", pl.Int64, "", "number of the cycle"),
        _f("cycle_ns", pl.Int64, "ns", "duration of the cycle (of its anchor)"),
        _f("cycle_start_ns", pl.Int64, "ns", "start of the cycle"),
        _f("anchor", NAME, "", "function that marks the cycle"),
        _f("pid", pl.Int64, "", "process"),
        _f("host", NAME, "", "host name"),
        _f("function", NAME, "", "function as recorded"),
        _f("kind", NAME, "", "kind of function as recorded: kernel, collective, memcpy, oncpu, runq, disk, ..."),
        _f("metric", NAME, "", "metric; null where the function has none"),
        _f("device", NAME, "", "device, 'GPU 0' or 'Host'"),
        _f("beta", pl.Float64, "%", "summed duration of the function in the cycle / cycle duration × 100"),
        _f("mu", pl.Float64, "", "mean of the metric during the function, on the reference's scale (100 × unit)"),
        _f("sigma", pl.Float64, "", "pooled standard deviation, same scale"),
        _f("dur_ns", pl.Int64, "ns", "summed duration of the function in the cycle"),
        _f("instances", pl.Int64, "", "launches of the function in the cycle"),
        _f("interpolated", pl.Boolean, "", "true where an event had fewer than three samples"),
        _f("rank", pl.Int64, "", "rank of the job this recording belongs to"),
    ),
    "operators": (
        _f("name", NAME, "", "operator"),
        _f("calls", pl.Int64, "", "calls"),
        _f("device_self_ns", pl.Int64, "ns", "device time of the kernels it launched itself"),
        _f("device_total_ns", pl.Int64, "ns", "device time including the operators it called"),
        _f("host_self_ns", pl.Int64, "ns", "host time excluding the operators it called"),
        _f("host_total_ns", pl.Int64, "ns", "host time"),
        _f("tc_eligible", pl.Boolean, "", "whether the operator can use tensor cores"),
        _f("tc_self_ratio", pl.Float64, "fraction", "share of its own kernels' time on tensor cores"),
        _f("tc_total_ratio", pl.Float64, "fraction", "share of its total kernel time on tensor cores"),
    ),
    "kernel_stats": (
        _f("name", NAME, "", "name as recorded"),
        _f("kind", NAME, "", "kernel, collective, memcpy or memset"),
        _f("device", NAME, "", "device"),
        _f("count", pl.Int64, "", "launches"),
        _f("total_ns", pl.Int64, "ns", "summed duration"),
        _f("mean_ns", pl.Float64, "ns", "mean duration"),
        _f("p50_ns", pl.Int64, "ns", "median duration"),
        _f("min_ns", pl.Int64, "ns", "shortest launch"),
        _f("max_ns", pl.Int64, "ns", "longest launch"),
        _f("bytes", pl.Int64, "B", "bytes moved by copies or memsets"),
        _f("tensor_cores", pl.Boolean, "", "whether the report says it uses tensor cores"),
        _f("rank", pl.Int64, "", "rank of the job; this and the columns below only in a reduced dataset"),
        _f("p99_ns", pl.Int64, "ns", "99th percentile (nearest rank)"),
        _f("tensor", pl.Float64, "fraction", "tensor-core utilisation weighted by duration, 0-1"),
        _f("dram", pl.Float64, "fraction", "DRAM throughput weighted by duration, 0-1"),
        _f("trend", pl.List(pl.Int64), "", "histogram of launch durations, log axis from shortest to longest"),
        _f("groups", pl.Int64, "", "distinct groups of launches under the name"),
        _f("op", NAME, "", "operator that launched it most often"),
    ),
    "host_stats": (
        _f("name", NAME, "", "call or range as recorded"),
        _f("kind", NAME, "", "as in host: runtime, driver, sched, io or annotation"),
        _f("rank", pl.Int64, "", "rank of the job, where the sums are of one"),
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
    **REDUCED_TABLES,
}


def is_work() -> pl.Expr:
    """Whether a row of ``kernels`` is work of the device: all but the records of a stream or event being waited for."""
    return pl.col("kind") != "sync"


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
