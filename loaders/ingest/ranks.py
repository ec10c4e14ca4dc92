"""Merges several files of one job into one Trace: assigns ranks and joins successive recordings of one process.

The rank is the one recorded in the file, else its place in the layout that the names carry ('rank-3', 'PP1_TP0'), else
the only number in which the names differ. Names are believed only of recordings that overlap in time: runs made one
after another carry such names too. Mere numbers are ranks only where a clock shows the overlap, and only of different
processes or devices. What cannot be told is refused, and each recording can be opened by itself.

Files whose names differ only in a timestamp, in a step number (of file or folder) or in the stage of a serving engine
come from one process: they are successive windows, as a profiler schedule writes them, not ranks, and are joined first,
provided all record an absolute time. Processes that only drive the ranks of a serving engine are left out.

Times are converted to one clock if every file records its absolute zero; otherwise each keeps its own zero, with a
warning. Launch indices continue from file to file, so that they stay unique.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from .. import registry
from ..errors import Unreadable
from ..trace import RECOGNITION, Info, Trace
from . import discovery
from .rank_names import RanksOf, ranks_of, recordings

if TYPE_CHECKING:
    import polars as pl


_CLOCKED = {
    "kernels": "start_ns", "host": "start_ns", "cycles": "start_ns", "profile": "cycle_start_ns", "metrics": "ts_ns",
    "allocations": "start_ns", "call_chains": "start_ns",
}
_TIES = {"kernels": ("correlation", "op_id"), "host": ("correlation", "external_id")}
"""Ids that link calls and activities; a profiler may restart them in each window."""


def merge(
    source: str, label: str, traces: Sequence[Trace], ranks: Sequence[int], places: Sequence[str] = ()
) -> Trace:
    """One Trace of all ranks, in rank order, with the column ``rank`` filled in every table that has it. ``places``:
    each trace's place in a layout."""
    ordered = sorted(zip(ranks, traces, strict=True), key=lambda pair: pair[0])
    names = {str(rank): place for rank, place in sorted(zip(ranks, places, strict=False))}
    infos = [trace.info for _, trace in ordered]
    epochs = [info.epoch_ns for info in infos if info.epoch_ns is not None]
    zero = min(epochs) if len(epochs) == len(infos) else None
    warnings = [f"rank {rank}: {warning}" for rank, trace in ordered for warning in trace.info.warnings]
    if zero is None and epochs:
        warnings.append("not every rank recorded an absolute time: each starts at its own 0")
    info = replace(
        infos[0], source=source, label=label, epoch_ns=zero, warnings=tuple(warnings), **totals(infos),
        ranks=tuple(rank for rank, _ in ordered),
        facts={
            **infos[0].facts, **_recognition(infos), **_counts(infos), "threads": {},
            "files": {str(rank): trace.info.source for rank, trace in ordered},
            "hosts": {str(rank): trace.info.facts.get("host_name") for rank, trace in ordered},
            **({"processes": names} if names else {}),
        },
    )
    return _concatenated(info, [trace for _, trace in ordered], [rank for rank, _ in ordered], zero)


def joined(source: str, label: str, windows: Sequence[Trace]) -> Trace:
    """Successive recordings of one process as one Trace, in time order; gaps between them were not recorded."""
    ordered = sorted(windows, key=lambda trace: trace.info.epoch_ns or 0)
    infos = [trace.info for trace in ordered]
    gap_warning = f"{len(ordered)} successive recordings of one process: the time between them was not recorded"
    warnings = dict.fromkeys(warning for info in infos for warning in info.warnings)
    info = replace(
        infos[0], source=source, label=label, bytes=totals(infos)["bytes"], warnings=(gap_warning, *warnings),
        facts={**infos[0].facts, **_counts(infos)},
    )
    return _concatenated(info, ordered, [None] * len(ordered), infos[0].epoch_ns or 0)


def _recognition(infos: Sequence[Info]) -> dict[str, Any]:
    """What communicates in the recordings together: their kernels have kinds already, the names of fused ones add."""
    every = [info.facts[RECOGNITION] for info in infos if RECOGNITION in info.facts]
    fused = sorted({name for one in every for name in one["fused"]})
    nothing: dict[str, Any] = {"shapes": [], "set": [], "unset": [], "unlabelled": False}
    return {RECOGNITION: {**nothing, "fused": fused}} if every else {}


