"""Kernels that stand out by name, duration or launch shape: FP32 GEMMs, very short kernels, low occupancy."""

from __future__ import annotations

from typing import Any

import polars as pl
from msgspec import Struct

from ....loaders.schema import NAME
from ....loaders.trace import Device, Trace
from ...core.derived import derived_value
from ...kernels.tensor_cores import FP32, is_other_maker, named, tensor_core_types
from ...kernels.tensor_cores import KERNEL as ON_TENSOR_CORES
from ...measured.limits import limiters_of

SHORT_NS = 5_000  # A kernel this short takes about as long as launching it.
LOW = 0.25  # Occupancy below this is low.
_PARTS = 1e9  # Occupancy is summed as integers in units of 1 over this.
_MATRIX = "(?i)gemm|conv|fprop|[dw]grad|attention|flash|fmha|cudnn|winograd|nvjet"
_SIZE = ("block", "registers", "shared_bytes")
REGISTERS, UNIT, WARP, MOST_BLOCKS = 65_536, 8, 32, 32


class Named(Struct, frozen=True):
    """Some kernels: number of launches, total time in ns, and the kernel that takes most of it with its own time."""

    count: int
    total_ns: int
    name: str
    name_ns: int

    @property
    def rows(self) -> tuple[dict[str, Any], ...]:
        """The kernel with most time as a row of evidence."""
        return ({"name": self.name, "total_ns": self.name_ns},)


class Starved(Struct, frozen=True):
    """Kernels whose registers, block size or shared memory leave room for few warps, with what limits them."""

    kernels: Named
    limiter: str
    occupancy: float


class KernelTimes(Struct, frozen=True):
    """All compute kernels: launches, total ns, and those that stand out (None where none does). ``shaped``: block sizes
    and registers are known. ``tensor_types``: types that the devices' tensor cores support, None if unknown."""

    count: int
    total_ns: int
    fp32: Named | None
    short: Named | None
    starved: Starved | None
    shaped: bool
    tensor_types: tuple[str, ...] | None


def kernel_times_of(piece: Trace) -> KernelTimes | None:
    """The kernels of the run by name and launch shape; None if no single launches are recorded."""
    return derived_value(piece, "kernel-times", KernelTimes | None, lambda: _kernel_times(piece))


def _kernel_times(piece: Trace) -> KernelTimes | None:
    has_occupancy = pl.col("occupancy").is_not_null() & pl.col("registers").is_not_null()
    low_ns = pl.col("dur_ns").filter(has_occupancy & (pl.col("occupancy") < LOW) & (pl.col("occupancy") > 0)).sum()
    launches = piece.kernels.filter(pl.col("kind") == "kernel", pl.col("dur_ns").is_not_null()).with_columns(
        short=pl.col("dur_ns") < SHORT_NS)
    rows = launches.group_by("name", "short").agg(
        count=pl.len(), total_ns=pl.col("dur_ns").cast(pl.Int64).sum(), low_ns=low_ns,
        shaped=pl.col("registers").is_not_null().any(),
    ).with_columns(pl.col("name").cast(pl.String)).collect(engine="streaming")
    if rows.is_empty():
        return None
    return KernelTimes(
        int(rows["count"].sum()), int(rows["total_ns"].sum()),
        _named(rows.filter(named(FP32))), _named(rows.filter("short")),
        *_starved_or_shaped(piece, launches, low_ns, rows),
        tensor_core_types(piece.info.devices, rows["name"].unique().drop_nulls()),
    )


def _starved_or_shaped(
    piece: Trace, launches: pl.LazyFrame, low_ns: pl.Expr, rows: pl.DataFrame
) -> tuple[Starved | None, bool]:
    """The kernels whose launch shape limits occupancy, and whether shapes are known. The profiler's own limiters are
    used where recorded."""
    limits = limiters_of(piece)
    if limits is None:
        return _starved(launches, low_ns, _low_names(rows), piece.info.devices), bool(rows["shaped"].any())
    low = launches.join(limits.lazy(), on="index").filter(
        pl.col("occupancy").is_between(0, LOW, closed="none"), pl.col("allowed") < LOW
    ).group_by("name", "limiter").agg(
        count=pl.len(), low_ns=pl.col("dur_ns").sum(), occupancy=pl.col("occupancy").cast(pl.Float64).mean()
    ).with_columns(pl.col("name").cast(pl.String)).collect().sort("limiter", "name")
    return _worst(low.filter(~(named(_MATRIX) | named(ON_TENSOR_CORES)))), True


