"""Builds the Trace of a rocprofiler-compute workload.

Utilisation follows the tool's own definitions (its performance model: "MFMA utilization", "L2-Fabric" and "HBM"):

- ``tensor``: SQ_VALU_MFMA_BUSY_CYCLES / cycles of all matrix units (GRBM_GUI_ACTIVE per die · CUs · SIMDs).
- ``dram``: bytes to and from HBM / bytes its bandwidth could have moved in that time. The L2 counts requests of 32, 64
  and, on MI300, 128 bytes (TCC_BUBBLE), and how many of them went to HBM rather than to a peer or the host. On gfx950
  requests have other sizes too, which these counters do not distinguish; it has separate counters for them.

If a counter or a limit is missing, the fraction is null. Times are those of the pass without counters.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl

from ..ingest import stream
from ..loader import Job
from ..recording.database import tables_of
from ..recording.recording import Recording, one_axis
from ..recording.values import UNNAMED, columns, number, numbers
from ..trace import Device, Info, Trace
from . import panels
from .csv_files import COUNTERS, SYSTEM, TIMES, files_of_workload, frames, rows_of, unread_beside
from .values import fraction, kinds

_INTS = (
    "dispatch_id", "gpu_id", "queue-id", "queue_id", "pid", "tid", "grid_size", "workgroup_size", "lds_per_workgroup",
    "arch_vgpr", "start_timestamp", "end_timestamp",
)
_NOT_COUNTERS = re.compile(
    r"(?:dispatch_?id|kernel_?(?:name|id)|gpu_id|queue.?(?:id|index)|pid|tid|grid_size|workgroup_size|correlation_id"
    r"|lds_per_workgroup|scratch_per_workitem|arch_vgpr|accum_vgpr|sgpr|wave_size|sig|obj|\w*ns|\w+_timestamp|node"
    r"|grd|wgr|lds|scr)(?:_\d+)?(?: \(\d+\))?"
)
_INSTANCE = re.compile(r"(\w+)\[\d+\]")
_LIMITS = (
    "gpu_model", "gpu_arch", "cu_per_gpu", "simd_per_cu", "hbm_bw", "num_xcd", "max_sclk", "total_l2_chan",
    "lds_banks_per_cu", "max_waves_per_cu", "max_mclk", "num_hbm_channels",
)
"""The columns read from ``sysinfo.csv``; its profiled command line and host names are not read."""


_ONE_DIE = ("gfx900", "gfx906", "gfx908", "gfx90a")
_HBM_BYTES = 32  # Bytes per HBM channel and memory clock.


def load(job: Job) -> Trace:
    """Read the opened file and those that belong to it. Raises Unreadable if no dispatch has a time."""
    files = {path.name: path for path in (job.path, *files_of_workload(job.path))}
    counters = job.path if job.path.name != TIMES else files.get(COUNTERS)
    times = files.get(TIMES, job.path)
    file_names = (COUNTERS, TIMES)
    named = job.path.resolve().parent if job.path.name in file_names and SYSTEM in files else None
    label = f"{named.parent.name}/{named.name}" if named is not None else job.path.name.split(".")[0]
    info = Info(
        source=str(job.path), label=label, format="rocprofiler-compute", tool="rocprofiler-compute",
        bytes=sum(path.stat().st_size for path in files.values()), clock="since boot, ns",
    )
    with ThreadPoolExecutor(1) as writer:
        recording = Recording(job, info, writer)
        limits = _limits(files.get(SYSTEM), recording)
        rows = _rows(times, recording)
        if rows.is_empty() and counters is not None and counters != times:
            warning = f"{times.name} lists no dispatches: times are taken from the counter pass"
            recording.faults.sentences.append(warning)
            times, rows = counters, _rows(counters, recording)
        rows, counted = rows.with_row_index("launch"), None
        if counters is not None:
            counted = _matched(rows, rows if counters == times else _rows(counters, recording), recording)
        rows = _utilised(rows, counted, limits)
        _describe(recording, rows, limits)
        recording.activities(rows.select(
            "start", "end", "pid", "device", "tensor", "dram", name="kernel_name",
            stream=pl.coalesce("queue-id", "queue_id"), grid=one_axis("grid_size"), block=one_axis("workgroup_size"),
            registers="arch_vgpr", shared_bytes="lds_per_workgroup",
        ), times.name)
        launches = rows.select("launch", "start", "device", "pid", time=pl.col("end") - pl.col("start"))
        if counted is not None:
            _measured(recording, launches, counted, limits)
        for name, formulas in panels.LEVELS.items():
            if name in files:
                level = _matched(rows, _rows(files[name], recording), recording)
                result = panels.panels(_with_limits(_placed(level, launches), level, limits), formulas)
                recording.measured(result.join(launches.select("launch", "start", "device"), on="launch"))
        job.progress(info.bytes or 0, info.bytes or 0, recording.rows)
        trace = recording.finish(serialised=counters == times)
        read = {name: rows_of(path) for name, path in files.items() if name != SYSTEM}
        trace.info.facts["tables"] = tables_of(read, unread_beside(job.path, list(files.values())) if named else {})
        return trace


def _rows(path: Path, recording: Recording) -> pl.DataFrame:
    """The rows of a file of dispatches: everything that is no text is a number."""
    try:
        with stream.Source(path) as source:
            blocks = list(frames(source, faults=recording.faults, table=path.name))
            if source.fault:
                recording.faults.sentences.append(f"{path.name}: {source.fault}")
    except OSError as error:
        recording.faults.sentences.append(f"{path.name} cannot be read ({(error.strerror or str(error)).lower()})")
        blocks = []
    rows = pl.concat(blocks) if blocks else pl.DataFrame(schema={"kernel_name": pl.String})
    rows = columns(rows, path.name, recording.faults, kinds(_INTS), ["kernel_name"])
    rows = rows.with_columns(
        numbers(rows[name], "real", recording.faults, path.name) for name in rows.columns
        if name not in _INTS and not _NOT_COUNTERS.fullmatch(name)
    )
    return rows.with_columns(
        start="start_timestamp", end="end_timestamp", device=pl.format("GPU {}", "gpu_id")
    )


def _matched(rows: pl.DataFrame, counted: pl.DataFrame, recording: Recording) -> pl.DataFrame:
    """The dispatches of ``counted`` with their ``launch`` in ``rows``; dispatches without one are dropped and counted.

    Dispatch ids begin at 0 in one file and at 1 in another, so the join is on kernel and start. If no start matches
    (files of two passes), it is on kernel and order, where both have the same number of dispatches of the kernel.
    """
    name = pl.col("kernel_name").fill_null(UNNAMED)  # null meets null
    kernel, counted = ["device", "kernel_name"], counted.drop("launch", strict=False).with_columns(name)
    rows = rows.with_columns(name)
    joined = counted.join(rows.select(*kernel, "start", "launch").unique([*kernel, "start"], keep="first"),
                          on=[*kernel, "start"], how="left", maintain_order="left")
    if joined["launch"].null_count() == joined.height:
        first, second = (frame.sort("start", "dispatch_id", maintain_order=True).with_columns(
            at=pl.int_range(pl.len()).over(kernel), of=pl.len().over(kernel)) for frame in (counted, rows))
        joined = first.join(second.select(*kernel, "at", "of", "launch"), on=[*kernel, "at", "of"], how="left")
    # a dispatch written twice keeps its counters once: it would become two launches
    joined = joined.with_columns(launch=pl.when(pl.col("launch").is_first_distinct()).then("launch"))
    if lost := joined["launch"].null_count():
        recording.faults.sentences.append(
            f"counters of {lost:,} of {joined.height:,} dispatches match no timed launch and were left out"
        )
    return joined.drop_nulls("launch")


def _limits(path: Path | None, recording: Recording) -> dict[str, str]:
    """The device's limits from ``sysinfo.csv``; {} if there is no such file or it cannot be read."""
    if path is None:
        return {}
    try:
        with stream.Source(path) as source:
            first = next(frames(source, 1 << 20), pl.DataFrame())
    except OSError:
        return {}
    if first.is_empty():
        recording.faults.sentences.append(f"{path.name} could not be read: utilisation is not known")
        return {}
    row = first.row(0, named=True)
    limits = {name: str(row[name]).strip() for name in _LIMITS if row.get(name)}
    return {name: value for name, value in limits.items() if re.fullmatch(r"[\w. ]{1,40}", value)}