def _counts(infos: Sequence[Info]) -> dict[str, Any]:
    """The rows of every table of the recordings together, and what was left out of them, as ``doctor`` lists them."""
    rows: Counter[tuple[str, bool]] = Counter()
    ignored: Counter[str] = Counter()
    for info in infos:
        for table, count, is_read in info.facts.get("tables") or ():
            rows[table, is_read] += count
        ignored.update(info.facts.get("ignored") or {})
    tables = [[table, count, is_read] for (table, is_read), count in sorted(rows.items())]
    return {name: value for name, value in (("tables", tables), ("ignored", dict(ignored))) if value}


def totals(infos: Sequence[Info]) -> dict[str, Any]:
    """Combined Info fields of several recordings: ``bytes``, ``coverage``, ``devices`` and ``serialised``."""
    sizes = [info.bytes for info in infos if info.bytes is not None]
    covered = [(info.coverage, info.bytes or 1) for info in infos if info.coverage is not None]
    weight = sum(size for _, size in covered)
    devices = {device.id: device for info in reversed(infos) for device in info.devices}
    return {
        "bytes": sum(sizes) if sizes else None,
        "coverage": sum(share * size for share, size in covered) / weight if covered else None,
        "devices": tuple(devices[key] for key in sorted(devices, key=_by_number)),
        "serialised": any(info.serialised for info in infos),
    }


def _concatenated(info: Info, traces: Sequence[Trace], ranks: Sequence[int | None], zero: int | None) -> Trace:
    """Concatenate the tables, with times relative to ``zero`` if known; ranks are None for windows of one process."""
    import polars as pl

    from ..schema import columns_of

    frames: dict[str, list[pl.LazyFrame]] = {}
    before, highest = {"kernels": 0, "host": 0}, 0
    for rank, trace in zip(ranks, traces, strict=True):
        shift = 0 if zero is None else (trace.info.epoch_ns or 0) - zero
        rows, ties = dict(before), highest
        for name in trace.filled_tables():
            table = trace.table(name)
            columns = columns_of(table).names()
            moved = []
            if rank is not None and "rank" in columns:
                alone = len(trace.info.ranks) < 2
                moved.append(pl.lit(rank, pl.Int64).alias("rank") if alone else pl.col("rank").fill_null(rank))
            if shift and name in _CLOCKED:
                moved.append(pl.col(_CLOCKED[name]) + shift)
            if rows["kernels"]:
                moved += [
                    pl.col(c) + rows["kernels"] for c in ("index", "first_index", "last_index")
                    if c in columns and name != "host"
                ]
            if rows["host"] and name == "host":
                moved += [pl.col("parent") + rows["host"], pl.col("index") + rows["host"]]
            if rows["host"] and name == "kernels":
                moved.append(pl.col("flow") + rows["host"])
            if rank is None and ties:  # ids of 0 or less link nothing
                moved += [pl.when(pl.col(c) > 0).then(pl.col(c) + ties).otherwise(c) for c in _TIES.get(name, ())]
            if rank is None and "offset" in columns:  # without a rank the file of an offset is unknown
                moved.append(pl.lit(None, pl.Int64).alias("offset"))
            placed = table.with_columns(moved) if moved else table
            frames.setdefault(name, []).append(placed)
            if name in before:
                before[name] += table.select(pl.len()).collect(engine="streaming").item()
            if rank is None and name in _TIES:
                largest = placed.select(pl.max_horizontal(pl.col(_TIES[name]).max())).collect(engine="streaming").item()
                highest = max(highest, largest or 0)
    return Trace(info).with_tables(**{name: pl.concat(tables) for name, tables in frames.items()})


def _by_number(device: str) -> tuple[int, str]:
    number = re.search(r"\d+", device)
    return (int(number.group()) if number else -1, device)


DRIVER = re.compile(
    r"async_?llm|scheduler|tokenizer|front_?end|api_?server|engine_?core|router|controller", re.IGNORECASE,
)
"""Names of serving engine processes that drive ranks but are not ranks."""


def job_of(display_name: str, singles: Sequence[Trace]) -> Trace:
    """All recordings as one run. Raises Unreadable if they are neither ranks of one job nor windows of one process."""
    runs, drivers = _without_drivers(singles)
    label = Path(os.path.abspath(display_name)).name or display_name
    job = _joined(display_name, label, runs) if len(runs) > 1 else runs[0]
    return job.warn(*(
        f"{Path(trace.info.source).name} is from a process that only drives the ranks (no device activity): left "
        "out; open it alone to see it" for trace in drivers
    )) if drivers else job


