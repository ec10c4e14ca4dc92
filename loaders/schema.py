"""The columns of every table a Trace holds: name, dtype, unit and one line of meaning.

This is the only place that says what a table looks like; the README's data model section is rendered from it and the
conformance test checks every loader against it. Times are Int64 nanoseconds from the start of the trace. A value nobody
measured is null, never 0. Names are stored exactly as recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

import polars as pl
from msgspec import Struct

NAME = pl.Categorical()
"""Strings with few distinct values over many rows: kernel names, metric names, devices."""


class Field(Struct, frozen=True):
    """One column of a table: its name, polars dtype, unit ('' where it has none) and meaning."""

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
    "cycles": (
        _f("cycle", pl.Int64, "", "number of the cycle as recorded"),
        _f("start_ns", pl.Int64, "ns", "start; null for runs of launches without timestamps"),
        _f("dur_ns", pl.Int64, "ns", "duration"),
        _f("first_index", pl.Int64, "", "first launch in it (kernels.index); null where not counted"),
        _f("last_index", pl.Int64, "", "last launch in it"),
        _f("label", NAME, "", "what was recorded: ProfilerStep#5, Scheduler.run_batch"),
        _f("kind", NAME, "", "step, prefill or decode"),
        _f("rank", pl.Int64, "", "rank of the job this recording belongs to"),
        _f("source", NAME, "", "where the cycle was taken from: recorded, annotation, anchor, pattern"),
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
}


@cache
def empty(table: str) -> pl.LazyFrame:
    """The table with its columns and no rows; the same object each time, so that it can be told by that."""
    return pl.LazyFrame(schema=polars_schema(table))


@cache
def polars_schema(table: str) -> Mapping[str, pl.DataType]:
    """Column → dtype of one table, in order."""
    return MappingProxyType({field.name: field.dtype for field in TABLES[table]})


def conform(table: str, frame: pl.LazyFrame) -> pl.LazyFrame:
    """The frame with exactly the table's columns in order: missing ones null, all cast to the table's dtypes."""
    have = frame.collect_schema()
    return frame.select(_column(field, have.get(field.name)) for field in TABLES[table])


def _column(wanted: Field, dtype: pl.DataType | None) -> pl.Expr:
    if dtype is None:
        return pl.lit(None, wanted.dtype).alias(wanted.name)
    column = pl.col(wanted.name)
    return column if dtype == wanted.dtype else column.cast(wanted.dtype)