def _number(limits: dict[str, str], name: str) -> float | None:
    if name == "hbm_bw" and name not in limits:  # version 3 left it out; version 2 wrote this product, in GB/s
        clock, channels = _number(limits, "max_mclk"), _number(limits, "num_hbm_channels")
        return clock / 1000 * _HBM_BYTES * channels if clock is not None and channels is not None else None
    value, _ = number(limits.get(name))
    return 1.0 * value if value is not None and 0 < value < 1e12 else None


def _describe(recording: Recording, rows: pl.DataFrame, limits: dict[str, str]) -> None:
    for device in rows["device"].unique().drop_nulls():
        facts: dict[str, object] = {name: limits[name] for name in _LIMITS if name in limits and name != "gpu_model"}
        recording.described[device] = Device(device, limits.get("gpu_model"), facts)


def _utilised(rows: pl.DataFrame, counted: pl.DataFrame | None, limits: dict[str, str]) -> pl.DataFrame:
    """The launches with ``tensor`` and ``dram``, computed from their counters."""
    if counted is None:
        nothing = pl.lit(None, pl.Float64)
        return rows.with_columns(tensor=nothing, dram=nothing)
    moved = _moved(counted, limits)
    hbm = _unknown(counted) if moved is None else moved[2]
    used = counted.select("launch", tensor=_matrix_cycles(counted, limits), moved=hbm)
    bandwidth, time = _number(limits, "hbm_bw"), pl.col("end") - pl.col("start")
    share = pl.col("moved") / (time * bandwidth) if bandwidth else pl.lit(None, pl.Float64)
    rows = rows.join(used, on="launch", how="left", maintain_order="left")
    return rows.with_columns(fraction(pl.col("tensor"), "tensor"), fraction(share, "dram"))