def ranks_together(runs: Sequence[Trace]) -> Trace | None:
    """Recordings of one format as one run if each records its own, distinct rank; else None."""
    recorded = [run.info.ranks for run in runs]
    distinct = {numbers for numbers in recorded if len(numbers) == 1}
    if len(runs) < 2 or len(distinct) < len(runs):
        return None
    if len({run.info.format for run in runs}) > 1:
        return None
    label = f"{runs[0].info.label} and {len(runs) - 1} more rank{'s' if len(runs) > 2 else ''}"
    return merge(runs[0].info.source, label, runs, [rank for (rank,) in recorded])


def _without_drivers(singles: Sequence[Trace]) -> tuple[list[Trace], list[Trace]]:
    """(recordings of ranks, recordings of driver processes of a serving engine); all count as ranks if only drivers."""
    drivers = [
        trace for trace in singles
        if not trace.info.ranks and DRIVER.search(Path(trace.info.source).name) and not trace.has("kernels")
    ]
    others = [trace for trace in singles if not any(trace is driver for driver in drivers)]
    return (others, drivers) if others else (list(singles), [])


def _joined(display_name: str, label: str, singles: Sequence[Trace]) -> Trace:
    files = [Path(file) for file in dict.fromkeys(trace.info.source for trace in singles)]
    formats = {trace.info.format for trace in singles}
    if len(singles) == len(files) and len(formats) == 1:
        named = ranks_of(files, [trace.info.ranks for trace in singles])
        if named is None and _one_run(formats):
            named = RanksOf(list(range(len(files))), "recorded", [])
        if (passes := _passes(display_name, label, files, singles)) is not None:
            return passes
        if named is not None and (why := _no_ranks(named, singles)) is not None:
            raise Unreadable(display_name, f"holds {len(files)} recordings {why}", _each(display_name, files))
        if named is not None:
            return merge(display_name, label, singles, named.ranks, named.labels)
        if (run := _windowed(display_name, label, files, singles)) is not None:
            return run
    reason = f"holds {len(files)} recordings that are not the ranks of one job{_twice(files, singles)}"
    raise Unreadable(display_name, reason, _each(display_name, files))


_NEAR_NS = 10**8  # By which the clocks of machines may be apart where names say that recordings belong together.


def _each(display_name: str, files: Sequence[Path]) -> str:
    named = discovery.runs_under(Path(display_name), files)
    return f"{named} --worker N takes one, from 0."


def _no_ranks(named: RanksOf, singles: Sequence[Trace]) -> str | None:
    """Why recordings are not the ranks that their names make them; None where they are."""
    if named.by == "recorded":
        return None
    epochs = [trace.info.epoch_ns for trace in singles]
    begins = sorted((begin, begin + _length(trace)) for begin, trace in zip(epochs, singles, strict=True)
                    if begin is not None)
    known, near = len(begins) == len(singles), _NEAR_NS if named.by == "layout" else 0
    reached = list(accumulate((end for _, end in begins), max))
    if known and any(after[0] - end > near for after, end in zip(begins[1:], reached, strict=False)):
        return "made one after another: they are not the ranks of one job"
    if named.by == "layout":
        return None
    if not known:
        return "without a common clock, whose names differ in a number alone: nothing says they are ranks of one job"
    return None if _differ(singles) else "of the same process and device: they are not the ranks of one job"


def _differ(singles: Sequence[Trace]) -> bool:
    """Whether all recordings are of different processes, or of different devices."""
    import polars as pl

    for table, column in (("host", "pid"), ("kernels", "device")):
        each = [set(trace.table(table).select(pl.col(column).drop_nulls().unique()).collect(engine="streaming")[column])
                for trace in singles]
        if all(each) and sum(map(len, each)) == len(set().union(*each)):
            return True
    return False


def _length(trace: Trace) -> int:
    """The time from a recording's zero to its last end, ns."""
    import polars as pl

    ends = [
        trace.table(name).select((pl.col("start_ns") + pl.col("dur_ns").fill_null(0)).max()).collect(
            engine="streaming").item() for name in ("kernels", "host") if trace.has(name)
    ]
    return max((end for end in ends if end is not None), default=0)


_PASS = re.compile(r"(?:pmc|pass)[-_]?(\d{1,6})", re.IGNORECASE)


