"""Collectives: what communication costs, at which bandwidth, and which rank is last.

One row per kind, kernel, group, type and size. Times are sums over all ranks: ``wait_ns`` until the last rank arrived,
``transfer_ns`` each collective's shortest duration, counted for every rank. Bandwidths use the median transfer, bytes
are counted as in nccl-tests. The analysis is imported on demand: a cached answer does not need it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl
from msgspec.structs import replace

from ...loaders.trace import REDUCED, Trace
from ..contract.column import Column, pair_columns
from ..contract.options import Options, Side
from ..contract.sections import Section
from ..contract.view import Answer, CannotAnswer, Runs, View
from ..core import units
from ..cycles.paired import OneRun, paired

if TYPE_CHECKING:
    from ..communication.arrivals import Arrivals
    from ..cycles.whole import WholeCycles

COLUMNS = (
    Column("kind", "collective", "text", "operation, from its recorded name, else from the kernel name", width=13,
           order=0, pinned=True, pairs="key"),
    Column("name", "kernel", "text", "kernel that ran it", width=24, order=6, elastic=True, role="name"),
    Column("group", "group", "text", "process group as recorded", width=7, order=5, role="where", pairs="key"),
    Column("ranks", "ranks", "number", "number of ranks in its group; if not recorded, of those that took part",
           width=5, order=4, role="where", pairs="key"),
    Column("pair", "from→to", "text", "of a message: the ranks of its group that send and receive", width=7, order=5,
           role="where", pairs="key"),
    Column("dtype", "type", "text", "type of the elements", width=9, order=5, role="where", pairs="key"),
    Column("bytes", "size", "bytes", "message size per rank as nccl-tests counts it; the median where it varies",
           width=9, order=1, role="label", pairs="key"),
    Column("count", "count", "count", "collectives; one across several ranks counts once", width=7, order=2,
           role="count", pairs="shared"),
    Column("total_ns", "total", "ns", "summed duration on all ranks", width=10, order=0, role="time", pairs="sum"),
    Column("exposed_ns", "exposed", "ns", "time not overlapped with computation on its device", width=10, order=2,
           pairs="sum"),
    Column("wait_ns", "wait", "ns", "time before the last rank arrived (empty where no other rank recorded it)",
           width=10, order=1, pairs="sum"),
    Column("transfer_ns", "transfer", "ns", "shortest duration among the ranks, counted for every rank", width=10,
           order=3, pairs="sum"),
    Column("algbw", "algorithm", "rate", "algorithm bandwidth: size / median transfer", width=10, order=4),
    Column("busbw", "bus", "rate", "bus bandwidth: algorithm bandwidth × the collective's factor", width=10, order=2),
    Column("last_rank", "last", "number", "rank that arrived last most often", width=5, order=1),
    Column("trend", "duration", "trend", "durations on a log axis, shortest to longest", width=12, order=6),
    Column("last_share", "last at", "fraction", "share of the collectives at which that rank arrived last", width=8,
           order=3, of="of the collectives"),
    Column("last_device", "last device", "text", "device of that rank", width=11, order=None),
    Column("last_lead_ns", "behind", "ns", "median lag of the last rank behind the second last", width=9, order=7),
    Column("p50_ns", "p50", "ns", "median transfer", width=9, order=7),
    Column("outliers", "outliers", "count", "transfers above the upper quartile + 1.5 IQR and 5% above the median",
           width=8, order=8),
    Column("imbalance", "uneven", "ratio", "largest message / mean over all ranks; 1 is balanced", width=7, order=8),
    Column("launches", "launches", "count", "its kernel launches on all ranks", width=8, order=None),
)


def build(runs: Runs, options: Options) -> Answer:
    """The collectives of one run by total time, or of two runs by the size of the change."""
    if len(runs) == 1:
        return _one(runs[0], options, "a").answer()
    return paired(runs, options, COLUMNS, partial(_one, by_name=False), _in_cycles)


def _in_cycles(cycles: WholeCycles, options: Options, side: Side) -> pl.DataFrame:
    """The rows of the collectives in the cycles, matched over the whole run: by their order among those in the cycles
    alone, one that lies in another cycle on another device would shift all that follow."""
    from ..communication.arrivals import arrivals_of
    from ..communication.by_kind import by_kind

    run = cycles.run
    if cycles.scoped or REDUCED in run.info.facts:
        return _one(cycles.part, options, side, by_name=False).frame
    inside = cycles.part.kernels.select("index").collect(engine="streaming")["index"]
    arrivals = arrivals_of(run)
    arrivals = replace(arrivals, frame=arrivals.frame.filter(pl.col("index").is_in(inside.implode())))
    return by_kind(run, arrivals, by_name=False).select(column.name for column in COLUMNS)


def _one(run: Trace, options: Options, side: Side, by_name: bool = True) -> OneRun:
    from msgspec import to_builtins

    from ..communication.arrivals import arrivals_of
    from ..communication.by_kind import by_kind
    from ..communication.calls import each_call, last_rank
    from ..communication.recognised import fused_sentence, shape_sentence
    from ..communication.recorded import recorded_times, summed
    from ..cycles.detection import view_cycles
    from ..cycles.reduced import lacking
    from ..cycles.step_facts import step_by_rank

    arrivals = arrivals_of(run)
    frame = by_kind(run, arrivals, by_name).select(column.name for column in COLUMNS)
    if frame.is_empty() and run.has("enqueued"):
        return OneRun(_called(run, frame.schema), notes=(
            "From dumps of a flight recorder: what was called, not how long it took. `ranks` says where it hangs.",))
    if frame.is_empty() and not _timed(run):
        raise CannotAnswer(f"{run.info.label} holds no activities of devices with times, so no collectives.")
    notes = (*_notes(arrivals), *lacking(run))
    recorded = recorded_times(run)
    facts = facts_of(run, arrivals) | ({"recorded": [to_builtins(one) for one in recorded]} if recorded else {})
    cycles = view_cycles(run, options)
    once = cycles.frame.group_by("rank").len().filter(pl.col("len") == 1)["rank"].to_list()
    steps = step_by_rank(cycles)
    facts["calls"] = each_call(arrivals, {rank: steps[rank] for rank in once if rank in steps})
    late = last_rank(arrivals)
    said = (shape_sentence(run), *_summary(frame, late), fused_sentence(facts["fused"]))
    return OneRun(frame, facts, notes=notes, sums=(*filter(None, said), *([summed(recorded)] if recorded else [])))


def _called(run: Trace, schema: pl.Schema) -> pl.DataFrame:
    """The collectives and messages that a flight recorder lists, by name and group: counts, and no times."""
    keys = [pl.col(name).cast(pl.String) for name in ("name", "process_group", "dtype", "group_ranks")]
    calls = run.enqueued.filter(pl.col("name").is_not_null()).group_by(*keys, "message").agg(
        alike=pl.col("seq").n_unique().cast(pl.Int64), every=pl.len().cast(pl.Int64)).collect()
    rows = calls.select(
        kind="name", group="process_group", dtype="dtype", ranks=pl.col("group_ranks").str.count_matches(r"\d+"),
        count=pl.when(pl.col("message").fill_null(False)).then("every").otherwise("alike"), launches="every",
    ).sort("count", "kind", "group", descending=[True, False, False], nulls_last=True)
    return rows.select(
        pl.col(name).cast(dtype) if name in rows.columns else pl.lit(None, dtype).alias(name)
        for name, dtype in schema.items())


def facts_of(run: Trace, arrivals: Arrivals) -> dict[str, Any]:
    """``devices``: communication time (ns) and overlap (0-1) of each; ``recognised``: what communicates, and by what;
    ``fused``: kernels that compute and communicate; and how collectives were matched across ranks."""
    from ..communication.devices import communication
    from ..communication.experts import experts
    from ..communication.recognised import fused, recognised

    return {
        "devices": [
            {"device": one.device, "rank": one.rank, "comm_ns": one.comm_ns, "exposed_ns": one.exposed_ns,
             "overlap": one.overlap}
            for one in communication(run)
        ],
        "recognised": recognised(run), "fused": fused(run), "experts": experts(run, arrivals),
        "collectives": arrivals.count, "messages": arrivals.paired, "unpaired": arrivals.unpaired,
        "matched_by": arrivals.matching.how, "unmatched": arrivals.matching.unmatched,
    }


def _timed(run: Trace) -> bool:
    """Whether the run has device activities with timestamps (or a reduced dataset's device sums)."""
    if REDUCED in run.info.facts:
        return run.has("device_sums")
    return run.has("kernels.start_ns")


def _notes(arrivals: Arrivals) -> tuple[str, ...]:
    if len(arrivals.members) != 1:
        return arrivals.notes
    return ("Only one rank is open: waits are unknown, and bandwidths are lower bounds, over whole durations.",)


def _summary(rows: pl.DataFrame, late: str | None = None) -> tuple[str, ...]:
    """What is waiting, whom for, and what no kernel overlaps; ``late`` is the sentence on the last rank."""
    count, total, exposed, wait, transfer = (
        int(rows[name].sum() or 0) for name in ("count", "total_ns", "exposed_ns", "wait_ns", "transfer_ns")
    )
    if not count:
        return ("No device ran a collective.",)
    calls = units.counted(count, "collective", "collectives")
    whole = units.duration(total)
    alone = "no kernel overlaps any of it." if exposed == total else (
        f"{units.part_of(exposed, total)} is exposed: no kernel overlaps it.")
    if not rows["wait_ns"].count():
        return (f"{calls}, {whole} on all ranks; {alone}",)
    return (f"{units.part_of(wait, total)} in {calls} on all ranks is waiting for the last rank; transfers take "
            f"{units.duration(transfer)}.", *((late,) if late else ()), alone[0].upper() + alone[1:])


def details(row: dict[str, Any], runs: Runs, options: Options) -> list[Section]:
    """The sections of a collective: arrivals per rank, or its launches where only one rank is recorded."""
    from ..communication.recorded import section
    from ..communication.row_details import sections
    from ..details.row_details import kernel_sections

    arrived = sections(row, runs, options)
    name = row.get("name") or row.get("name_a") or row.get("name_b")
    launched = [] if arrived else kernel_sections({"name": name, "kind": "collective"}, runs, options)
    return [*arrived, *launched, *section(runs, options)]


VIEW = View("collectives", COLUMNS, build, pair_columns=pair_columns(COLUMNS), noun="collectives", details=details)