def _counter(rows: pl.DataFrame, *names: str) -> pl.Series | None:
    """The values of the first of these counters that was collected; None if none was."""
    for name in names:
        if name.lower() in rows.columns:
            return rows[name.lower()]
    return None


def _unknown(rows: pl.DataFrame) -> pl.Series:
    return pl.repeat(None, rows.height, dtype=pl.Float64, eager=True)


def _matrix_cycles(rows: pl.DataFrame, limits: dict[str, str]) -> pl.Series:
    busy, active = _counter(rows, "SQ_VALU_MFMA_BUSY_CYCLES"), _counter(rows, "GRBM_GUI_ACTIVE")
    units, simds, parts = _number(limits, "cu_per_gpu"), _simds(limits), _parts(limits)
    if busy is None or active is None or units is None or simds is None or parts is None:
        return _unknown(rows)
    return busy / (active / parts * units * simds)


def _simds(limits: dict[str, str]) -> float | None:
    """SIMD units of a compute unit: recorded, else what AMD's manuals give for every GCN and CDNA device (gfx9)."""
    recorded = _number(limits, "simd_per_cu")
    return 4.0 if recorded is None and limits.get("gpu_arch", "").startswith("gfx9") else recorded


def _parts(limits: dict[str, str]) -> float | None:
    """Compute dies whose cycles GRBM_GUI_ACTIVE sums: recorded, else 1 for devices that AMD builds of a single one."""
    recorded = _number(limits, "num_xcd")
    return 1.0 if recorded is None and limits.get("gpu_arch", "").startswith(_ONE_DIE) else recorded


def _moved(rows: pl.DataFrame, limits: dict[str, str]) -> tuple[pl.Series, pl.Series, pl.Series] | None:
    """Per dispatch: bytes the L2 read, bytes it wrote, and bytes moved to or from HBM; None if a counter is missing."""
    def sums(name: str) -> pl.Series | None:
        return _counter(rows, f"TCC_EA0_{name}_sum", f"TCC_EA_{name}_sum")

    reads, writes = sums("RDREQ"), sums("WRREQ")
    small, large = sums("RDREQ_32B"), sums("WRREQ_64B")
    read_there, written_there = sums("RDREQ_DRAM"), sums("WRREQ_DRAM")
    if reads is None or writes is None or small is None or large is None or read_there is None or written_there is None:
        return None
    wide = _counter(rows, "TCC_BUBBLE_sum")
    if limits.get("gpu_arch", "").startswith("gfx950"):
        wide, medium = sums("RDREQ_128B"), sums("RDREQ_64B")
        if wide is None or medium is None:
            return None
        bytes_read = small * 32 + medium * 64 + wide * 128
    else:
        bytes_read = small * 32 + (reads - small) * 64 + (wide * 64 if wide is not None else 0)
    written = large * 64 + (writes - large) * 32
    return bytes_read, written, bytes_read * _share(read_there, reads) + written * _share(written_there, writes)