def _passes(source: str, label: str, files: Sequence[Path], singles: Sequence[Trace]) -> Trace | None:
    """Recordings under folders ``pmc_N`` as one program that ran once for each set of counters, if each launched the
    same kernels in the same order: the launches of the first pass, with the counters of all. None for others."""
    import polars as pl

    from ..schema import columns_of

    numbers = [next(filter(None, map(_PASS.fullmatch, reversed(file.parts[:-1]))), None) for file in files]
    if not all(numbers) or not all(trace.has("kernels") for trace in singles):
        return None
    order = sorted(range(len(files)), key=lambda at: int((numbers[at] or [0, 0])[1]))
    launches = [singles[at].kernels.filter(pl.col("kind").is_in(["kernel", "collective"])).select(
        "index", "start_ns", "device", pl.col("name").cast(pl.String)).collect() for at in order]
    if any(not one["name"].equals(launches[0]["name"]) for one in launches):
        return None
    first = singles[order[0]]
    measured, samples = [first.launch_metrics], [first.metrics]
    for at, own in zip(order[1:], launches[1:], strict=True):
        moved = own.select(_old="index", _then="start_ns", device="device").with_columns(
            _new=launches[0]["index"], _now=launches[0]["start_ns"]).lazy()
        trace = singles[at]
        if trace.has("launch_metrics"):
            measured.append(trace.launch_metrics.join(
                moved.select("_new", index="_old"), on="index", how="left", maintain_order="left"
            ).with_columns(index="_new").drop("_new"))
        if trace.has("metrics"):
            samples.append(trace.metrics.join(
                moved.unique(["_then", "device"], keep="first").select("_now", "device", ts_ns="_then"),
                on=["ts_ns", "device"], how="inner", maintain_order="left").with_columns(ts_ns="_now").drop("_now"))
    warnings = dict.fromkeys(warning for trace in singles for warning in trace.info.warnings)
    note = f"{len(files)} passes: a program that ran once for each set of counters; its launches are counted once"
    columns = [pl.concat([one.select(columns_of(tables[0]).names()) for one in tables])
               for tables in (measured, samples)]
    return replace(first, info=replace(first.info, source=source, label=label, warnings=(*warnings, note))).with_tables(
        launch_metrics=columns[0].sort("index", maintain_order=True),
        metrics=columns[1].sort("ts_ns", maintain_order=True))


def _twice(files: Sequence[Path], singles: Sequence[Trace]) -> str:
    """The end of a sentence that names two files with the same recorded rank, or one without a rank; '' if neither."""
    sources: dict[tuple[int, ...], str] = {}
    for file, trace in zip(files, singles, strict=False):
        ranks = trace.info.ranks
        if ranks and ranks in sources:
            which = f"rank {ranks[0]}" if len(ranks) == 1 else "the same ranks"
            return f": {sources[ranks]} and {file.name} both say they are {which}"
        sources[ranks] = file.name
    if len({bool(ranks) for ranks in sources}) > 1:
        return f": {sources[()]} records no rank, and the file names do not match the ranks recorded in the others"
    return ""


def _windowed(display_name: str, label: str, files: list[Path], singles: Sequence[Trace]) -> Trace | None:
    """Join the windows of each process and merge the processes; None if the result is not one job."""
    of_file = dict(zip(files, singles, strict=True))
    groups = [[of_file[file] for file in group] for group in recordings(files)]
    if len(groups) == len(files) or not all(map(_of_one_process, groups)):
        return None
    if len(groups) == 1:
        return joined(display_name, label, groups[0])
    processes = [
        group[0] if len(group) == 1 else joined(group[0].info.source, group[0].info.label, group)
        for group in groups
    ]
    sources = [Path(run.info.source) for run in processes]
    named = ranks_of(sources, [run.info.ranks for run in processes])
    return None if named is None else merge(display_name, label, processes, named.ranks, named.labels)


def _of_one_process(group: Sequence[Trace]) -> bool:
    """Whether recordings with the process name in common have the same rank and all record an absolute time."""
    if len(group) == 1:
        return True
    return len({trace.info.ranks for trace in group}) == 1 and all(trace.info.epoch_ns is not None for trace in group)


def _one_run(formats: set[str]) -> bool:
    """Whether files of the format in one folder are always one run, whatever their names."""
    return all(loader.folder_is_one_run for loader in registry.loaders() if loader.name in formats)