def _named(rows: pl.DataFrame, time: str = "total_ns") -> Named | None:
    if rows.is_empty():
        return None
    sums = rows.group_by("name").agg(pl.col(time).sum()).sort(time, "name", descending=[True, False])
    return Named(int(rows["count"].sum()), int(rows[time].sum()), str(sums["name"][0]), int(sums[time][0]))


def _low_names(rows: pl.DataFrame) -> list[str]:
    """Kernels with low occupancy, without GEMMs, convolutions and attention, which are designed that way."""
    low = rows.filter(pl.col("low_ns") > 0, ~(named(_MATRIX) | named(ON_TENSOR_CORES)))
    return low["name"].unique().drop_nulls().to_list()


def _starved(launches: pl.LazyFrame, low_ns: pl.Expr, names: list[str], devices: tuple[Device, ...]) -> Starved | None:
    """The kernels of these names whose launch shape keeps occupancy low. Only these are grouped by shape: there may be
    as many shapes as launches."""
    if not names or any(is_other_maker(one) for one in devices):  # limits of other vendors differ
        return None
    properties = next((one.properties for one in devices if one.properties), {})
    starved = pl.col("occupancy").filter(pl.col("occupancy") < LOW)
    # integers, whose sum does not depend on the order in which threads deliver them
    mean_occupancy = (starved * _PARTS).round().cast(pl.Int64).sum() / starved.len() / _PARTS
    low = launches.filter(pl.col("name").is_in(pl.Series(names, dtype=NAME).implode())).group_by(
        "name", *_SIZE, "short"
    ).agg(
        count=pl.len(), low_ns=low_ns, occupancy=mean_occupancy,
    ).filter(pl.col("low_ns") > 0).with_columns(pl.col("name", "block").cast(pl.String)).collect(engine="streaming")
    low = low.sort("name", *_SIZE, "short")
    sizes = low.select(_SIZE).unique(maintain_order=True)
    limits = [limiter(block, registers, shared, properties) for block, registers, shared in sizes.iter_rows()]
    named = [limit[0] if limit is not None and limit[1] < LOW else None for limit in limits]
    limiters = sizes.with_columns(limiter=pl.Series(named, dtype=pl.String))
    low = low.join(limiters, on=_SIZE, how="inner", nulls_equal=True, maintain_order="left")
    return _worst(low.drop_nulls("limiter"))


def _worst(low: pl.DataFrame) -> Starved | None:
    """The kernels of the limiter with most time."""
    best: Starved | None = None
    for (name,), frame in low.group_by("limiter", maintain_order=True):
        worst = _named(frame, "low_ns")
        if worst is not None and (best is None or worst.total_ns > best.kernels.total_ns):
            mean = float((frame["occupancy"] * frame["low_ns"]).sum() / worst.total_ns)
            best = Starved(worst, str(name), mean)
    return best


def limiter(
    block: str | None, registers: int | None, shared: int | None, properties: dict[str, object]
) -> tuple[str, float] | None:
    """What limits the warps of an SM, and the occupancy it allows, 0-1, by NVIDIA's occupancy rules. Registers are
    allocated in units of eight per thread. None if block size or registers were not recorded."""
    threads = 1
    for part in (block or "0").split(","):
        threads *= int(part) if part.strip().isdigit() else 0
    if not threads or not registers:
        return None
    most = properties.get("maxThreadsPerMultiprocessor") or properties.get("maxThreadsPerMultiProcessor")
    room = most if isinstance(most, int) and most > 0 else 2048
    warps = -(-threads // WARP)
    blocks = {
        "registers": REGISTERS // (-(-registers // UNIT) * UNIT * warps * WARP),
        "block size": min(room // (warps * WARP), MOST_BLOCKS),
    }
    held = properties.get("sharedMemPerMultiprocessor")
    if shared and isinstance(held, int) and held > 0:
        blocks["shared memory"] = held // shared
    least = min(blocks, key=lambda name: blocks[name])
    return least, min(1.0, blocks[least] * warps * WARP / room)