def _share(numerator: pl.Series, denominator: pl.Series) -> pl.Series:
    """The fraction of the requests; 0 if there are none."""
    share = numerator / denominator
    return share.set((denominator == 0).fill_null(False), 0.0)


def _placed(counted: pl.DataFrame, launches: pl.DataFrame) -> pl.DataFrame:
    """The counters of each dispatch as numbers, with the columns of its launch."""
    return counted.select("launch", *(
        name for name in counted.columns
        if not _NOT_COUNTERS.fullmatch(name) and name not in ("start", "end", "device", "launch", "at", "of")
    )).join(launches, on="launch", how="left", maintain_order="left")


def _measured(
    recording: Recording, launches: pl.DataFrame, counted: pl.DataFrame, limits: dict[str, str]
) -> None:
    """Add every counter as a sample at the start of its dispatch (single channels summed) and as a metric of the
    launch, and add the panels computed from them."""
    placed = _placed(counted, launches)
    names = {name: _recorded_name(name) for name in placed.columns if name not in launches.columns}
    _samples(recording, placed, names)
    parts, channels = panels.by_channel(placed, names)
    result = pl.concat([panels.panels(_with_limits(placed, counted, limits)), parts, panels.by_block(placed, names)])
    recording.measured(result.join(launches.select("launch", "start", "device"), on="launch"))
    if channels:
        counters = parts["metric"].n_unique() // 4
        read = "1 counter" if counters == 1 else f"{counters} counters"
        recording.notes.append(f"{channels:,} columns of single L2 channels are summarised as {read}: mean, standard "
                               "deviation, min and max over the channels.")


def _recorded_name(name: str) -> str:
    return name.upper().replace("_SUM", "_sum")


def _with_limits(placed: pl.DataFrame, counted: pl.DataFrame, limits: dict[str, str]) -> pl.DataFrame:
    """The counters with the other inputs of the panel formulas; a limit that was not recorded has no column."""
    named = {"cu": "cu_per_gpu", "simd": "simd_per_cu", "sclk": "max_sclk", "hbm_bw": "hbm_bw",
             "channels": "total_l2_chan", "lds_banks": "lds_banks_per_cu", "max_waves": "max_waves_per_cu"}
    limited = {name: number for name, limit in named.items() if (number := _number(limits, limit)) is not None}
    placed = placed.rename({name: name.replace("tcc_ea0_", "tcc_ea_") for name in placed.columns})
    channels: dict[str, list[str]] = {}
    for name in placed.columns:
        if (single := _INSTANCE.fullmatch(name)) and f"{single[1]}_sum" not in placed.columns:
            channels.setdefault(f"{single[1]}_sum", []).append(name)
    placed = placed.with_columns(**{name: pl.sum_horizontal(of) for name, of in channels.items()})
    if (moved := _moved(counted, limits)) is not None:
        placed = placed.with_columns(**dict(zip(("bytes_read", "bytes_written", "bytes_hbm"), moved, strict=True)))
    if "grbm_gui_active" in placed.columns:
        placed = placed.with_columns(active=pl.col("grbm_gui_active") / pl.lit(_parts(limits), pl.Float64))
    return placed.with_columns(pl.col("time").cast(pl.Float64), **{k: pl.lit(v) for k, v in limited.items()})


def _samples(recording: Recording, placed: pl.DataFrame, names: dict[str, str]) -> None:
    sums: dict[str, pl.Series] = {}
    for column, name in names.items():
        single = _INSTANCE.fullmatch(column)
        if single and f"{single[1]}_sum" in names:
            continue
        key = _recorded_name(f"{single[1]}_sum") if single else name
        sums[key] = sums[key] + placed[column] if key in sums else placed[column]
    for name, total in sums.items():
        recording.samples(placed.select(
            "device", "pid", ts_ns="start", metric=pl.lit(name), unit=pl.lit(""), value=total
        ).drop_nulls(["value", "ts_ns"]), "counters")
